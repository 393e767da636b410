"""Stored objects: their database trails the records, and no record takes effect on it twice."""

from pathlib import Path

import msgspec
import pytest
from group_classes import A, call, definition, run, stamp
from stored_words import Words, stored, words_of

import holdfast as hf
from holdfast.execution.capture import NotCapturable
from holdfast.execution.database import check_schema
from holdfast.execution.execution import Execution
from holdfast.execution.records import Annexed, NestedReply, encode_arguments
from holdfast.execution.saved_state import Saved, is_of_files
from holdfast.execution.stored import StoredState, stored_state
from holdfast.model.calls import Request
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Position
from holdfast.model.outcome import Raised, Returned, decode_outcome, encode_outcome


def flushed(execution: Execution) -> bytes:
    """Flush, and return the checkpoint that would stand on it."""
    saved = msgspec.msgpack.decode(b"".join(execution.pieces()), type=Saved)
    state = StoredState(stored_state(saved.state).attributes, b"a manifest", "home")
    return msgspec.msgpack.encode(msgspec.structs.replace(saved, state=msgspec.msgpack.encode(state)))


def test_records_that_the_database_holds_are_passed_over(tmp_path: Path) -> None:
    """The process ends after a flush, before the checkpoint that stands on it: the next one loads an older
    checkpoint, and executes only what lies beyond the flush."""
    first = Execution(stored(tmp_path / "d.db"))
    run(first, call(1, "add", "one"))
    checkpoint = flushed(first)
    run(first, call(2, "add", "two"), call(3, "add", "three"))
    flushed(first)
    run(first, call(4, "add", "four"))
    digest = first.digest()
    first.discard()

    second = Execution.load(stored(tmp_path / "d.db"), checkpoint)
    assert (second.position, second.is_whole) == (1, False)
    run(second, call(2, "add", "two"), call(3, "add", "three"))
    assert (second.position, second.is_whole) == (3, True)
    assert words_of(second) == ["one", "two", "three"]
    assert run(second, call(4, "add", "four")) == [Returned(4)]
    assert words_of(second) == ["one", "two", "three", "four"]
    assert second.line.instance.added == 4  # type: ignore[attr-defined]  # it is a Words
    assert second.digest() == digest


@pytest.mark.parametrize("flushes", [False, True])
def test_an_operation_undoes_nothing_of_another(tmp_path: Path, flushes: bool) -> None:
    """Nor does it matter whether this member has flushed between the two."""
    execution = Execution(stored(tmp_path / "d.db"))
    run(execution, call(1, "mark"), call(2, "add", "one"))
    if flushes:
        flushed(execution)
    (undone,) = run(execution, call(3, "undo"))
    assert undone == Returned("no such savepoint: mark")
    assert words_of(execution) == ["one"]


def test_savepoints_end_where_an_operation_waits_for_another_group(tmp_path: Path) -> None:
    """Operations that run meanwhile (interleaved classes) would be within them."""
    execution = Execution(stored(tmp_path / "d.db"))
    assert run(execution, call(1, "mark_and_ask")) == [None]
    answer = NestedReply(stamp(), A, 1, 1, encode_outcome(Returned("two")))
    (reply,) = execution.apply(Position(2), answer).later
    assert decode_outcome(reply.outcome) == Returned("no such savepoint: mark")
    assert words_of(execution) == ["one"]


def test_a_record_of_several_positions_is_passed_over_whole(tmp_path: Path) -> None:
    """One of an annex, which this object does not even have: its effect came with the flush."""
    first = Execution(stored(tmp_path / "d.db"))
    run(first, call(1, "add", "one"))
    checkpoint = flushed(first)
    annexed = Annexed(stamp(), "unknown", 3, b"")
    first.apply(Position(2), annexed)
    flushed(first)
    first.discard()
    second = Execution.load(stored(tmp_path / "d.db"), checkpoint)
    assert second.may_apply(annexed)
    effects = second.apply(Position(2), annexed)
    assert (second.position, second.is_whole, effects.divergence) == (4, True, "")


def test_what_stood_in_line_at_the_checkpoint_does_not_run_on_a_database_that_has_it(tmp_path: Path) -> None:
    """The object was captured between two operations, while others stood in line: by the next flush they had
    run."""
    first = Execution(stored(tmp_path / "d.db"))
    assert run(first, call(1, "ask"), call(2, "add", "two"), call(3, "add", "three")) == [None] * 3
    checkpoints: list[bytes] = []
    first.when_at_rest(lambda: checkpoints.append(flushed(first)))
    answer = NestedReply(stamp(), A, 1, 1, encode_outcome(Returned("one")))
    assert len(first.apply(Position(4), answer).later) == 3
    run(first, call(4, "add", "four"))
    flushed(first)
    digest = first.digest()
    first.discard()

    second = Execution.load(stored(tmp_path / "d.db"), checkpoints[0])
    assert (second.position, len(second.line.queue)) == (4, 2)
    assert second.go_on().later == []
    run(second, call(4, "add", "four"))
    assert (second.position, second.is_whole, second.is_idle) == (5, True, True)
    assert words_of(second) == ["one", "two", "three", "four"]
    assert second.digest() == digest
    assert run(second, call(3, "add", "three")) == [Returned(3)]


def test_a_repeated_call_below_the_flush_gets_its_reply(tmp_path: Path) -> None:
    """Replies are in no record of an active group: they come with the flush."""
    first = Execution(stored(tmp_path / "d.db"))
    checkpoint = flushed(first)
    run(first, call(1, "add", "one"))
    flushed(first)
    first.discard()
    second = Execution.load(stored(tmp_path / "d.db"), checkpoint)
    run(second, call(1, "add", "one"))
    assert run(second, call(1, "add", "one")) == [Returned(1)]
    assert words_of(second) == ["one"]


def test_a_state_of_files_says_so_and_has_no_rows(tmp_path: Path) -> None:
    execution = Execution(stored(tmp_path / "d.db"))
    run(execution, *(call(number, "add", "word" * 100) for number in range(1, 50)))
    state = flushed(execution)
    assert is_of_files(state)
    assert b"wordword" not in state
    assert not is_of_files(Execution(definition()).save())


def test_the_database_is_for_methods_and_queries_only_read(tmp_path: Path) -> None:
    class Eager(Words):
        def __init__(self) -> None:
            super().__init__()
            self.add("too early")

    with pytest.raises(InvalidRequest, match="used by methods"):
        Execution(definition(Eager))
    execution = Execution(stored(tmp_path / "d.db"))
    run(execution, call(1, "add", "one"))
    found = execution.query("cheat", encode_arguments((), {}), Request(A, 2))
    outcome = decode_outcome(found)
    assert isinstance(outcome, Raised)
    assert "a query changes nothing" in outcome.text
    assert words_of(execution) == ["one"]


def test_what_a_stored_class_cannot_have_is_refused() -> None:
    class Slow(Words):
        @hf.slow
        def grind(self) -> None: ...

    class OwnState(Words):
        def get_state(self) -> bytes:
            return b""

        def set_state(self, state: bytes) -> None: ...

    class BadSchema(Words):
        schema = "CREATE TABLE"

    with pytest.raises(NotCapturable, match="cannot be @slow"):
        definition(Slow)
    with pytest.raises(NotCapturable, match="no get_state"):
        definition(OwnState)
    with pytest.raises(InvalidRequest, match="schema"):
        check_schema(BadSchema)
