"""Which hosts have which partition of a new index: each on different ones, far apart, all with as much."""

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.control.choosing import choose_many
from holdfast.control.indexes import (
    INDEXER,
    MAX_REPLICAS,
    MAX_SLICES,
    NOBODY,
    PARTITIONS_MAX,
    IndexInfo,
    IndexTopology,
    Node,
    Row,
)
from holdfast.control.wishes import HostFact
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId


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
