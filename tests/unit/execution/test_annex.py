"""The parts that annexes have of an object's state: applied, saved, loaded, compared with it (W9, W10)."""

from dataclasses import replace

import msgspec
import pytest
from annex_notes import NAME, Notes, NoteState
from group_classes import Spy, call, definition, following, run, stamp

from holdfast.execution.annex import AnnexOperation, UnknownAnnex
from holdfast.execution.capture import NotCapturable
from holdfast.execution.execution import Execution
from holdfast.execution.records import Annexed, NestedReply, Replied, encode_record
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Position
from holdfast.model.outcome import encode_returned

PLAIN = definition(Spy)


def made(*, writes: bool = False) -> Execution:
    return Execution(replace(PLAIN, annexes=(Notes(writes=writes),)))


def note(execution: Execution, text: str) -> str:
    """Apply a note; how it differs, if it does."""
    record = Annexed(stamp(), NAME, len(text.split()), text.encode())
    return execution.apply(following(execution), record).divergence


def notes(execution: Execution) -> list[tuple[Position, str]]:
    state = execution.annexes.get(NAME)
    assert isinstance(state, NoteState)
    return state.notes


def lines(execution: Execution) -> list[str]:
    assert isinstance(execution.line.instance, Spy)
    return execution.line.instance.lines


def test_a_record_takes_its_positions_and_acts_on_its_annex() -> None:
    execution = made()
    note(execution, "one two three")
    note(execution, "four")
    assert notes(execution) == [(1, "one two three"), (4, "four")]
    assert execution.position == 4


def test_the_object_executes_what_a_record_asks_for_in_its_place() -> None:
    execution = made(writes=True)
    run(execution, call(1, "write", "first"))
    note(execution, "a b")
    run(execution, call(2, "write", "last"))
    assert lines(execution) == ["first", "a b.0", "a b.1", "last"]


def test_what_a_record_asks_for_stands_in_line_behind_an_operation_that_waits() -> None:
    """The annex's own part is of the record's position at once; the object is half done until then (E2)."""
    execution = made(writes=True)
    run(execution, call(1, "ask", "slow"))
    note(execution, "a")
    assert (lines(execution), notes(execution)) == ([], [(2, "a")])
    reply = NestedReply(stamp(), *_caller(execution), 1, encode_returned(None))
    ended = execution.apply(following(execution), reply).later
    assert lines(execution) == ["slow", "a.0"]
    assert [each.number for each in ended] == [1]


def test_what_stands_in_line_is_saved_with_the_state() -> None:
    execution = made(writes=True)
    run(execution, call(1, "ask", "slow"))
    note(execution, "a")
    (job,) = execution.line.queue
    assert (job.client, job.number, job.method) == ("annex/notes", 2, "write")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(job), type=type(job)) == job


def _caller(execution: Execution) -> tuple[str, int]:
    outgoing = execution.outgoing()
    assert outgoing is not None
    return outgoing.caller


@pytest.mark.parametrize("in_pieces", [False, True])
def test_a_saved_state_has_the_parts_of_annexes(in_pieces: bool) -> None:
    execution = made()
    note(execution, "one")
    saved = b"".join(execution.pieces()) if in_pieces else execution.save()
    back = Execution.load(replace(PLAIN, annexes=(Notes(),)), saved)
    assert notes(back) == [(1, "one")]
    assert back.digest() == execution.digest()


def test_members_whose_annexes_differ_are_found_to_differ() -> None:
    one, other = made(), made()
    note(one, "one")
    note(other, "two")
    assert one.digest() != other.digest()
    assert one.digest(with_state=False) != other.digest(with_state=False)


def test_an_annex_that_was_never_used_is_as_good_as_none() -> None:
    """A host that does not know it yet, or no more, has the same digest, and loads the state."""
    execution, plain = made(), Execution(PLAIN)
    assert execution.digest() == plain.digest()
    assert Execution.load(PLAIN, execution.save()).position == 0


def test_a_state_with_a_part_that_is_not_known_here_is_not_loaded() -> None:
    """Without its annex the object would go on as if nothing of it had been ordered."""
    execution = made()
    note(execution, "one")
    with pytest.raises(UnknownAnnex, match="'notes'"):
        Execution.load(PLAIN, execution.save())


def test_a_record_for_an_annex_that_is_not_known_here_is_a_difference() -> None:
    execution = Execution(PLAIN)
    assert "'notes'" in note(execution, "one two")
    assert execution.position == 2


def test_a_part_that_does_not_come_back_is_no_state() -> None:
    """E9."""

    class Forgets(NoteState):
        def load(self, saved: bytes) -> None:
            self.notes = []

    class Forgetful(Notes):
        def state(self) -> NoteState:
            return Forgets(self)

    execution = Execution(replace(PLAIN, annexes=(Forgetful(),)))
    note(execution, "one")
    with pytest.raises(NotCapturable, match="notes would not come back"):
        execution.save()


def test_a_part_cannot_call_more_methods_than_its_record_has_positions() -> None:
    """Each call has the id of a position, by which it is given up if it ends processes (E4)."""
    operation = AnnexOperation(Position(1), 1, b"", 0)
    operation.call("write", "one")
    with pytest.raises(InvalidRequest, match="at most as many"):
        operation.call("write", "two")


def test_an_update_counts_positions_and_leaves_annexes_to_what_it_brings() -> None:
    execution = made()
    execution.keep_account(Position(1), Annexed(stamp(), NAME, 2, b"one two"))
    assert (execution.position, notes(execution)) == (2, [])
    execution.keep_account(Position(3), Replied([]))
    assert execution.position == 3


def test_the_record_is_told_by_its_first_bytes_like_all_others() -> None:
    """Backups look for steps without decoding what is none."""
    assert encode_record(Annexed(stamp(), NAME, 1, b""))[1:2] == bytes([23])
