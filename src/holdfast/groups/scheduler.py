"""Turns: what came in together is dealt with, sent and synced together (S5).

An event asks for a turn of its group; all turns asked for are taken at the end of what came in, and the logs
are flushed after them. A group may also ask for a turn at some later time.

When groups must have a turn though nothing comes in: of all that one asked for, the earliest.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import MakeTimers
from holdfast.model.ids import GroupId
from holdfast.model.ports import Clock, TimerId


class _Wake(NamedTuple):
    due_ns: int
    timer: TimerId


class Wakes:
    """By the wall clock: durable timers know no other. *on_wake* is told once for each wake."""

    def __init__(self, timers: MakeTimers, clock: Clock, on_wake: Callable[[GroupId], None]) -> None:
        self._timers = timers(self._on_timer)
        self._clock = clock
        self._on_wake = on_wake
        self._wakes: dict[GroupId, _Wake] = {}

    def by(self, group: GroupId, due_ns: int) -> None:
        """Wake *group* at the latest then: what it asked for before stands, if that is earlier."""
        known = self._wakes.get(group)
        if known is not None and known.due_ns <= due_ns:
            return
        self.forget(group)
        delay_ns = max(due_ns - self._clock.wall(), 0)
        self._wakes[group] = _Wake(due_ns, self._timers.set(delay_ns, group))

    def forget(self, group: GroupId) -> None:
        """It has its turn now, or never again."""
        known = self._wakes.pop(group, None)
        if known is not None:
            self._timers.cancel(known.timer)

    def close(self) -> None:
        self._timers.close()

    def _on_timer(self, tag: Hashable) -> None:
        group: GroupId = tag  # type: ignore[assignment]  # no other tag is ever set
        self._wakes.pop(group, None)
        self._on_wake(group)


Soon = Callable[[Callable[[], None]], None]
Guarded = Callable[[Callable[..., None]], Callable[..., None]]


class Scheduler:
    """Of all groups of one host. *flush* flushes the logs, *after* is told of every turn that was taken."""

    def __init__(
        self,
        housed: Mapping[GroupId, HostedGroup],
        clock: Clock,
        timers: MakeTimers,
        soon: Soon,
        guarded: Guarded,
        *,
        flush: Callable[[], None],
        after: Callable[[HostedGroup], None],
    ) -> None:
        self._housed = housed
        self._soon = soon
        self._flush_logs = flush
        self._after = after
        self._asked: dict[HostedGroup, None] = {}
        self._wakes = Wakes(timers, clock, self._on_wake)
        self._is_flush_asked = False
        # Made once: these run at every turn.
        self._take_guarded = guarded(self._take)
        self._flush_guarded = guarded(self._flush)

    def later(self, housed: HostedGroup) -> None:
        """Let it have a turn at the end of what came in."""
        if not self._asked:
            self._soon(self._take_guarded)
        self._asked[housed] = None

    def by(self, group: GroupId, due_ns: int) -> None:
        """Let it have a turn at the latest then, by the wall clock."""
        self._wakes.by(group, due_ns)

    def ask_flush(self) -> None:
        if not self._is_flush_asked:
            self._is_flush_asked = True
            self._soon(self._flush_guarded)

    def forget(self, housed: HostedGroup) -> None:
        """It has no turns any more."""
        self._asked.pop(housed, None)
        self._wakes.forget(housed.group)

    def close(self) -> None:
        self._wakes.close()

    def _take(self) -> None:
        asked, self._asked = iter(self._asked), {}
        try:
            for housed in asked:
                self._wakes.forget(housed.group)
                due_ns = housed.turn()
                self._after(housed)
                # Within its turn it may have asked to be woken in a moment: that stands.
                if due_ns is not None:
                    self._wakes.by(housed.group, due_ns)
        except Exception:
            # It is that group's alone: what the others behind it have ordered must leave.
            for housed in asked:
                self.later(housed)
            raise

    def _on_wake(self, group: GroupId) -> None:
        housed = self._housed.get(group)
        if housed is not None:
            housed.ask_turn()

    def _flush(self) -> None:
        self._is_flush_asked = False
        self._flush_logs()
