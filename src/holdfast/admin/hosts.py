"""Lists, drains and removes the hosts of a domain, as operators order it."""

from collections import Counter
from collections.abc import Sequence

from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.proposals import granted
from holdfast.admin.snapshot import location_of
from holdfast.control.desired import changes
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.admin.hosts import DrainHost, HostInfo, HostList, RemoveHost, ReturnHost
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId


class HostsAdmin:
    """Executes orders about hosts through one host. *hosts* are those of all machines, and may grow."""

    def __init__(
        self,
        catalog: GroupCatalog,
        control: ControlPlane,
        hosts: Sequence[HostId],
    ) -> None:
        self._catalog = catalog
        self._control = control
        self._hosts = hosts

    def list(self) -> HostList:
        """All hosts, as this one knows them."""
        state = self._control.state()
        sessions, records = self._catalog.sessions, list(self._catalog.records.values())
        members = Counter(host for record in records for host in record.placed_on)
        leaving = Counter(each.host for record in records for each in record.members if each.is_leaving)
        primaries = Counter(seen.value.primary for seen in self._catalog.views.values())
        hosts = tuple(
            HostInfo(
                host=host,
                is_alive=host in sessions,
                is_draining=host in state.draining,
                members=members[host],
                primaries=primaries[host],
                leaving=leaving[host],
                location=location_of(sessions[host]) if host in sessions else "",
                roles=sessions[host].roles if host in sessions else (),
                incarnation=sessions[host].incarnation if host in sessions else None,
                address=sessions[host].address if host in sessions else "",
                agent_address=sessions[host].agent_address if host in sessions else "",
            )
            for host in sorted({*self._hosts, *sessions})
            if host not in state.removed
        )
        return HostList(
            hosts=hosts,
            manager=self._control.coordinator or HostId(""),
            term=self._control.term,
            cas=self._control.cas,
        )

    async def drain(self, order: DrainHost) -> HostList:
        """Request that the host be drained, or no longer; the list shows the progress.

        Raises ``InvalidRequest``, ``Unavailable`` if the request was not accepted, and ``OutcomeUnknown`` if
        it may have been.
        """
        self._known(order.host)
        change = changes.SetDraining(host=order.host, is_draining=order.is_draining)
        granted(await self._control.wish(change, id=order.nonce))
        return self.list()

    async def remove(self, order: RemoveHost) -> HostList:
        """Remove the host from the domain.

        Raises as :meth:`drain` does, and ``InvalidRequest`` also while the host has members, unless it is
        declared lost; a host that is alive cannot be.
        """
        if order.host in self._control.state().removed:
            return self.list()
        info = self._known(order.host)
        if order.is_lost and info.is_alive:
            raise InvalidRequest(f"{order.host} lives: empty it with `holdfast host drain {order.host}`")
        if (info.members or info.leaving) and not order.is_lost:
            raise InvalidRequest(
                f"{order.host} has members of {info.members + info.leaving} groups: empty it first, with "
                f"`holdfast host drain {order.host}`; or say --lost if it never comes back"
            )
        granted(await self._control.wish(changes.RemoveHost(host=order.host)))
        return self.list()

    async def take_back(self, order: ReturnHost) -> HostList:
        """Let the name of a removed host be used again.

        Raises as :meth:`drain` does, and ``Unavailable`` while a process of the old host is in session. What
        groups still know of the old host does no harm: the new one has another store, and takes the place of
        the old one as if its disk had been wiped (V5, M1).
        """
        host = order.host
        if host not in self._control.state().removed:
            return self.list()
        if host in self._catalog.sessions:
            raise Unavailable(f"{host} was removed, and its last process has not ended yet; try again soon")
        granted(await self._control.wish(changes.ReturnHost(host=host)))
        return self.list()

    def _known(self, host: HostId) -> HostInfo:
        """The host's entry in the list. Raises ``InvalidRequest`` if the domain has no such host."""
        hosts = self.list().hosts
        found = next((each for each in hosts if each.host == host), None)
        if found is None:
            raise InvalidRequest(f"there is no host {host!r}; there are: {', '.join(e.host for e in hosts)}")
        return found
