"""Vectors: what a server has, what it lacks, and their text form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.clock import Missing, Vector, missing, to_send
from holdfast.clock.errors import DifferentGeneration
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

csns = st.builds(
    Csn, st.integers(1, 3), st.integers(0, 3), st.integers(0, 4).map(ReplicaId), st.integers(0, 1)
)
replicas = st.integers(0, 4).map(ReplicaId)
vectors = st.builds(
    lambda known, retired: Vector.of("g1", known, retired=retired),
    st.lists(csns),
    st.lists(replicas, max_size=2),
)


def csn(timestamp: int, replica: int, sequence: int = 0) -> Csn:
    return Csn(timestamp, sequence, ReplicaId(replica))


@given(st.lists(csns), csns)
def test_holds_the_newest_csn_of_each_replica(known: list[Csn], asked: Csn) -> None:
    """A vector has the latest CSN of each replica, and covers what is not later than that, whatever its s."""
    vector = Vector.of("g1", known)
    of_replica = [one.operation for one in known if one.replica == asked.replica]
    assert vector.get(asked.replica) == max(of_replica, default=None)
    assert vector.covers(asked) == any(asked.operation <= one for one in of_replica)
    assert vector.newest() == max((one.operation for one in known), default=None)


@given(vectors, vectors, vectors)
def test_merging_is_the_least_upper_bound(a: Vector, b: Vector, c: Vector) -> None:
    """A merged vector covers both and nothing more, in any order and grouping; merging again changes
    nothing."""
    merged = a.merged(b)
    assert merged.covers_all(a)
    assert merged.covers_all(b)
    assert all(a.covers(one) or b.covers(one) for one in merged)
    assert merged == b.merged(a) == merged.merged(a)
    assert merged.merged(c) == a.merged(b.merged(c))


@given(vectors, csns)
def test_advancing_covers_and_never_goes_back(vector: Vector, change: Csn) -> None:
    """After a change the vector covers it and everything that it covered before."""
    after = vector.advanced(change)
    assert after.covers(change)
    assert after.covers_all(vector)
    assert after.advanced(change) is after


@given(vectors)
def test_text_comes_back(vector: Vector) -> None:
    """A vector that is written and read back is the same."""
    assert Vector.parse(vector.text()) == vector


def test_text_is_as_documented() -> None:
    """The module's example is what is written and read."""
    vector = Vector.of("2f6c", [csn(0x3626325F, 2), csn(0x3626325E, 1, 1)], retired=[ReplicaId(3)])
    assert vector.text() == "2f6c 03626325e00010001 03626325f00000002 -0003"
    assert Vector.parse("2f6c") == Vector.of("2f6c")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "2f6c ",
        "2f-6c",
        "2f6c 03626325e00010001 03626325e00020001",
        "2f6c 03626325e00010002 03626325e00010001",
        "2f6c -0003 03626325e00010001",
        "2f6c 03626325e00010001 -0001",
        "2f6c -0003 -0003",
        "2f6c -3",
        "2f6c nonsense",
        "2f6c 03626325e000100010001",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """Parts that are repeated, unsorted, or retired yet present, and texts that are no vector, are
    refused."""
    with pytest.raises(InvalidRequest):
        Vector.parse(text)


def test_data_sets_are_not_mixed() -> None:
    """Vectors of different generations are not merged, compared or served from."""
    ours, theirs = Vector.of("g1", [csn(1, 1)]), Vector.of("g2", [csn(1, 1)])
    for act in (
        lambda: ours.merged(theirs),
        lambda: ours.covers_all(theirs),
        lambda: missing(ours, theirs),
        lambda: to_send([csn(1, 1)], ours, theirs),
    ):
        with pytest.raises(DifferentGeneration) as refused:
            act()
        assert (refused.value.ours, refused.value.theirs) == ("g1", "g2")


