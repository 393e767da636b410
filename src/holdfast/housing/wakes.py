"""When groups must have a turn though nothing comes in: of all that one asked for, the earliest."""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from holdfast.housing.ports import MakeTimers
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
