"""Logical time: the system clock, corrected so that it never goes back and never lags what is known.

    logical time = system clock + local offset + network offset            T = its whole seconds

* The **local offset** grows when the system clock is set back, when S is used up within one T, and when a
  restart finds the clock behind the stored future timestamp. Else it stays zero.
* The **network offset** grows when a peer's CSN is ahead, in total by at most ``csn_max_skew``.
* Neither ever decreases.

All three are kept in nanoseconds although T has whole seconds. With whole-second offsets two servers whose
clocks differ by a few milliseconds would push each other up by one second every second: the one just past
a full second seems one ahead, the other adds one and is then ahead itself. An offset that grows to exactly
the start of the peer's second never makes this clock lead the peer's, so the foremost clock leads for ever.
For the same reason a peer is judged by a fresh reading of the clock, not by the cached one.

A wall clock that does not jump (X4).

A machine's clock may be set, by hours and at any moment, and what is stamped by it cannot be taken back: the
group's time would be hours ahead on every successor. So a step of more than the limit is not followed: time
goes on from where it was, by the clock that nobody sets, until others say that the new time is the right one
(:mod:`holdfast.sequence.peer_clocks`). Smaller steps are followed at once.
"""

from holdfast.clock.errors import SkewTooLarge
from holdfast.model.csn import SEQUENCE_MAX, Csn
from holdfast.model.ids import SECOND
from holdfast.model.ports import Clock


class LogicalTime:
    """The three terms, and the next CSN's T and S that follow from them.

    ``timestamp`` is at all times the whole seconds of the sum, and together with ``sequence`` greater than
    every (T, S) handed out or observed.
    """

    __slots__ = ("local_ns", "network_ns", "sequence", "system_ns", "timestamp")

    def __init__(self, system_ns: int, *, local_ns: int = 0, network_ns: int = 0) -> None:
        self.system_ns = system_ns
        self.local_ns = local_ns
        self.network_ns = network_ns
        self.timestamp = self.logical_ns // SECOND
        self.sequence = 0

    @property
    def logical_ns(self) -> int:
        return self.system_ns + self.local_ns + self.network_ns

    def resume(self, timestamp: int, sequence: int) -> None:
        """Start at (*timestamp*, *sequence*) or later; what the clock lacks goes to the local offset."""
        if self.timestamp < timestamp:
            self.local_ns += timestamp * SECOND - self.logical_ns
            self.timestamp = timestamp
        if self.timestamp == timestamp:
            self.sequence = sequence

    def sample(self, system_ns: int, *, until: int) -> None:
        """Take over a reading of the system clock, as far as the time stays below the timestamp *until*.

        Time beyond what is stored must wait (CSN-24), and S serves meanwhile.
        """
        offsets_ns = self.local_ns + self.network_ns
        logical_ns = system_ns + offsets_ns
        if logical_ns < self.timestamp * SECOND:
            self._set_back(system_ns)
        else:
            ceiling_ns = max(until * SECOND - 1, self.timestamp * SECOND)
            self._advance(min(logical_ns, ceiling_ns) - offsets_ns)

    def roll_over(self) -> None:
        """S is used up: the next T, never a repetition."""
        self.timestamp += 1
        self.sequence = 0
        self.local_ns += self.timestamp * SECOND - self.logical_ns

    def observe(self, peer: str, csn: Csn, *, system_ns: int, max_skew_s: int | None) -> int:
        """Get past *csn*, given a fresh reading of the clock; how far it was ahead, in nanoseconds.

        Raises :class:`SkewTooLarge`, with nothing changed, when the network offset would exceed *max_skew_s*
        (None: no limit).
        """
        fresh_ns = max(system_ns + self.local_ns + self.network_ns, self.logical_ns)
        ahead_ns = max(csn.timestamp * SECOND - fresh_ns, 0)
        if csn.timestamp <= self.timestamp:
            self._pass_sequence(csn)
            return 0
        if ahead_ns and max_skew_s is not None and self.network_ns + ahead_ns > max_skew_s * SECOND:
            raise SkewTooLarge(peer, ahead_ns=ahead_ns, network_offset_ns=self.network_ns, limit_s=max_skew_s)
        self.network_ns += ahead_ns
        self._advance(max(system_ns, self.system_ns))
        self._pass_sequence(csn)
        return ahead_ns

    def _pass_sequence(self, csn: Csn) -> None:
        # S goes on from the peer's rather than restart at 0: within one T that would be behind it (CSN-20).
        if csn.timestamp == self.timestamp and csn.sequence >= self.sequence:
            self.sequence = csn.sequence + 1
            if csn.sequence == SEQUENCE_MAX:
                self.roll_over()

    def _set_back(self, system_ns: int) -> None:
        self.system_ns = system_ns
        self.local_ns += self.timestamp * SECOND - self.logical_ns

    def _advance(self, system_ns: int) -> None:
        self.system_ns = system_ns
        timestamp = self.logical_ns // SECOND
        if timestamp > self.timestamp:
            self.timestamp = timestamp
            self.sequence = 0


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
