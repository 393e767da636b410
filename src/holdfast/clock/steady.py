"""A wall clock that does not jump (X4).

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
        self._look()
        return self._ahead_ns + self.now()

    @property
    def jump_ns(self) -> int:
        """How far the machine's clock is ahead of the time given here; 0 when it is followed."""
        return self._look()

    def follow(self) -> None:
        """The machine's clock is right, however far it jumped."""
        self._ahead_ns = self._shown_ns()

    def _look(self) -> int:
        """Follow the machine's clock, unless it jumped; how far it did. Between a look at one clock and one
        at the other time goes by, so two looks never agree to the nanosecond."""
        shown_ns = self._shown_ns()
        jump_ns = shown_ns - self._ahead_ns
        if abs(jump_ns) > self.limit_ns:
            return jump_ns
        self._ahead_ns = shown_ns
        return 0

    def _shown_ns(self) -> int:
        return self._clock.wall() - self._clock.now()
