"""The hosts of a domain, as people see and empty them."""

from collections import Counter
from collections.abc import Callable, Iterable

from holdfast.authority.emptying import set_draining
from holdfast.authority.outcome import Seen
from holdfast.authority.recipe import Authority, perform
from holdfast.housing.directory import GroupDirectory
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId, Nonce
from holdfast.model.orders import DrainHost, HostInfo, HostList
from holdfast.node.census import location_of
from holdfast.node.insisting import insist
from holdfast.node.managing import Managing


class Emptying:
    """Through one host. *hosts*: those of the domain's description."""

    def __init__(
        self,
        directory: GroupDirectory,
        authority: Authority,
        managing: Managing,
        hosts: Iterable[HostId],
        nonces: Callable[[], Nonce],
    ) -> None:
        self._directory = directory
        self._authority = authority
        self._managing = managing
        self._hosts = tuple(hosts)
        self._nonces = nonces

    async def list(self) -> HostList:
        """All hosts. Raises ``Unavailable`` when the authority does not answer."""
        draining = await self._managing.draining()
        if draining is None:
            raise Unavailable("the authority does not answer")
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
        return HostList(hosts=hosts, manager=self._managing.leader or HostId(""))

    async def drain(self, order: DrainHost) -> HostList:
        """It is a wish then; how far it has come shows in the list. Raises ``InvalidRequest``."""
        if order.host not in {*self._hosts, *self._directory.sessions}:
            raise InvalidRequest(f"there is no host {order.host!r}; there are: {', '.join(self._hosts)}")
        nonce = self._nonces()
        await insist(
            lambda: perform(self._authority, set_draining(order.host, order.is_draining, nonce=nonce)), Seen
        )
        return await self.list()
