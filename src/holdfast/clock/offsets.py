"""Logical time that never goes back, and a wall clock that does not jump (X4).

:class:`LogicalTime` is the system clock, corrected so that it never goes back and never lags behind known
CSNs:

    logical time = system clock + local offset + network offset            T = its whole seconds

* The **local offset** grows when the system clock is set back, when S is used up within one T, and when a
  restart finds the clock behind the stored future timestamp. Otherwise it stays zero.
* The **network offset** grows when a peer's CSN is ahead, in total by at most ``csn_max_skew``.
* Neither ever decreases, but for the one time when a person lets the first absorb the second
  (``holdfast directory clock reset``); their sum never does.

All three are kept in nanoseconds although T has whole seconds. With whole-second offsets, two servers whose
clocks differ by a few milliseconds would push each other up by one second every second: the one just past a
full second seems one second ahead, the other adds one and is then ahead itself. An offset that grows to
exactly the start of the peer's second never makes this clock lead the peer's, so the foremost clock always
stays in the lead. For the same reason a peer is compared with a fresh reading of the clock, not with the
cached one.

A :class:`SteadyClock` is needed because a machine's clock may be set, by hours and at any moment, and
timestamps once given cannot be taken back: the group's time would be hours ahead on every successor. So a
step of more than the limit is not followed. Time goes on from where it was, by the monotonic clock, which
nobody sets, until other hosts agree with the new time (:mod:`holdfast.sequence.peer_clocks`). Smaller steps
are followed at once.
"""

from holdfast.clock.errors import SkewTooLarge
from holdfast.model.csn import SEQUENCE_MAX, Csn
from holdfast.model.ids import SECOND
from holdfast.model.ports import Clock


class LogicalTime:
    """The system clock's reading and the two offsets, and the T and S of the next CSN.

    ``timestamp`` is always the whole seconds of the sum. Together with ``sequence`` it is greater than every
    (T, S) assigned or observed.
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
        """Start at (*timestamp*, *sequence*) or later; if the clock is behind, the local offset makes up for
        it."""
        if self.timestamp < timestamp:
            self.local_ns += timestamp * SECOND - self.logical_ns
            self.timestamp = timestamp
        if self.timestamp == timestamp:
            self.sequence = sequence

    def sample(self, system_ns: int, *, until: int) -> None:
        """Take in a reading of the system clock, as far as the time stays below the timestamp *until*.

        Time beyond what is stored must wait (CSN-24), and S goes on counting meanwhile.
        """
        offsets_ns = self.local_ns + self.network_ns
        logical_ns = system_ns + offsets_ns
        if logical_ns < self.timestamp * SECOND:
            self._set_back(system_ns)
        else:
            ceiling_ns = max(until * SECOND - 1, self.timestamp * SECOND)
            self._advance(min(logical_ns, ceiling_ns) - offsets_ns)

    def roll_over(self) -> None:
        """Move on to the next T because S is used up; a CSN is never repeated."""
        self.timestamp += 1
        self.sequence = 0
        self.local_ns += self.timestamp * SECOND - self.logical_ns

    def observe(self, peer: str, csn: Csn, *, system_ns: int, max_skew_s: int | None) -> int:
        """Move past *csn*, given a fresh reading of the clock; returns by how many nanoseconds *csn* was
        ahead.

        Raises :class:`SkewTooLarge`, with nothing changed, if the network offset would exceed *max_skew_s*
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

    def absorb(self) -> int:
        """Count what peers have pulled this clock forward as its own offset; returns how much that was.

        The sum stays as it is, so no time comes again; only what peers may still pull begins anew.
        """
        absorbed_ns, self.network_ns = self.network_ns, 0
        self.local_ns += absorbed_ns
        return absorbed_ns

    def _pass_sequence(self, csn: Csn) -> None:
        # S continues from the peer's instead of restarting at 0: within one T that would be behind it
        # (CSN-20).
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
    """The Clock port for code that stamps operations: its wall time does not jump."""

    def __init__(self, clock: Clock, limit_ns: int) -> None:
        self._clock = clock
        self.limit_ns = limit_ns
        self._ahead_ns = self._shown_ns()
        """How far wall time is ahead of ``now()``."""
        self.now = clock.now

    def wall(self) -> int:
        now_ns = self._clock.now()
        shown_ns = self._clock.wall() - now_ns
        if abs(shown_ns - self._ahead_ns) <= self.limit_ns:
            self._ahead_ns = shown_ns
        return self._ahead_ns + now_ns

    @property
    def jump_ns(self) -> int:
        """How far the machine's clock is ahead of the time given here; 0 when it is followed."""
        return self._look()

    def follow(self) -> None:
        """Accept the machine's clock as right, however far it jumped."""
        self._ahead_ns = self._shown_ns()

    def _look(self) -> int:
        """Follow the machine's clock unless it jumped; returns the size of the jump. Time passes between
        reading one clock and the other, so two looks never agree to the nanosecond."""
        shown_ns = self._shown_ns()
        jump_ns = shown_ns - self._ahead_ns
        if abs(jump_ns) > self.limit_ns:
            return jump_ns
        self._ahead_ns = shown_ns
        return 0

    def _shown_ns(self) -> int:
        return self._clock.wall() - self._clock.now()
