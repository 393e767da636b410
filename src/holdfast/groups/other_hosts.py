"""The other hosts: their leases, and what the members here are told when one of them dies or falls silent.

What concerns every member of a host: told to a few at a time, and the host goes on with its work between.

A host has thousands of members. Told to all of them in one go, the death of another host would keep this one
for seconds from everything else: heartbeats, calls, the election of a coordinator.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

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
    """To the members of one host."""

    def __init__(self, housed: Mapping[GroupId, HostedGroup], soon: Soon) -> None:
        self._housed = housed
        self._soon = soon

    def tell(self, about: HostId, tell: Tell) -> None:
        """First those whose primary is on that host: nobody serves them. Who has left meanwhile is told
        nothing; who comes meanwhile must learn it otherwise."""
        members = list(self._housed.values())
        served = [each for each in members if each.view is None or each.view.primary != about]
        unserved = [each for each in members if each.view is not None and each.view.primary == about]
        self._tell_some(iter((*unserved, *served)), tell)

    def _tell_some(self, members: Iterator[HostedGroup], tell: Tell) -> None:
        some = list(islice(members, AT_ONCE))
        for housed in some:
            if self._housed.get(housed.group) is housed:
                tell(housed)
        if len(some) == AT_ONCE:
            self._soon(lambda: self._tell_some(members, tell))


class OtherHosts:
    """Of one process, whose members are in *housed*."""

    def __init__(
        self,
        incarnation: Incarnation,
        housed: Mapping[GroupId, HostedGroup],
        clocks: PeerClocks,
        ports: GroupsPorts,
        config: LeaseConfig,
        guard: DiskGuard,
    ) -> None:
        self._housed = housed
        self._guard = guard
        self._tidings = SlicedBroadcast(housed, guard.soon)
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
        )

    def on_death(self, host: HostId, incarnation: Incarnation) -> None:
        """Exactly this process is gone (K2)."""
        self.leases.on_death(host, incarnation)
        self._begin_fail_over(host)
        tell = self._guard.guarded(lambda housed: housed.member.on_death(host, incarnation))
        self._tidings.tell(host, tell)

    def _on_lapsed(self, host: HostId) -> None:
        self._begin_fail_over(host)
        self._tidings.tell(host, lambda housed: housed.member.on_silence(host))

    def _begin_fail_over(self, host: HostId) -> None:
        """It counts from here, whenever a member has its turn."""
        silent_ns = self.leases.silence_ns(host)
        for housed in self._housed.values():
            housed.chronicle.on_ground(housed.view, host, silent_ns)

    def _is_in(self, group: GroupId, epoch: Epoch, asked_by: HostId) -> bool:
        housed = self._housed.get(group)
        return housed is not None and housed.member.is_backup_in(epoch, asked_by)

    def _on_confirmed(
        self, host: HostId, incarnation: Incarnation, group: GroupId, epoch: Epoch, beat: int
    ) -> None:
        housed = self._housed.get(group)
        if housed is not None:
            housed.member.on_confirmed(host, incarnation, epoch, beat)
            housed.ask_turn()
