"""A wall clock that does not jump (PROTOCOL X4).

A machine's clock may be set, by hours and at any moment, and what is stamped by it cannot be taken back: the
group's time would be hours ahead on every successor. So a step of more than the limit is not followed: time
goes on from where it was, by the clock that nobody sets, until others say that the new time is the right one
(:mod:`holdfast.sequence.peer_clocks`). Smaller steps are followed at once.
"""

from holdfast.model.ports import Clock


class SteadyClock:
    """The Clock port of whoever stamps."""

    def __init__(self, clock: Clock, limit_ns: int) -> None:
        self._clock = clock
        self.limit_ns = limit_ns
        self._ahead_ns = self._shown_ns()
        """By how much wall time is ahead of ``now()``."""
        self.now = clock.now

    def wall(self) -> int:
        shown_ns = self._shown_ns()
        if abs(shown_ns - self._ahead_ns) <= self.limit_ns:
            self._ahead_ns = shown_ns
        return self._ahead_ns + self.now()

    @property
    def jump_ns(self) -> int:
        """How far the machine's clock is ahead of the time given here; 0 when it is followed."""
        self.wall()
        return self._shown_ns() - self._ahead_ns

    def follow(self) -> None:
        """The machine's clock is right, however far it jumped."""
        self._ahead_ns = self._shown_ns()

    def _shown_ns(self) -> int:
        return self._clock.wall() - self._clock.now()
