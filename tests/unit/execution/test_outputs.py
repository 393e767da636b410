"""Outputs: their ids are the same wherever a record is executed (O5)."""

import pytest
from group_classes import call, definition, run

from holdfast.execution.context import OutsideOperation, context
from holdfast.execution.execution import Execution
from holdfast.execution.interface import query
from holdfast.execution.outputs import BYTES_MAX, OUTPUTS_MAX, PAYLOAD_BYTES_MAX, OutputId, Outputs
from holdfast.execution.records import encode_arguments
from holdfast.model.calls import Request
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ClientId, Position
from holdfast.model.outcome import Raised, Returned, decode_outcome


class Ticker:
    ticks: int

    def __init__(self) -> None:
        self.ticks = 0

    def tick(self, count: int) -> int:
        for _ in range(count):
            context.emit("ticks", b"tick")
        self.ticks += count
        return self.ticks

    @query
    def look(self) -> None:
        context.emit("ticks", b"never")


def test_an_id_is_the_position_and_the_index() -> None:
    at = [Position(7)]
    outputs = Outputs(lambda: at[0])
    assert [outputs.put("t", b"1"), outputs.put("t", b"2")] == [OutputId(7, 0), OutputId(7, 1)]
    at[0] = Position(9)
    assert outputs.put("t", b"3") == OutputId(9, 0)
    found, is_gap = outputs.after(OutputId(7, 0), Position(9))
    assert ([each.payload for each in found], is_gap) == ([b"2", b"3"], False)
    assert [each.id for each in outputs.after(None, Position(8))[0]] == [OutputId(7, 0), OutputId(7, 1)]


def test_the_last_ones_are_kept_and_a_destination_learns_that_it_missed_some() -> None:
    at = [Position(0)]
    outputs = Outputs(lambda: at[0])
    for number in range(OUTPUTS_MAX + 2):
        at[0] = Position(number + 1)
        outputs.put("t", b"")
    assert outputs.after(OutputId(2, 0), at[0])[1] is False
    assert outputs.after(OutputId(1, 0), at[0])[1] is True
    assert len(outputs.after(None, at[0])[0]) == OUTPUTS_MAX
    long = Outputs(lambda: at[0])
    for _ in range(BYTES_MAX // PAYLOAD_BYTES_MAX + 5):
        long.put("t", b"x" * PAYLOAD_BYTES_MAX)
    assert long.after(None, at[0])[1] is True
    loaded = Outputs(lambda: at[0])
    loaded.begin_at(Position(5))
    assert loaded.after(OutputId(4, 0), at[0])[1] is True
    assert loaded.after(OutputId(6, 0), at[0])[1] is False


def test_what_is_too_long_is_refused() -> None:
    outputs = Outputs(lambda: Position(1))
    with pytest.raises(InvalidRequest):
        outputs.put("t", b"x" * (PAYLOAD_BYTES_MAX + 1))
    with pytest.raises(InvalidRequest):
        outputs.put("t" * 201, b"")


def test_only_an_ordered_operation_gives_outputs_and_a_replay_gives_the_same() -> None:
    with pytest.raises(OutsideOperation):
        context.emit("t", b"")
    one, other = Execution(definition(Ticker)), Execution(definition(Ticker))
    for execution in (one, other):
        assert run(execution, call(1, "tick", 2), call(2, "tick", 1)) == [Returned(2), Returned(3)]
        asked = execution.query("look", encode_arguments((), {}), Request(ClientId("q"), 1))
        assert isinstance(decode_outcome(asked), Raised)
    found = one.outputs.after(None, one.position)
    assert found == other.outputs.after(None, other.position)
    assert [each.id for each in found[0]] == [OutputId(2, 0), OutputId(2, 1), OutputId(2, 2)]
    later = Execution.load(definition(Ticker), one.save())
    assert later.outputs.after(None, later.position) == ([], True)
