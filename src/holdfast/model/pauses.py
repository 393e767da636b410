"""Detects that this process stood still: stopped, asleep with its machine, or without a processor.

A process that continues after a pause finds that it has heard nobody for a long time, although what the
others sent is waiting to be read. So whoever judges others by their silence first asks whether it was paused
itself.
"""

from typing import Final

from holdfast.model.ports import Clock

MISSED: Final = 3
"""A process that looks later than this many intervals after its last look was paused."""


class PauseDetector:
    """Detects pauses of a process that intends to look at regular intervals.

    One thread looks; any thread may ask.
    """

    def __init__(self, clock: Clock, *, missed: int = MISSED) -> None:
        self._clock = clock
        self._missed = missed
        self._interval_ns = 0
        self._looked_at: int | None = None
        self._since = 0

    def look(self, interval_ns: int) -> int:
        """Record that the process looks now, and that it means to look again after *interval_ns*. Returns how
        long ago its last look was if it was paused since, otherwise 0."""
        now = self._clock.now()
        paused_ns = self._paused_ns(now)
        if paused_ns:
            self._since = now
        self._interval_ns = interval_ns
        self._looked_at = now  # set last: a thread that asks in between sees a pause, which is safe
        return paused_ns

    def since(self) -> int:
        """Since when the process has missed no look: 0 if it never missed one, now if it is missing one."""
        now = self._clock.now()
        return now if self._paused_ns(now) else self._since

    def _paused_ns(self, now: int) -> int:
        looked_at = self._looked_at
        is_paused = looked_at is not None and now - looked_at > self._missed * self._interval_ns
        return now - looked_at if is_paused and looked_at is not None else 0
