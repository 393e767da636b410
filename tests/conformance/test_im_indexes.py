"""Index metadata of the index coordinator's checklist (IM E, J): its structures, and how they change."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from control_stage import HOSTS, Stage, steps_of, stop_at

from holdfast.control.coordination.ports import Accepted, Failed
from holdfast.control.desired.changes import Change, apply, encode_change
from holdfast.control.desired.index_changes import (
    ActivateIndexes,
    CreateIndex,
    DropIndexes,
    ListIndexes,
    lay_out,
)
from holdfast.control.desired.indexes import (
    INDEXER,
    INDEXES_MAX,
    MAX_REPLICAS,
    MAX_SLICES,
    NOBODY,
    HWHeartbeat,
    Indexes,
    IndexExists,
    IndexInfo,
    IndexNotFound,
    IndexTopology,
    Node,
    PersistenceTimestamp,
    Rebalance,
    Timestamp,
    hash_of,
    is_at_most,
)
from holdfast.control.desired.state import DomainState, decode_state, encode_state
from holdfast.control.replication.spec import HostFact
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId

PLACES = ("hall1/rack1/a", "hall1/rack2/b", "hall2/rack1/c", "hall2/rack2/d", "hall3/rack1/e")
HOSTS_OF_INDEXES = [HostFact(HostId(place[-1]), place) for place in PLACES]
ADDRESSES = {each.host: f"{each.host}:7400" for each in HOSTS_OF_INDEXES}


def info(name: str = "by_city", bucket: str = "people", **other: Any) -> IndexInfo:
    return IndexInfo(**{"Name": name, "Bucket": bucket, "Using": "tree", "OnExprList": ("/city",), **other})


def topology(of: IndexInfo | None = None, *, partitions: int = 8, replicas: int = 2) -> IndexTopology:
    return lay_out(of or info(), HOSTS_OF_INDEXES, ADDRESSES, partitions=partitions, replicas=replicas)


def changed(state: DomainState, *changes: Change) -> DomainState:
    """Through the bytes, as the coordinator and every replica do it."""
    body = encode_state(state)
    for each in changes:
        body, _ = apply(body, encode_change(each))
    return decode_state(body)


def replied(state: DomainState, change: Change, kind: Any) -> Any:
    _, reply = apply(encode_state(state), encode_change(change))
    return msgspec.msgpack.decode(reply, type=kind)


def as_json(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.fixture
def three() -> DomainState:
    """Indexes 1, 2 and 3; 2 is active."""
    created = [CreateIndex(topology=topology(info(name))) for name in ("one", "two", "three")]
    return changed(DomainState(), *created, ActivateIndexes(ids=(2,)))


# --- the structures, with the names of the source


@pytest.mark.covers("IM-40")
def test_a_node_has_a_name_an_address_and_roles() -> None:
    node = Node(name="a", connectionAddr="a:7400", role=(INDEXER, "projector"))
    assert as_json(node) == {
        "name": "a",
        "connectionAddr": "a:7400",
        "role": ["local-indexer-node", "projector"],
    }


@pytest.mark.covers("IM-41", "IM-115")
def test_an_index_is_described_in_the_words_of_the_source() -> None:
    """All fields under their own names, but the number, which is ``id`` wherever it is written (N-9)."""
    made = info(Uuid=2**64 - 1, Exprtype="json-pointer")
    assert as_json(made) == {
        "Name": "by_city",
        "id": 2**64 - 1,
        "Using": "tree",
        "OnExprList": ["/city"],
        "Bucket": "people",
        "IsPrimary": False,
        "Exprtype": "json-pointer",
        "Active": False,
    }
    assert made.Uuid == msgspec.json.decode(msgspec.json.encode(made), type=IndexInfo).Uuid


@pytest.mark.covers("IM-42")
def test_a_topology_names_its_index_its_servers_and_both_maps() -> None:
    made = topology()
    assert sorted(as_json(made)) == ["indexinfo", "numPartitions", "partitionMap", "servers", "sliceMap"]
    assert made.indexinfo == info()
    assert made.numPartitions == 8
    assert [each.name for each in made.servers] == ["a", "b", "c", "d", "e"]
    assert {each.connectionAddr for each in made.servers} == set(ADDRESSES.values())
    assert as_json(Rebalance(topology=made)) == {"topology": as_json(made)}


@pytest.mark.covers("IM-43", "IM-45")
@pytest.mark.parametrize("replicas", range(MAX_REPLICAS + 1))
def test_each_partition_has_a_master_and_replicas_on_different_hosts(replicas: int) -> None:
    """A row for each partition: places in the list of servers, the master first, then -1 where nobody is."""
    made = topology(partitions=20, replicas=replicas)
    assert len(made.partitionMap) == made.numPartitions == 20
    for row in made.partitionMap:
        assert len(row) == MAX_REPLICAS + 1
        used, unused = row[: replicas + 1], row[replicas + 1 :]
        assert len({made.servers[place].name for place in used}) == replicas + 1
        assert set(unused) <= {NOBODY} == {-1}


@pytest.mark.covers("IM-43")
def test_partitions_are_spread_evenly_and_copies_far_apart() -> None:
    """Every host has as many as any other, give or take one; no two copies are in the same rack."""
    made = topology(partitions=50, replicas=1)
    load = Counter(made.servers[place].name for row in made.partitionMap for place in row if place != NOBODY)
    assert max(load.values()) - min(load.values()) <= 1
    racks = {each.host: each.location.rpartition("/")[0] for each in HOSTS_OF_INDEXES}
    for row in made.partitionMap:
        names = [made.servers[place].name for place in row if place != NOBODY]
        assert len({racks[HostId(name)] for name in names}) == len(names)


@pytest.mark.covers("IM-44", "IM-45")
def test_the_slices_lie_where_their_partitions_are() -> None:
    """A row for each slice, read as those of the partitions are."""
    made = topology(partitions=5)
    assert len(made.sliceMap) == MAX_SLICES
    for number, row in enumerate(made.sliceMap):
        assert row == made.partitionMap[number % 5]


def test_too_few_places_are_said_and_nothing_is_laid_out() -> None:
    """Two hosts of one place are one place."""
    twins = [HostFact(HostId("a"), "hall1"), HostFact(HostId("b"), "hall1")]
    with pytest.raises(Unavailable, match="2 copies of a partition need as many hosts"):
        lay_out(info(), twins, ADDRESSES, partitions=1, replicas=1)
    with pytest.raises(InvalidRequest):
        topology(partitions=0)
    with pytest.raises(InvalidRequest):
        topology(replicas=MAX_REPLICAS + 1)


@pytest.mark.parametrize(
    "row", [(0, 0, -1, -1), (5, -1, -1, -1), (-1, 0, -1, -1), (-1, -1, -1, -1), (0, -2, -1, -1), (0, 1)]
)
def test_a_map_that_says_nothing_sensible_is_refused(row: tuple[int, ...]) -> None:
    """The same server twice, one that is not there, a hole, nobody at all."""
    made = topology()
    for broken in (
        msgspec.structs.replace(made, partitionMap=(row, *made.partitionMap[1:])),
        msgspec.structs.replace(made, sliceMap=(row, *made.sliceMap[1:])),
        msgspec.structs.replace(made, partitionMap=made.partitionMap[1:]),
    ):
        with pytest.raises(InvalidRequest):
            changed(DomainState(), CreateIndex(topology=broken))


def test_timestamps_are_vectors_of_unsigned_numbers() -> None:
    """One slot of 64 bits for each vbucket, in the structures that carry them."""
    timestamp = (0, 7, 2**64 - 1)
    kept = PersistenceTimestamp(ts=timestamp, stability=True)
    assert as_json(kept) == {"ts": [0, 7, 2**64 - 1], "stability": True}
    beat = HWHeartbeat(
        indexid=3,
        bucket="people",
        hw=timestamp,
        lastPersistence=hash_of(timestamp),
        lastStability=hash_of(()),
        mutationQueue=100,
    )
    for value in (kept, beat):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=type(value)) == value
        assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value
    assert list(as_json(beat)) == [
        "indexid",
        "bucket",
        "hw",
        "lastPersistence",
        "lastStability",
        "mutationQueue",
    ]
    for wrong in (b"[-1]", b"[0.5]", b"7"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(wrong, type=Timestamp)


def test_a_hash_of_a_timestamp_is_the_same_for_the_same_and_of_64_bits() -> None:
    """As it was in every version before."""
    assert hash_of((1, 2, 3)) == hash_of((1, 2, 3)) == 13041116711478803063
    hashes = [hash_of(each) for each in itertools.product(range(4), repeat=3)]
    assert len(set(hashes)) == 64
    assert all(0 <= each < 2**64 for each in hashes)


def test_timestamps_are_only_partly_ordered() -> None:
    """Less or equal in every slot, or neither (N-8)."""
    assert is_at_most((1, 2), (1, 3))
    assert not is_at_most((1, 3), (1, 2))
    assert not is_at_most((2, 1), (1, 2))
    assert not is_at_most((1, 2), (2, 1))
    assert is_at_most((1,), (1, 0))
    assert not is_at_most((1, 1), (1,))


@pytest.mark.covers("IM-38", "IM-50", "IM-51")
def test_the_context_holds_all_that_the_source_names() -> None:
    """Under its names; written and read back it is the same, and equal states are equal bytes. Timestamps,
    rebalances, projectors and routers have their places, and nobody who fills them yet: no row is claimed."""
    made = topology(info(Uuid=7))
    indexes = Indexes(
        ptsMaxHistory=5,
        persistenceTimestamps={"people": (PersistenceTimestamp(ts=(1, 2)),), "cities": ()},
        indexeInfos={"7": made.indexinfo},
        indexesTopology={"7": made},
        rebalances={"7": Rebalance(topology=made)},
        projectors=(Node(name="p", connectionAddr="p:1"),),
        routers=(Node(name="r", connectionAddr="r:1"),),
        lastId=7,
    )
    state = DomainState(indexes=indexes, defaults={"org.omg.ft.InitialNumberMembers": 3})
    assert decode_state(encode_state(state)) == state
    assert sorted(as_json(indexes)) == sorted(
        (
            "ptsMaxHistory",
            "persistenceTimestamps",
            "indexeInfos",
            "indexesTopology",
            "rebalances",
            "projectors",
            "routers",
            "lastId",
        )
    )
    turned = msgspec.structs.replace(
        indexes, persistenceTimestamps=dict(reversed(indexes.persistenceTimestamps.items()))
    )
    assert encode_state(msgspec.structs.replace(state, indexes=turned)) == encode_state(state)


# --- create, drop, list


@pytest.mark.covers("IM-50", "IM-51")
def test_the_coordinator_numbers_an_index_and_keeps_its_topology() -> None:
    """Both under the number: what was asked for, now with one, and where it lies."""
    state = changed(DomainState(), CreateIndex(topology=topology()))
    assert replied(DomainState(), CreateIndex(topology=topology()), int) == 1
    assert state.indexes.indexeInfos == {"1": info(Uuid=1)}
    assert state.indexes.indexesTopology["1"].indexinfo == info(Uuid=1)
    assert state.indexes.indexesTopology["1"].partitionMap == topology().partitionMap


@pytest.mark.covers("IM-41", "IM-114")
def test_a_number_is_never_given_twice(three: DomainState) -> None:
    """Also not that of an index that was dropped; nor does a client choose one, or say that it is active."""
    state = changed(three, DropIndexes(ids=(3,)))
    assert replied(state, CreateIndex(topology=topology(info("four"))), int) == 4
    boasting = CreateIndex(topology=topology(info("four", Uuid=2, Active=True)))
    assert changed(three, boasting).indexes.indexeInfos["4"] == info("four", Uuid=4)


@pytest.mark.covers("IM-119")
def test_a_name_is_used_once_in_a_bucket(three: DomainState) -> None:
    """Another bucket may have the same; and the name is free when its index is gone (N-10)."""
    again = CreateIndex(topology=topology(info("two")))
    with pytest.raises(IndexExists):
        changed(three, again)
    elsewhere = CreateIndex(topology=topology(info("two", bucket="cities")))
    assert len(changed(three, elsewhere).indexes.all()) == 4
    assert len(changed(three, DropIndexes(ids=(2,)), again).indexes.all()) == 3


@pytest.mark.covers("IM-119")
def test_a_drop_takes_all_that_it_names_or_none(three: DomainState) -> None:
    """With everything that belonged to them; an unknown number is named, and nothing is dropped."""
    left = changed(three, DropIndexes(ids=(1, 3))).indexes
    assert list(left.indexeInfos) == list(left.indexesTopology) == ["2"]
    with pytest.raises(IndexNotFound, match="no index 8, 9;") as missing:
        changed(three, DropIndexes(ids=(1, 8, 9)))
    assert missing.value.ids == (8, 9)


@pytest.mark.covers("IM-118", "IM-119")
def test_a_list_is_of_those_asked_for_or_of_all_that_are_active(three: DomainState) -> None:
    """In the order asked for; an unknown number is an error that names it."""
    assert [each.Uuid for each in three.indexes.listed((3, 1))] == [3, 1]
    assert [(each.Uuid, each.Active) for each in three.indexes.listed(())] == [(2, True)]
    assert changed(three, ListIndexes(ids=(3,))) == three
    with pytest.raises(IndexNotFound, match="no index 9;"):
        changed(three, ListIndexes(ids=(1, 9)))


def test_expressions_are_for_all_but_the_primary_index() -> None:
    for wrong in (info(OnExprList=()), info(IsPrimary=True)):
        with pytest.raises(InvalidRequest):
            changed(DomainState(), CreateIndex(topology=topology(wrong)))
    primary = info(IsPrimary=True, OnExprList=())
    assert changed(DomainState(), CreateIndex(topology=topology(primary))).indexes.all()[0].IsPrimary


def test_indexes_are_bounded() -> None:
    """The most there can be, and not one more."""
    full = Indexes(
        indexeInfos={str(number): info(str(number)) for number in range(INDEXES_MAX)}, lastId=9_999
    )
    with pytest.raises(InvalidRequest, match="which is the most"):
        changed(DomainState(indexes=full), CreateIndex(topology=topology()))


# --- as updates of the context


def indexed(stage: Stage, name: str) -> Indexes:
    return decode_state(stage.manager(name).context.body).indexes


CREATE = encode_change(CreateIndex(topology=topology(partitions=2)))
CREATE_OTHER = encode_change(CreateIndex(topology=topology(info("by_name"), partitions=2)))


def one_index() -> Stage:
    return Stage.settled(CREATE, apply=apply)


@pytest.mark.covers("IM-46")
def test_each_statement_is_one_update_on_every_host() -> None:
    """The CAS grows by one with each; everybody has the index, then everybody has it no more."""
    stage = one_index()
    assert [indexed(stage, name).all() for name in HOSTS] == [(info(Uuid=1),)] * 3
    assert {stage.manager(name).context.cas for name in HOSTS} == {1}
    dropped = stage.accepted(encode_change(DropIndexes(ids=(1,))))
    assert dropped.cas == 2
    assert [indexed(stage, name).all() for name in HOSTS] == [()] * 3
    refused = stage.wish(encode_change(DropIndexes(ids=(1,))))
    assert isinstance(refused.outcome, Failed)
    assert isinstance(refused.outcome.why, IndexNotFound)
    assert stage.accepted(encode_change(ListIndexes())) == Accepted(3, msgspec.msgpack.encode(None))


@pytest.mark.covers("IM-15")
@pytest.mark.parametrize("statement", ["create", "drop"])
def test_a_coordinator_that_dies_in_a_statement_leaves_all_of_it_or_nothing(
    statement: str, rounds: Callable[..., int]
) -> None:
    """At any step: information and topology are both there on every host, or neither is anywhere."""
    change = CREATE_OTHER if statement == "create" else encode_change(DropIndexes(ids=(1,)))
    before, after = {"1"}, {"1", "2"} if statement == "create" else set[str]()
    for step in range(0, len(steps_of(one_index(), change)), rounds(short=4, long=1)):
        stopped = stop_at(step, one_index(), change, Stage.die)
        for name in HOSTS:
            found = indexed(stopped.stage, name)
            assert set(found.indexeInfos) == set(found.indexesTopology)
            assert set(found.indexeInfos) == (after if stopped.is_committed else before)
