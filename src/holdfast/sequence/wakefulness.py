"""Whether a host was itself awake all the time for which it has not heard of another.

A process that was paused finds, when it goes on, that nobody has been heard for long: what the others said
meanwhile still waits to be read. Who concludes from that that they are gone takes the groups of healthy
hosts, or drops healthy backups. So silence counts only from when one was awake again, as after a start (V3).
To wait longer is always safe.
"""

from typing import Final

from holdfast.model.ports import Clock

MISSED: Final = 3
"""Who looks only after so many of its intervals was held up."""


class Wakefulness:
    """Of somebody who means to look every *interval_ns*. One thread looks, any may ask."""

    def __init__(self, clock: Clock, interval_ns: int) -> None:
        self._clock = clock
        self._interval_ns = interval_ns
        self._looked_at: int | None = None
        self._since = 0

    def look(self) -> None:
        """It looks now."""
        now = self._clock.now()
        if self._is_asleep(now):
            self._since = now
        self._looked_at = now  # last: who asks in between takes it for asleep

    def since(self) -> int:
        """Since when it has missed no look: 0, from its beginning; now, while it is missing one."""
        now = self._clock.now()
        return now if self._is_asleep(now) else self._since

    def _is_asleep(self, now: int) -> bool:
        return self._looked_at is not None and now - self._looked_at > MISSED * self._interval_ns
