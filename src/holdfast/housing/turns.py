"""Turns: what came in together is dealt with, sent and synced together (S5).

An event asks for a turn of its group; all turns asked for are taken at the end of what came in, and the logs
are flushed after them. A group may also ask for a turn at some later time.
"""

from collections.abc import Callable, Mapping

from holdfast.housing.housed import Housed
from holdfast.housing.ports import MakeTimers
from holdfast.housing.wakes import Wakes
from holdfast.model.ids import GroupId
from holdfast.model.ports import Clock

Soon = Callable[[Callable[[], None]], None]
Guarded = Callable[[Callable[..., None]], Callable[..., None]]


class Turns:
    """Of all groups of one host. *flush* flushes the logs, *after* is told of every turn that was taken."""

    def __init__(
        self,
        housed: Mapping[GroupId, Housed],
        clock: Clock,
        timers: MakeTimers,
        soon: Soon,
        guarded: Guarded,
        *,
        flush: Callable[[], None],
        after: Callable[[Housed], None],
    ) -> None:
        self._housed = housed
        self._soon = soon
        self._flush_logs = flush
        self._after = after
        self._asked: dict[Housed, None] = {}
        self._wakes = Wakes(timers, clock, self._on_wake)
        self._is_flush_asked = False
        # Made once: these run at every turn.
        self._take_guarded = guarded(self._take)
        self._flush_guarded = guarded(self._flush)

    def later(self, housed: Housed) -> None:
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

    def forget(self, housed: Housed) -> None:
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
