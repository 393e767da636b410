"""The stamps of a host's operations: CSNs from one generator, kept with the host's store (S1).

A group's time may be further ahead of this host than the generator follows: one of its members had a clock
that was hours ahead, or this host's is hours behind. That group goes on in a time of its own, from its newest
stamp; what stamps must never do, go back within a sequence, they do not.
*Without that:* A's clock is two hours ahead, and A stamps; A dies; B claims, can stamp nothing, and neither
serves nor lets another for two hours. *Or* (the generator follows, however far): all groups on B are two
hours ahead from then on, and so are all hosts that take over any of them.

A host whose time is not the others' leads no group, if another can (X4).
"""

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import Final

from holdfast.clock import ClockPorts, Generator
from holdfast.clock.errors import ClockConfig, GeneratorStopped, SkewTooLarge
from holdfast.clock.offsets import SteadyClock
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import Journal, MakeTimers
from holdfast.model.csn import SEQUENCE_MAX, Csn
from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.ids import MILLISECOND, SECOND, GroupId, ReplicaId
from holdfast.model.ports import Clock, Disk, Token, Trace
from holdfast.sequence.peer_clocks import PeerClocks

WAITING_MAX: Final = 4096
"""Frames that wait for a store of the clock; it takes two syncs."""
_SEQUENCES: Final = "sequences"
"""As whom the generator knows those whose stamps this host continues."""


class Stamps:
    """The generator of one host, under the number that the authority gave it (:mod:`.authority.replicas`).

    A host that can stamp nothing any more must not stay a primary: *on_failed* ends it (D1). Stores begin at
    any moment, with a sample of the clock or with a stamp that is continued, and may fail right then.
    """

    def __init__(
        self,
        replica: ReplicaId,
        *,
        clock: Clock,
        timers: MakeTimers,
        disk: Disk,
        trace: Trace,
        on_failed: Callable[[HoldfastError], None],
    ) -> None:
        self._timers = timers(lambda tag: self._generator.on_timer(tag))
        self.clock = SteadyClock(clock, ClockConfig().clock_limit_s * SECOND)
        ports = ClockPorts(self.clock, self._timers, disk, trace)
        self._waiting: list[Callable[[], None]] = []
        self._generator = Generator(
            ports,
            replica,
            on_stored=self._on_stored,
            on_failed=lambda why: on_failed(DiskFailed(why)),
        )

    def open(self, then: Callable[[], None], *, is_new: bool) -> None:
        """Go on above every stamp given before, *then* more can be given. *is_new*: this store holds nothing
        that was stamped. Raises ``Corruption``."""
        self._waiting.append(then)
        with suppress(GeneratorStopped):  # the store failed at once: *on_failed* knows
            self._generator.open(is_new=is_new)

    def after(self, csn: Csn, now_s: int) -> Csn:
        """The next stamp of a sequence whose newest is *csn*, and in whose own time it is *now_s*: later than
        every other given here, unless that sequence is too far ahead. Raises ``Unavailable``."""
        try:
            self._generator.observe(_SEQUENCES, csn)
        except SkewTooLarge:
            return _following(csn, now_s, self._generator.replica)
        stamp = self._generator.take()
        # Whether the operation commits is the sequence's business; no vector is kept of these.
        self._generator.commit(stamp)
        return stamp

    def once_stored(self, then: Callable[[], None]) -> bool:
        """*then* more stamps can be given, after ``FutureNotStored``; False when too many wait already.

        A host that takes over from one whose clock was ahead follows it in one step, and stores that first.
        """
        if len(self._waiting) >= WAITING_MAX:
            return False
        self._waiting.append(then)
        return True

    def time_ns(self) -> int:
        """The time that a stamp given now would have (X4)."""
        return self._generator.time_ns()

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Take the disk's answer; False when it was not for the clock."""
        if not isinstance(token, tuple) or token[:1] != ("clock",):
            return False
        self._generator.on_synced(token, ok)
        return True

    def _on_stored(self) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def close(self) -> None:
        """Give no more. What the store holds lets the next process go on later than anything given."""
        self._timers.close()


def _following(csn: Csn, now_s: int, replica: ReplicaId) -> Csn:
    """The first number after *csn* that is not before *now_s*."""
    if now_s > csn.timestamp:
        return Csn(now_s, 0, replica)
    if csn.sequence < SEQUENCE_MAX:
        return Csn(csn.timestamp, csn.sequence + 1, replica)
    return Csn(csn.timestamp + 1, 0, replica)


LOOK_NS: Final = 250 * MILLISECOND
HOLD_NS: Final = 30 * SECOND
"""A group that comes back is kept for so long: where all clocks differ, nobody is a better primary."""


class TimeCheck:
    """Looks at the clocks now and then, and hands over what this host should not stamp."""

    def __init__(
        self,
        clocks: PeerClocks,
        housed: Mapping[GroupId, HostedGroup],
        timers: MakeTimers,
        journal: Journal,
        on_skew: Callable[[int], None],
    ) -> None:
        """*on_skew* is told when this host's time is wrong, and by how much; and 0 when it is right again."""
        self._clocks = clocks
        self._housed = housed
        self._timers = timers(self._on_timer)
        self._journal = journal
        self._passed_at: dict[GroupId, int] = {}
        self._jump_s = 0
        self._on_skew = on_skew
        self._is_skewed = False
        self._timers.set(LOOK_NS, "look")

    def close(self) -> None:
        self._timers.close()

    def _on_timer(self, tag: Hashable) -> None:
        self._tell_of_jump()
        self._tell_of_skew()
        if self._clocks.is_off:
            self._hand_over()
        self._timers.set(LOOK_NS, "look")

    def _tell_of_jump(self) -> None:
        before, self._jump_s = self._jump_s, self._clocks.clock.jump_ns // SECOND
        if self._jump_s and not before:
            self._journal.warning("this machine's clock was set, and is not followed", by_s=self._jump_s)

    def _tell_of_skew(self) -> None:
        was_skewed, skew_ns = self._is_skewed, self._clocks.skew_ns
        self._is_skewed = skew_ns != 0
        if self._is_skewed is not was_skewed:
            self._on_skew(skew_ns)

    def _hand_over(self) -> None:
        now = self._clocks.clock.now()
        for group, housed in list(self._housed.items()):
            passed_at = self._passed_at.get(group)
            if housed.is_primary and (passed_at is None or now - passed_at >= HOLD_NS):
                self._passed_at[group] = now
                housed.pass_on(f"the time on {housed.ground.me.host} is not that of the other hosts")
