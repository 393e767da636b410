"""The kinds of changes to indexes: create, drop, activate and list (IM J). Each is one update of the context.

As with every change (:mod:`~holdfast.control.desired.changes`), only the state and the change decide the
result. So the requester decides where the partitions of an index shall be and puts that into the change;
:func:`lay_out` does it. The copies of each partition are on different hosts, far apart, and the load is even.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from holdfast.control.desired.indexes import (
    INDEXER,
    INDEXES_MAX,
    MAX_REPLICAS,
    MAX_SLICES,
    NOBODY,
    PARTITIONS_MAX,
    Indexes,
    IndexExists,
    IndexInfo,
    IndexTopology,
    Node,
    Row,
    Unsigned,
)
from holdfast.control.desired.state import DomainState
from holdfast.control.replication.locations import choose_many
from holdfast.control.replication.spec import HostFact
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.host_roles import SEARCH
from holdfast.model.ids import HostId

Value = TypeVar("Value")

IDS_MAX: Final = 1_000
"""The most indexes in one change."""

Ids = Annotated[tuple[Unsigned, ...], Meta(max_length=IDS_MAX)]


class CreateIndex(Struct, frozen=True, kw_only=True, tag="create_index"):
    """Create an index with that topology (IM-113); it gets the next number."""

    topology: IndexTopology

    def applied(self, state: DomainState) -> DomainState:
        indexes, asked = state.indexes, self.topology.indexinfo
        _check(asked, self.topology)
        if indexes.named(asked.Bucket, asked.Name) is not None:
            raise IndexExists(f"bucket {asked.Bucket!r} has an index {asked.Name!r} already")
        if len(indexes.indexeInfos) >= INDEXES_MAX:
            raise InvalidRequest(f"{INDEXES_MAX} indexes are there already, which is the most")
        number = indexes.lastId + 1
        made = msgspec.structs.replace(asked, Uuid=number, Active=False)
        topology = msgspec.structs.replace(self.topology, indexinfo=made)
        return _with(
            state,
            msgspec.structs.replace(
                indexes,
                lastId=number,
                indexeInfos={**indexes.indexeInfos, str(number): made},
                indexesTopology={**indexes.indexesTopology, str(number): topology},
            ),
        )

    def answered(self, state: DomainState) -> int:
        """Return only its number, because replies are kept in the context for a while."""
        return state.indexes.lastId


class DropIndexes(Struct, frozen=True, kw_only=True, tag="drop_indexes"):
    """Drop indexes: all of them, or none if one does not exist (IM-116, N-10)."""

    ids: Ids

    def applied(self, state: DomainState) -> DomainState:
        indexes, gone = state.indexes, _keys(state.indexes, self.ids)
        return _with(
            state,
            msgspec.structs.replace(
                indexes,
                indexeInfos=_without(indexes.indexeInfos, gone),
                indexesTopology=_without(indexes.indexesTopology, gone),
                rebalances=_without(indexes.rebalances, gone),
            ),
        )

    def answered(self, state: DomainState) -> None:
        return None


class ActivateIndexes(Struct, frozen=True, kw_only=True, tag="activate_indexes"):
    """Mark indexes as usable, because their hosts have built them (IM-41)."""

    ids: Ids

    def applied(self, state: DomainState) -> DomainState:
        indexes = state.indexes
        infos, topologies = dict(indexes.indexeInfos), dict(indexes.indexesTopology)
        for key in _keys(indexes, self.ids):
            infos[key] = msgspec.structs.replace(infos[key], Active=True)
            topologies[key] = msgspec.structs.replace(topologies[key], indexinfo=infos[key])
        return _with(state, msgspec.structs.replace(indexes, indexeInfos=infos, indexesTopology=topologies))

    def answered(self, state: DomainState) -> None:
        return None


class ListIndexes(Struct, frozen=True, kw_only=True, tag="list_indexes"):
    """Check that the indexes exist, and change nothing (IM-117). A reader of a context with this CAS or a
    later one has seen every update that was answered before."""

    ids: Ids = ()

    def applied(self, state: DomainState) -> DomainState:
        state.indexes.require(self.ids)
        return state

    def answered(self, state: DomainState) -> None:
        return None


IndexChange = CreateIndex | DropIndexes | ActivateIndexes | ListIndexes


def _with(state: DomainState, indexes: Indexes) -> DomainState:
    return msgspec.structs.replace(state, indexes=indexes)


def _keys(indexes: Indexes, ids: Ids) -> dict[str, None]:
    """Return the keys of the indexes, each once, after checking that all exist."""
    indexes.require(ids)
    return dict.fromkeys(map(str, ids))


def _without(known: dict[str, Value], gone: Container[str]) -> dict[str, Value]:
    return {key: each for key, each in known.items() if key not in gone}


def _check(asked: IndexInfo, topology: IndexTopology) -> None:
    if asked.IsPrimary == bool(asked.OnExprList):
        raise InvalidRequest("an index has expressions, unless it is the primary one, which has none")
    if not 1 <= topology.numPartitions <= PARTITIONS_MAX:
        raise InvalidRequest(f"an index has 1 to {PARTITIONS_MAX} partitions")
    if len(topology.partitionMap) != topology.numPartitions:
        raise InvalidRequest(f"{topology.numPartitions} partitions need as many rows of the map")
    if len(topology.sliceMap) != MAX_SLICES:
        raise InvalidRequest(f"the map of slices has {MAX_SLICES} rows")
    for row in (*topology.partitionMap, *topology.sliceMap):
        _check_row(row, len(topology.servers))


def _check_row(row: Row, servers: int) -> None:
    used = [place for place in row if place != NOBODY]
    if len(row) != MAX_REPLICAS + 1:
        raise InvalidRequest(f"{list(row)}: a row has {MAX_REPLICAS + 1} places")
    if row[: len(used)] != tuple(used) or not used:
        raise InvalidRequest(f"{list(row)}: the master comes first, then replicas, then {NOBODY}")
    if len({*used}) != len(used) or not all(0 <= place < servers for place in used):
        raise InvalidRequest(f"{list(row)}: each is another one of the {servers} servers")


def lay_out(
    info: IndexInfo,
    hosts: Sequence[HostFact],
    addresses: Mapping[HostId, str],
    *,
    partitions: int,
    replicas: int,
) -> IndexTopology:
    """Return a topology of *info* on *hosts*, with *replicas* of each partition besides its master.

    Raises ``Unavailable`` if there are too few hosts in different locations.
    """
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidRequest(f"an index has 1 to {PARTITIONS_MAX} partitions")
    if not 0 <= replicas <= MAX_REPLICAS:
        raise InvalidRequest(f"a partition has 0 to {MAX_REPLICAS} replicas")
    placed = _placed(hosts, partitions, replicas + 1)
    used = sorted({host for row in placed for host in row})
    place = {host: number for number, host in enumerate(used)}
    by_host = {each.host: each for each in hosts}
    rows = tuple(_row([place[host] for host in row]) for row in placed)
    return IndexTopology(
        indexinfo=info,
        numPartitions=partitions,
        servers=tuple(_node(by_host[host], addresses[host]) for host in used),
        partitionMap=rows,
        # A slice is where its partition is, until a rebalance moves it.
        sliceMap=tuple(rows[number % partitions] for number in range(MAX_SLICES)),
    )


def _node(host: HostFact, address: str) -> Node:
    """A host as the source knows it, with all its roles (IM-40)."""
    others = (each for each in host.roles if each != SEARCH)
    return Node(name=host.host, connectionAddr=address, role=(INDEXER, *others))


def _placed(hosts: Sequence[HostFact], partitions: int, copies: int) -> list[list[HostId]]:
    """Return the hosts of each partition, its master first."""
    load: Counter[HostId] = Counter()
    found: list[list[HostId]] = []
    for _ in range(partitions):
        chosen = choose_many(copies, hosts, (), load)
        if len(chosen) < copies:
            said = f"{copies} copies of a partition need as many hosts in different places"
            raise Unavailable(f"{said}; there are {len(chosen)}")
        found.append([each.host for each in chosen])
        load.update(found[-1])
    return found


def _row(places: Sequence[int]) -> Row:
    return (*places, *(NOBODY,) * (MAX_REPLICAS + 1 - len(places)))
