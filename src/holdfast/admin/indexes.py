"""Creates, drops and lists the domain's indexes, and lists the updates of the domain's state."""

import msgspec

from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.proposals import granted
from holdfast.admin.snapshot import host_fact
from holdfast.authority.driver import insist
from holdfast.authority.recipe import Authority, perform
from holdfast.authority.transactions import list_transactions
from holdfast.control.desired.index_changes import CreateIndex, DropIndexes, ListIndexes, lay_out
from holdfast.control.desired.indexes import NOBODY, IndexInfo, IndexTopology
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.admin import domain as orders
from holdfast.model.admin.domain import IndexList, IndexShown, NodeShown, TransactionList, TransactionShown
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.host_roles import SEARCH
from holdfast.model.ids import HostId


class IndexesAdmin:
    """Executes orders about indexes through one host.

    ``InvalidRequest`` means that an order never succeeds, ``Unavailable`` that it was not done,
    ``OutcomeUnknown`` that it may have been: repeated under the same id, it is done once.
    """

    def __init__(self, catalog: GroupCatalog, control: ControlPlane, authority: Authority) -> None:
        self._catalog = catalog
        self._control = control
        self._authority = authority

    # --- updates of the domain's state

    async def create(
        self, info: IndexInfo, *, partitions: int, replicas: int, id: str = ""
    ) -> tuple[int, IndexTopology]:
        """Create an index; returns the CAS of the update and the index's topology."""
        topology = self._laid_out(info, partitions, replicas)
        made = granted(await self._control.wish(CreateIndex(topology=topology), id=id))
        number = msgspec.msgpack.decode(made.reply, type=int)
        known = self._control.state().indexes.indexesTopology.get(str(number))
        numbered = msgspec.structs.replace(info, Uuid=number, Active=False)
        return made.cas, known or msgspec.structs.replace(topology, indexinfo=numbered)

    async def drop(self, ids: tuple[int, ...], *, id: str = "") -> int:
        """Drop all of *ids*; returns the CAS of the update."""
        return granted(await self._control.wish(DropIndexes(ids=ids), id=id)).cas

    async def read(self, ids: tuple[int, ...]) -> tuple[int, tuple[IndexInfo, ...]]:
        """The indexes of *ids*, or all active ones, and their CAS: no older than any update answered
        before.
        """
        found = granted(await self._control.wish(ListIndexes(ids=ids)))
        cas, state = self._control.cas, self._control.state()
        if cas < found.cas:
            raise Unavailable(f"this host knows the domain's state of {cas}, not of {found.cas} yet")
        return cas, state.indexes.listed(ids)

    def _laid_out(self, info: IndexInfo, partitions: int, replicas: int) -> IndexTopology:
        """Place the index on hosts that are alive, not being drained, and for search: on any where the domain
        has none for it (decision 14)."""
        draining = self._control.state().draining
        living = [each for host, each in sorted(self._catalog.sessions.items()) if host not in draining]
        able = [each for each in living if SEARCH in each.roles] or living
        addresses = {each.host: each.address for each in able}
        hosts = [host_fact(each) for each in able]
        return lay_out(info, hosts, addresses, partitions=partitions, replicas=replicas)

    # --- orders of operators

    async def do(self, order: orders.CreateIndex | orders.DropIndexes) -> IndexList:
        """Execute the order; returns the indexes that it was about, as they are or were."""
        match order:
            case orders.CreateIndex():
                _, made = await self.create(
                    info_of(order), partitions=order.partitions, replicas=order.replicas, id=order.nonce
                )
                found = [_shown(made)]
            case orders.DropIndexes():
                found = [each for each in self.shown().indexes if each.id in order.ids]
                await self.drop(order.ids)
        return self._listed(found)

    def shown(self) -> IndexList:
        """All indexes that this host knows of; another host may know more."""
        indexes = self._control.state().indexes
        return self._listed([_shown(indexes.indexesTopology[str(each.Uuid)]) for each in indexes.all()])

    async def transactions(self, limit: int) -> TransactionList:
        found = await insist(lambda: perform(self._authority, list_transactions()), tuple)
        return TransactionList(
            transactions=tuple(
                TransactionShown(
                    cas=each.cas,
                    term=each.term,
                    status=each.status.value,
                    participants=tuple(process.host for process in each.participants),
                )
                for each in found[-limit:]
            ),
            coordinator=self._control.coordinator or HostId(""),
            term=self._control.term,
            cas=self._control.cas,
        )

    def _listed(self, found: list[IndexShown]) -> IndexList:
        return IndexList(indexes=tuple(found), term=self._control.term, cas=self._control.cas)


def info_of(order: orders.CreateIndex) -> IndexInfo:
    """The index that *order* describes. Raises ``InvalidRequest``."""
    try:
        return msgspec.convert(
            {
                "Name": order.name,
                "Bucket": order.bucket,
                "Using": order.using,
                "OnExprList": order.expressions,
                "Exprtype": order.language,
                "IsPrimary": not order.expressions,
            },
            IndexInfo,
        )
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"this is no index: {error}") from None


def _shown(topology: IndexTopology) -> IndexShown:
    info = topology.indexinfo
    return IndexShown(
        id=info.Uuid,
        name=info.Name,
        bucket=info.Bucket,
        using=info.Using,
        expressions=info.OnExprList,
        language=info.Exprtype,
        is_primary=info.IsPrimary,
        is_active=info.Active,
        partitions=topology.numPartitions,
        replicas=sum(place != NOBODY for place in topology.partitionMap[0]) - 1,
        hosts=tuple(HostId(each.name) for each in topology.servers),
        servers=tuple(
            NodeShown(name=HostId(each.name), connectionAddr=each.connectionAddr, role=each.role)
            for each in topology.servers
        ),
        partition_map=topology.partitionMap,
    )