def test_a_retired_replica_does_not_come_back() -> None:
    """Once retired, an id leaves every vector that is merged, whichever side knew, and nothing of it is
    sent."""
    full = Vector.of("g1", [csn(5, 1), csn(6, 2), csn(7, 3)])
    retired = full.without(ReplicaId(2))
    for merged in (retired.merged(full), full.merged(retired), Vector.parse(retired.text()).merged(full)):
        assert [one.replica for one in merged] == [1, 3]
        assert merged.retired == (2,)
    assert retired.advanced(csn(9, 2)) == retired
    assert missing(full, retired) == ()
    assert to_send([csn(6, 2)], full, retired) == []


def test_what_is_missing_is_named_by_replica() -> None:
    """Ranges go from just after what the consumer has to what the supplier has; complete replicas are left
    out."""
    supplier = Vector.of("g1", [csn(5, 1), csn(6, 2), csn(7, 3)])
    consumer = Vector.of("g1", [csn(5, 1), csn(4, 2), csn(9, 4)])
    assert missing(supplier, consumer) == (
        Missing(ReplicaId(2), csn(4, 2), csn(6, 2)),
        Missing(ReplicaId(3), None, csn(7, 3)),
    )


@given(st.lists(csns, unique=True), st.lists(csns), st.lists(csns))
def test_exactly_what_is_missing_is_sent_in_order(
    changes: list[Csn], supplied: list[Csn], consumed: list[Csn]
) -> None:
    """Everything that the supplier claims and the consumer lacks is sent, and nothing else, in CSN order."""
    supplier, consumer = Vector.of("g1", supplied), Vector.of("g1", consumed)
    sent = to_send(changes, supplier, consumer)
    assert sent == sorted(one for one in changes if supplier.covers(one) and not consumer.covers(one))


def test_nothing_beyond_the_suppliers_own_vector_is_sent() -> None:
    """A change that the supplier holds but does not claim yet, because a smaller one is in flight, is not
    sent."""
    supplier = Vector.of("g1", [csn(1, 1)])
    assert to_send([csn(1, 1), csn(3, 1)], supplier, Vector.of("g1")) == [csn(1, 1)]


class Replica:
    """A master with its changes and its vector, nothing more."""

    def __init__(self, number: int) -> None:
        self.number = ReplicaId(number)
        self.changes: dict[Csn, None] = {}
        self.vector = Vector.of("g1")

    def write(self, timestamp: int) -> None:
        self.apply(Csn(timestamp, 0, self.number))

    def apply(self, change: Csn) -> None:
        assert not self.vector.covers(change), "something already covered was sent"
        self.changes[change] = None
        self.vector = self.vector.advanced(change)

    def supply(self, consumer: "Replica") -> int:
        sent = to_send(self.changes, self.vector, consumer.vector)
        for change in sent:
            consumer.apply(change)
        return len(sent)


@pytest.mark.parametrize("shape", ["chain", "ring", "mesh"])
@given(data=st.data())
def test_each_change_reaches_each_replica_once(shape: str, data: st.DataObject) -> None:
    """In a chain, a ring and a full mesh every change arrives everywhere, and is sent only N - 1 times."""
    count = 4
    masters = [Replica(number) for number in range(count)]
    links = {
        "chain": [(a, a + 1) for a in range(count - 1)] + [(a + 1, a) for a in range(count - 1)],
        "ring": [(a, (a + 1) % count) for a in range(count)],
        "mesh": [(a, b) for a in range(count) for b in range(count) if a != b],
    }[shape]
    written = sent = 0
    for moment in range(1, data.draw(st.integers(1, 25)) + 1):
        if data.draw(st.booleans()):
            masters[data.draw(st.integers(0, count - 1))].write(moment)
            written += 1
        else:
            a, b = data.draw(st.sampled_from(links))
            sent += masters[a].supply(masters[b])
    for _ in range(count):
        for a, b in links:
            sent += masters[a].supply(masters[b])
    assert all(master.changes.keys() == masters[0].changes.keys() for master in masters)
    assert all(master.vector == masters[0].vector for master in masters)
    assert sent == written * (count - 1)
