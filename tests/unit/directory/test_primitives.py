"""Changes as masters send them: what can be read is what a master can have issued."""

import msgspec
import pytest
from directory_world import ANN, PEOPLE, Master, base, name, value
from hypothesis import given
from hypothesis import strategies as st

from holdfast.directory.entry import decoded_entry, encoded_entry, glanced_entry
from holdfast.directory.primitives import (
    REPLICAS_MAX,
    ROOT,
    AddEntry,
    AddValue,
    MoveEntry,
    RemoveEntry,
    Value,
    decoded,
    encoded,
    uuid_text,
)
from holdfast.directory.resolving import DirectoryState
from holdfast.directory.seen import Seen
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId


def csn(timestamp: int, replica: int = 1) -> Csn:
    return Csn(timestamp, 0, ReplicaId(replica))


def test_all_changes_round_trip() -> None:
    a = Master(1)
    issued = [a.issue(base)]
    issued.append(a.issue(lambda ask: ask.replace(ANN, "mail", [value("z")])))
    issued.append(a.issue(lambda ask: ask.remove_value(ANN, "mail", value("z"))))
    issued.append(a.issue(lambda ask: ask.rename(ANN, name("anna"), remove_old=True)))
    issued.append(a.issue(lambda ask: ask.move(ANN, ROOT)))
    issued.append(a.issue(lambda ask: ask.remove_entry(ANN)))
    changes = [change for each in issued for change in each.changes]
    assert len({type(change) for change in changes}) == 7
    assert [decoded(encoded(change)) for change in changes] == changes
    parts = [change.csn.sub_sequence for change in issued[0].changes]
    assert parts == list(range(len(parts)))
    for entry in a.state.entries.values():
        assert decoded_entry(encoded_entry(entry)) == entry
        assert glanced_entry(encoded_entry(entry)) == entry


WRONG = {
    "id": RemoveEntry(csn=csn(2), entry=b"short"),
    "root": RemoveEntry(csn=csn(2), entry=ROOT),
    "attribute": AddValue(csn=csn(2), entry=ANN, attribute="", value=Value(b"", b"")),
    "huge": AddValue(csn=csn(2), entry=ANN, attribute="a", value=Value(b"", bytes((1 << 20) + 1))),
    "nowhere": MoveEntry(csn=csn(2), entry=ANN, parent=PEOPLE, leaves=()),
    "future": RemoveEntry(csn=csn(2), entry=ANN, seen=Seen((csn(3, 2),))),
    "itself": RemoveEntry(csn=csn(2), entry=ANN, seen=Seen((csn(2),))),
    "unsorted": RemoveEntry(csn=csn(9), entry=ANN, seen=Seen((csn(3, 2), csn(3, 1)))),
    "many": RemoveEntry(csn=csn(9), entry=ANN, seen=Seen(tuple(csn(1, n) for n in range(REPLICAS_MAX + 1)))),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_no_master_can_have_issued_is_refused(change: object) -> None:
    with pytest.raises(InvalidRequest, match="not a change of the directory"):
        decoded(msgspec.msgpack.encode(change))


def test_an_unreadable_change_changes_nothing() -> None:
    state = DirectoryState()
    before = state.dump()
    with pytest.raises(InvalidRequest):
        state.apply(RemoveEntry(csn=csn(2), entry=ANN, seen=Seen((csn(3),))))
    assert state.dump() == before


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_with_one_error(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decoded(data)


def test_a_cut_change_is_refused() -> None:
    whole = encoded(AddEntry(csn=csn(2), entry=ANN, parent=PEOPLE, name=name("ann")))
    for length in range(len(whole)):
        with pytest.raises(InvalidRequest):
            decoded(whole[:length])


def test_an_id_reads_as_entry_uuid() -> None:
    assert uuid_text(ANN) == "00000000-0000-0000-0000-000000000004"


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3))), st.integers(0, 9), st.integers(0, 9))
def test_seen_is_a_set_that_only_grows(parts: list[tuple[int, int]], cut: int, horizon: int) -> None:
    csns = [csn(*each) for each in parts]
    left, right = Seen.of(csns[:cut]), Seen.of(csns[cut:], csn(horizon, 0))
    both = left.joined(right)
    assert both == right.joined(left) == both.joined(left) == both.joined(right)
    for each in (csn(t, r) for t in range(1, 10) for r in range(1, 4)):
        assert both.covers(each) == (left.covers(each) or right.covers(each))
