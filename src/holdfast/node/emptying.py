"""The hosts of a domain, as people see and empty them."""

from collections import Counter
from collections.abc import Iterable

from holdfast.control.domain_changes import SetDraining
from holdfast.housing.directory import GroupDirectory
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId
from holdfast.model.orders import DrainHost, HostInfo, HostList
from holdfast.node.census import location_of
from holdfast.node.control import Control
from holdfast.node.wishing import granted


class Emptying:
    """Through one host. *hosts*: those of the domain's description."""

    def __init__(
        self,
        directory: GroupDirectory,
        control: Control,
        hosts: Iterable[HostId],
    ) -> None:
        self._directory = directory
        self._control = control
        self._hosts = tuple(hosts)

    def list(self) -> HostList:
        """All hosts, as this one knows them."""
        draining = self._control.state().draining
        sessions, records = self._directory.sessions, list(self._directory.records.values())
        members = Counter(host for record in records for host in record.placed_on)
        leaving = Counter(each.host for record in records for each in record.members if each.is_leaving)
        primaries = Counter(seen.value.primary for seen in self._directory.views.values())
        hosts = tuple(
            HostInfo(
                host=host,
                is_alive=host in sessions,
                is_draining=host in draining,
                members=members[host],
                primaries=primaries[host],
                leaving=leaving[host],
                location=location_of(sessions[host]) if host in sessions else "",
            )
            for host in sorted({*self._hosts, *sessions})
        )
        return HostList(
            hosts=hosts,
            manager=self._control.coordinator or HostId(""),
            term=self._control.term,
            cas=self._control.cas,
        )

    async def drain(self, order: DrainHost) -> HostList:
        """It is a wish then; how far it has come shows in the list.

        Raises ``InvalidRequest``, ``Unavailable`` when it was not granted, ``OutcomeUnknown`` when it may
        have been.
        """
        if order.host not in {*self._hosts, *self._directory.sessions}:
            raise InvalidRequest(f"there is no host {order.host!r}; there are: {', '.join(self._hosts)}")
        change = SetDraining(host=order.host, is_draining=order.is_draining)
        granted(await self._control.wish(change))
        return self.list()
