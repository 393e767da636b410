"""The other hosts: their leases, and how the members here learn that one of them died or fell silent.

A host has thousands of members. Telling all of them of a death at once would keep the host from everything
else for seconds: heartbeats, calls, the election of a coordinator. So :class:`SlicedBroadcast` tells a few at
a time, and the host goes on with its work in between.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from holdfast.authority.sessions import Session
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import DiskGuard, GroupsPorts
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.leases import Leases
from holdfast.sequence.peer_clocks import PeerClocks

AT_ONCE: Final = 128

Soon = Callable[[Callable[[], None]], None]
Tell = Callable[[HostedGroup], None]


class SlicedBroadcast:
    """Tells all members of one host something, a few at a time."""

    def __init__(self, hosted: Mapping[GroupId, HostedGroup], soon: Soon) -> None:
        self._hosted = hosted
        self._soon = soon

    def tell(self, about: HostId, tell: Tell) -> None:
        """Call *tell* for every member, starting with those whose primary is on host *about*, because nobody
        serves them. Members that have left in the meantime are skipped. Members that arrive in the meantime
        must learn it otherwise."""
        self._tell_some(_unserved_first(list(self._hosted.values()), about), tell)

    def _tell_some(self, members: Iterator[HostedGroup], tell: Tell) -> None:
        some = list(islice(members, AT_ONCE))
        for hosted in some:
            if self._hosted.get(hosted.group) is hosted:
                tell(hosted)
        if len(some) == AT_ONCE:
            self._soon(lambda: self._tell_some(members, tell))


def _unserved_first(members: Iterable[HostedGroup], about: HostId) -> Iterator[HostedGroup]:
    """*members*, those without a primary first. They are looked at only as far as they are wanted: the first
    of thousands of groups need not wait until all have been looked at."""
    served = []
    for each in members:
        if each.view is not None and each.view.primary == about:
            yield each
        else:
            served.append(each)
    yield from served


class OtherHosts:
    """The other hosts, as one process sees them. Its members are in *hosted*."""

    def __init__(
        self,
        incarnation: Incarnation,
        hosted: Mapping[GroupId, HostedGroup],
        clocks: PeerClocks,
        ports: GroupsPorts,
        config: LeaseConfig,
        guard: DiskGuard,
    ) -> None:
        self._hosted = hosted
        self._guard = guard
        self._clock = ports.clock
        self._broadcast = SlicedBroadcast(hosted, guard.soon)
        self.leases = Leases(
            incarnation=incarnation,
            clock=ports.clock,
            timers=guard.timers,
            network=ports.network,
            trace=ports.trace,
            config=config,
            on_lapsed=self._on_lapsed,
            is_in=self._is_in,
            on_confirmed=self._on_confirmed,
            clocks=clocks,
            beats=ports.beats,
            note=ports.lease_note,
        )

    def on_sessions(self, others: Mapping[HostId, Session]) -> None:
        """Take note of the other hosts that are in session, and that their numbers were issued (K7)."""
        self.leases.meet(others)
        self.leases.proven_dead.on_issued((host, session.incarnation) for host, session in others.items())

    def on_death(self, host: HostId, incarnation: Incarnation, age_ns: int = 0) -> None:
        """Handle that exactly this process is gone, since *age_ns* (K2)."""
        self.leases.on_death(host, incarnation, age_ns)
        self._begin_failover(host, self._guard.guarded(lambda hosted: hosted.member.on_death()))

    def _on_lapsed(self, host: HostId) -> None:
        self._begin_failover(host, lambda hosted: hosted.member.on_silence(host))

    def _begin_failover(self, host: HostId, tell: Tell) -> None:
        """Tell all members. Each failover is measured from now, no matter when its member gets its turn."""
        began_at, silent_ns = self._clock.now(), self.leases.silence_ns(host)

        def begin(hosted: HostedGroup) -> None:
            hosted.history.on_ground(hosted.view, host, began_at, silent_ns)
            tell(hosted)

        self._broadcast.tell(host, begin)

    def _is_in(self, group: GroupId, epoch: Epoch, asked_by: HostId) -> bool:
        hosted = self._hosted.get(group)
        return hosted is not None and hosted.member.is_backup_in(epoch, asked_by)

    def _on_confirmed(
        self, host: HostId, incarnation: Incarnation, group: GroupId, epoch: Epoch, beat: int
    ) -> None:
        hosted = self._hosted.get(group)
        if hosted is not None:
            hosted.member.on_confirmed(host, incarnation, epoch, beat)
            hosted.ask_turn()
