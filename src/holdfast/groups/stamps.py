"""Issues the stamps of a host's operations: CSNs from one generator, which is stored with the host's store
(S1).

A group's time may be further ahead of this host than the generator follows: a member's clock was hours ahead,
or this host's is hours behind. Such a group continues in its own time, from its newest stamp. Stamps never go
back within a sequence. *Without that:* A's clock is two hours ahead, A stamps operations and dies. B claims,
cannot stamp anything, and for two hours neither serves nor lets another member serve. *Or* (the generator
follows, however far): all groups on B are two hours ahead from then on, and so are all hosts that take over
any of them.

:class:`TimeCheck` keeps a host whose time differs from the others' from leading groups, if another host can
(X4).
"""

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, suppress
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
"""How many frames may wait for the clock to be stored, which takes two syncs."""
_SEQUENCES: Final = "sequences"
"""The generator's name for the sequences whose stamps this host continues."""


class Stamps:
    """The CSN generator of one host, under its replica number (:mod:`holdfast.authority.sessions`).

    A host that cannot stamp any more must not stay primary, so *on_failed* ends it (D1). The generator may
    store its state at any moment, for a sample of the clock or for a stamp that it continues, and the store
    may fail at once.
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
        config: ClockConfig | None = None,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        """*lock*: as :class:`holdfast.clock.generator.Generator` takes it."""
        config = config or ClockConfig()
        self._timers = timers(lambda tag: self._generator.on_timer(tag))
        self.clock = SteadyClock(clock, config.clock_limit_s * SECOND)
        ports = ClockPorts(self.clock, self._timers, disk, trace)
        self._waiting: list[Callable[[], None]] = []
        self._generator = Generator(
            ports,
            replica,
            config=config,
            on_stored=self._on_stored,
            on_failed=lambda why: on_failed(DiskFailed(why)),
            lock=lock,
        )
        self.time_ns = self._generator.time_ns
        """Returns the time that a stamp given now would have (X4)."""

    def open(self, then: Callable[[], None], *, is_new: bool) -> None:
        """Continue above every stamp given before, and call *then* when stamps can be given. *is_new* says
        that the store holds nothing stamped yet. Raises ``Corruption``."""
        self._waiting.append(then)
        with suppress(GeneratorStopped):  # the store failed at once, and *on_failed* was called
            self._generator.open(is_new=is_new)

    def after(self, csn: Csn, now_s: int) -> Csn:
        """Return the next stamp of a sequence whose newest stamp is *csn* and whose own time is *now_s*. It
        is later than every other stamp given here, unless the sequence is too far ahead. Raises
        ``Unavailable``."""
        try:
            self._generator.observe(_SEQUENCES, csn)
        except SkewTooLarge:
            return _following(csn, now_s, self._generator.replica)
        # The sequence decides whether the operation commits, and no vector is kept for these stamps.
        return self._generator.take(ends_at_once=True)

    def once_stored(self, then: Callable[[], None]) -> bool:
        """Call *then* when stamps can be given again after ``FutureNotStored``. Returns False if too many
        wait already.

        A host that takes over from one whose clock was ahead jumps to that time in one step, and stores it
        first.
        """
        if len(self._waiting) >= WAITING_MAX:
            return False
        self._waiting.append(then)
        return True

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Handle a sync result of the disk. Returns False if it was not for the clock."""
        if not isinstance(token, tuple) or token[:1] != ("clock",):
            return False
        self._generator.on_synced(token, ok)
        return True

    def _on_stored(self) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()

    def close(self) -> None:
        """Stop giving stamps. The stored state lets the next process continue above every stamp given."""
        self._timers.close()


def _following(csn: Csn, now_s: int, replica: ReplicaId) -> Csn:
    """Return the first number after *csn* that is not before *now_s*."""
    if now_s > csn.timestamp:
        return Csn(now_s, 0, replica)
    if csn.sequence < SEQUENCE_MAX:
        return Csn(csn.timestamp, csn.sequence + 1, replica)
    return Csn(csn.timestamp + 1, 0, replica)


LOOK_NS: Final = 250 * MILLISECOND
HOLD_NS: Final = 30 * SECOND
"""How long a group that was handed over and came back is kept. If all clocks differ, nobody is a better
primary."""


class TimeCheck:
    """Checks the clocks periodically, and hands over the groups that this host should not stamp for."""

    def __init__(
        self,
        clocks: PeerClocks,
        hosted: Mapping[GroupId, HostedGroup],
        timers: MakeTimers,
        journal: Journal,
        on_skew: Callable[[int], None],
    ) -> None:
        """*on_skew* is called with this host's time error when its time becomes wrong, and with 0 when it is
        right again."""
        self._clocks = clocks
        self._hosted = hosted
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
        for group, hosted in list(self._hosted.items()):
            passed_at = self._passed_at.get(group)
            if hosted.is_primary and (passed_at is None or now - passed_at >= HOLD_NS):
                self._passed_at[group] = now
                hosted.pass_on(f"the time on {hosted.backend.me.host} is not that of the other hosts")
