"""The other hosts: their leases, and what the members here are told when one of them dies or falls silent."""

from collections.abc import Mapping

from holdfast.housing.guard import Guard
from holdfast.housing.housed import Housed
from holdfast.housing.ports import HousePorts
from holdfast.housing.tidings import Tidings
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.leases import Leases
from holdfast.sequence.peer_clocks import PeerClocks


class Peers:
    """Of one process, whose members are in *housed*."""

    def __init__(
        self,
        incarnation: Incarnation,
        housed: Mapping[GroupId, Housed],
        clocks: PeerClocks,
        ports: HousePorts,
        config: LeaseConfig,
        guard: Guard,
    ) -> None:
        self._housed = housed
        self._guard = guard
        self._tidings = Tidings(housed, guard.soon)
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
