"""Gives groups their turns, so that what arrives together is processed, sent and synced together (S5).

An event asks for a turn of its group. All requested turns run at the end of the batch of events that arrived
together, and the logs are flushed after them. A group may also ask for a turn at a later time, even if
nothing arrives; :class:`Wakes` keeps the earliest such time of each group.
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
    """When groups must be woken, by the wall clock, which is the only clock that durable timers use.
    *on_wake* is called once for each wake."""

    def __init__(self, timers: MakeTimers, clock: Clock, on_wake: Callable[[GroupId], None]) -> None:
        self._timers = timers(self._on_timer)
        self._clock = clock
        self._on_wake = on_wake
        self.set_for: dict[GroupId, _Wake] = {}
        """Only read elsewhere."""

    def by(self, group: GroupId, due_ns: int) -> None:
        """Wake *group* at *due_ns* at the latest. An earlier wake that it asked for before stays."""
        known = self.set_for.get(group)
        if known is not None and known.due_ns <= due_ns:
            return
        self.forget(group)
        delay_ns = max(due_ns - self._clock.wall(), 0)
        self.set_for[group] = _Wake(due_ns, self._timers.set(delay_ns, group))

    def forget(self, group: GroupId) -> None:
        """Cancel the wake of a group that has its turn now, or never again."""
        known = self.set_for.pop(group, None)
        if known is not None:
            self._timers.cancel(known.timer)

    def close(self) -> None:
        self._timers.close()

    def _on_timer(self, tag: Hashable) -> None:
        group: GroupId = tag  # type: ignore[assignment]  # no other tag is ever set
        self.set_for.pop(group, None)
        self._on_wake(group)


Soon = Callable[[Callable[[], None]], object]
Guarded = Callable[[Callable[..., None]], Callable[..., None]]


class Scheduler:
    """Runs the turns of all groups of one host. *after* is called after every turn."""

    def __init__(
        self,
        hosted: Mapping[GroupId, HostedGroup],
        clock: Clock,
        timers: MakeTimers,
        soon: Soon,
        guarded: Guarded,
        *,
        after: Callable[[HostedGroup], None],
    ) -> None:
        self._hosted = hosted
        self._soon = soon
        self.flush_logs: Callable[[], None]
        """Flushes the logs of the host; set before anything asks for a flush."""
        self._after = after
        self._asked: dict[HostedGroup, None] = {}
        self._wakes = Wakes(timers, clock, self._on_wake)
        self._is_flush_asked = False
        # These handlers run at every turn, so they are wrapped only once.
        self._take_guarded = guarded(self._take)
        self._flush_guarded = guarded(self._flush)

    def later(self, hosted: HostedGroup) -> None:
        """Give the group a turn at the end of the current batch of events."""
        if not self._asked:
            self._soon(self._take_guarded)
        self._asked[hosted] = None

    def by(self, group: GroupId, due_ns: int) -> None:
        """Give the group a turn at *due_ns* at the latest, by the wall clock."""
        self._wakes.by(group, due_ns)

    def ask_flush(self) -> None:
        if not self._is_flush_asked:
            self._is_flush_asked = True
            self._soon(self._flush_guarded)

    def forget(self, hosted: HostedGroup) -> None:
        """Give the group no more turns."""
        self._asked.pop(hosted, None)
        self._wakes.forget(hosted.group)

    def close(self) -> None:
        self._wakes.close()

    def _take(self) -> None:
        asked, self._asked = iter(self._asked), {}
        try:
            for hosted in asked:
                if self._hosted.get(hosted.group) is not hosted:
                    continue  # it has left since, in the turn of another group; its log is gone
                if hosted.group in self._wakes.set_for:
                    self._wakes.forget(hosted.group)
                due_ns = hosted.turn()
                self._after(hosted)
                # A wake that the group asked for during its turn stays.
                if due_ns is not None:
                    self._wakes.by(hosted.group, due_ns)
        except Exception:
            # The error concerns only that group; the groups after it must still get their turns, so that
            # their records leave.
            for hosted in asked:
                self.later(hosted)
            raise

    def _on_wake(self, group: GroupId) -> None:
        hosted = self._hosted.get(group)
        if hosted is not None:
            hosted.ask_turn()

    def _flush(self) -> None:
        self._is_flush_asked = False
        self.flush_logs()
