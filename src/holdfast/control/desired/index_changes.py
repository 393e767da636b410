"""How indexes change: created, dropped, said to be active, listed (IM J). Each is one update of the context.

As with every change (:mod:`~holdfast.control.desired.changes`) nothing decides but the state and the change:
where an index shall be is laid out by whoever wishes for it, and said in the change.

Which hosts have which partition of a new index: each on different ones, far apart, all with as much.
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
from holdfast.control.replication.planner import choose_many
from holdfast.control.replication.spec import HostFact
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId

Value = TypeVar("Value")

IDS_MAX: Final = 1_000
"""Indexes of one change."""

Ids = Annotated[tuple[Unsigned, ...], Meta(max_length=IDS_MAX)]


class CreateIndex(Struct, frozen=True, kw_only=True, tag="create_index"):
    """Let there be an index of that topology (IM-113); its number is the next."""

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
        """Its number alone: replies are kept in the context for a while."""
        return state.indexes.lastId


class DropIndexes(Struct, frozen=True, kw_only=True, tag="drop_indexes"):
    """Let these be no more: all of them, or none when one is not there (IM-116, N-10)."""

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
    """The hosts of these have built them: they can be used from now on (IM-41)."""

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
    """Change nothing, if these are there (IM-117). Whoever then reads a context of this CAS or a later one
    has seen every update that was answered before."""

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
    """Each once, all of them there."""
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
    """A topology of *info* on *hosts*, with *replicas* of each partition beside its master.

    Raises ``Unavailable`` when there are too few hosts in different places.
    """
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidRequest(f"an index has 1 to {PARTITIONS_MAX} partitions")
    if not 0 <= replicas <= MAX_REPLICAS:
        raise InvalidRequest(f"a partition has 0 to {MAX_REPLICAS} replicas")
    placed = _placed(hosts, partitions, replicas + 1)
    used = sorted({host for row in placed for host in row})
    place = {host: number for number, host in enumerate(used)}
    rows = tuple(_row([place[host] for host in row]) for row in placed)
    return IndexTopology(
        indexinfo=info,
        numPartitions=partitions,
        servers=tuple(Node(name=host, connectionAddr=addresses[host], role=(INDEXER,)) for host in used),
        partitionMap=rows,
        # A slice is with the partition that it belongs to, until a rebalance moves it.
        sliceMap=tuple(rows[number % partitions] for number in range(MAX_SLICES)),
    )


def _placed(hosts: Sequence[HostFact], partitions: int, copies: int) -> list[list[HostId]]:
    """The hosts of each partition, its master first."""
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
