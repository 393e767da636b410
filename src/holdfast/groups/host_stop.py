"""How the groups of a host let it go before its process ends in an orderly way (K5).

The host says to all others that it is stopping, so that nobody hands a group over to it. Hosts that stop
together thereby know of each other: a domain that is stopped as a whole hands nothing over. Then the host
hands over what it is primary of. Last it asks to be dropped as a backup. *Without that*, every call after its
end waits until somebody has proof that it is gone.

All this only saves time. Whatever is left undone becomes a failover, as after a kill.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from holdfast.groups.catalog import GroupCatalog
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.other_hosts import SlicedBroadcast
from holdfast.groups.ports import DiskGuard
from holdfast.model.ids import GroupId, HostId, Incarnation
from holdfast.model.ports import Network
from holdfast.sequence.messages import Stopping
from holdfast.sequence.role import Role

WHY: Final = "its host is being stopped"


class HostStop:
    """The orderly end of one process of a host, and what it hears of those of others."""

    def __init__(
        self,
        host: HostId,
        incarnation: Incarnation,
        hosted: Mapping[GroupId, HostedGroup],
        catalog: GroupCatalog,
        network: Network,
        guard: DiskGuard,
    ) -> None:
        self._host = host
        self._incarnation = incarnation
        self._hosted = hosted
        self._catalog = catalog
        self._network = network
        self._guard = guard
        self._broadcast = SlicedBroadcast(hosted, guard.soon)
        self._stopping: dict[HostId, Incarnation] = {}

    def on_stopping(self, host: HostId, told: Stopping) -> None:
        """Handle that a process of *host*, possibly this one, is about to end."""
        self._stopping[host] = told.incarnation
        on_member = self._guard.guarded(
            lambda each: each.member.on_stopping(host, told.incarnation, is_leaving=told.is_leaving)
        )
        self._broadcast.tell(host, on_member)

    @property
    def has_survivors(self) -> bool:
        """Whether another host is in session that is not stopping as well."""
        return any(
            self._stopping.get(host) != session.incarnation
            for host, session in self._catalog.sessions.items()
            if host != self._host
        )

    def announce(self) -> None:
        """Tell all hosts, this one included, that it is stopping."""
        told = Stopping(self._incarnation)
        self.on_stopping(self._host, told)
        self._tell(told)

    def hand_over(self) -> int:
        """Hand over whatever can be handed over now, to all others alike. Returns how many groups this host
        is still primary of although another member could serve them."""
        waiting = 0
        for each in list(self._hosted.values()):
            if each.is_primary and (not each.member.is_serving or each.able_successors()):
                waiting += 1
                self._guard.guarded(partial(each.pass_on, WHY, spread=each.group))()
        return waiting

    def leave(self) -> int:
        """Ask the primaries elsewhere to drop this host's members. Returns how many are still listed although
        their groups could do without them (M1)."""
        waiting = sum(map(_could_be_dropped, self._hosted.values()))
        if waiting:
            self._tell(Stopping(self._incarnation, True))
        return waiting

    def _tell(self, told: Stopping) -> None:
        for host in self._catalog.sessions:
            if host != self._host:
                self._network.send(host, told)


def _could_be_dropped(hosted: HostedGroup) -> bool:
    listed = hosted.member.standing.listed
    return hosted.member.role is Role.BACKUP and len(listed) > hosted.record.min_in_sync
