"""A member's timers: at most one of each kind, and none at all while nothing is to be done."""

import enum
from collections.abc import Callable, Hashable

from holdfast.model.ports import TimerId, Timers


class Alarm(enum.StrEnum):  # hashed as text is: an Enum is hashed by Python code
    SWEEP = "sweep"
    NOTIFY = "notify"
    CLAIM = "claim"
    ASK = "ask"
    READ = "read"
    CHANGE = "change"
    LACK = "lack"


class Alarms:
    """Calls *on_alarm* when one is due."""

    def __init__(
        self,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        on_alarm: Callable[[Alarm], None],
    ) -> None:
        self._timers = timers(self._on_timer)
        self._on_alarm = on_alarm
        self._set: dict[Alarm, TimerId] = {}

    def set(self, alarm: Alarm, delay_ns: int) -> None:
        """Let it be due then, and not when it was before."""
        if alarm in self._set:
            self._timers.cancel(self._set[alarm])
        self._set[alarm] = self._timers.set(delay_ns, alarm.value)

    def is_set(self, alarm: Alarm) -> bool:
        return alarm in self._set

    def ensure(self, alarm: Alarm, delay_ns: int) -> None:
        """Let it be due then, unless it is set already."""
        if alarm not in self._set:
            self.set(alarm, delay_ns)

    def _on_timer(self, tag: Hashable) -> None:
        alarm = Alarm(str(tag))
        del self._set[alarm]
        self._on_alarm(alarm)
