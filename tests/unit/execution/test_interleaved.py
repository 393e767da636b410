"""Classes whose operations may run while others wait for another group (E11, E12)."""

from typing import Any

import msgspec
import pytest
from fake_group import FakeGroup
from group_classes import B, Spy, call, definition, following, run, sent, stamp
from style_groups import ALL, told

import holdfast as hf
from holdfast.execution.crash_attempts import NO_GROUP, Attempt
from holdfast.execution.execution import Execution
from holdfast.execution.interface import interface_of
from holdfast.execution.queue import WAITING_MAX
from holdfast.execution.records import Calls, Marked, NestedReply, Unmarked, encode_arguments
from holdfast.model.calls import Request
from holdfast.model.ids import SECOND, ClientId, Position
from holdfast.model.outcome import Refused, Returned, decode_outcome, encode_outcome
from holdfast.styles.config import StyleConfig

INTERVAL_NS = 10 * SECOND
CONFIG = StyleConfig(
    checkpoint_interval_ns=INTERVAL_NS, scan_positions=1, gate_ns=5 * SECOND, gate_pause_ns=20 * SECOND
)
OUTER = ("bank",)


@hf.interleaved
class Diary(Spy):
    """Writes down each start and each end of an operation."""

    async def visit(self, name: str, times: int = 1) -> list[Any]:
        self.write(f"{name} leaves")
        found = [await hf.context.group("other").get(name) for _ in range(times)]
        self.write(f"{name} is back")
        return found


def machine() -> Execution:
    Spy.runs.clear()
    return Execution(definition(Diary))


def lines_of(execution: Execution) -> list[str]:
    found = decode_outcome(execution.query("read", encode_arguments((), {}), Request(B, 1)))
    assert isinstance(found, Returned)
    lines: list[str] = found.value
    return lines


def answer(execution: Execution, number: int, value: object = None, call: int = 1) -> list[int]:
    """Record the answer to a call of request *number*. Returns the numbers of the requests that end."""
    outcome = encode_outcome(Returned(value))
    effects = execution.apply(
        following(execution), NestedReply(stamp(20), ClientId("a"), number, call, outcome)
    )
    return [reply.number for reply in effects.later]


def nested(execution: Execution, number: int, method: str, *args: object) -> bytes | None:
    """A call that another group's operation waits for."""
    frame = msgspec.structs.replace(sent(call(number, method, *args), client=B), chain=OUTER)
    return execution.apply(following(execution), Calls(stamp(11), frame)).outcomes[0]


def test_operations_begin_while_others_wait_and_go_on_as_they_are_answered() -> None:
    execution = machine()
    calls = [call(1, "visit", "ann"), call(2, "write", "between"), call(3, "visit", "bob")]
    assert run(execution, *calls) == [None, Returned(2), None]
    assert [each.caller.number for each in execution.line.outgoings()] == [1, 3]
    assert answer(execution, 3) == [3]
    assert run(execution, call(4, "write", "later")) == [Returned(5)]
    assert answer(execution, 1) == [1]
    assert lines_of(execution) == [
        "ann leaves",
        "between",
        "bob leaves",
        "bob is back",
        "later",
        "ann is back",
    ]
    assert execution.is_idle


def test_a_plain_class_stands_in_line_as_before() -> None:
    execution = Execution(definition(Spy))
    assert run(execution, call(1, "ask", "x"), call(2, "write", "y")) == [None, None]
    assert not interface_of(Spy).is_interleaved


def test_queries_see_the_object_as_it_is() -> None:
    execution = machine()
    run(execution, call(1, "visit", "ann"))
    assert lines_of(execution) == ["ann leaves"]


def test_only_a_class_can_be_interleaved() -> None:
    with pytest.raises(TypeError, match="marks a class"):
        hf.interleaved(lambda: None)  # type: ignore[type-var]  # that is the mistake


def test_beyond_a_bound_they_stand_in_line() -> None:
    execution = machine()
    run(execution, *(call(number, "visit", str(number)) for number in range(1, WAITING_MAX + 3)))
    assert len(list(execution.line.outgoings())) == WAITING_MAX
    assert len(execution.line.queue) == 2
    assert answer(execution, 7) == [7]
    assert execution.line.is_running(Request(ClientId("a"), WAITING_MAX + 1))
    assert len(execution.line.queue) == 1


# --- the gate


def test_after_a_mark_nothing_begins_until_the_object_has_been_at_rest() -> None:
    execution = machine()
    run(execution, call(1, "visit", "ann"), call(2, "visit", "bob"))
    execution.apply(following(execution), Marked())
    states: list[bytes] = []
    execution.when_at_rest(lambda: states.append(execution.save()))
    assert run(execution, call(3, "write", "held up"), call(4, "visit", "cleo")) == [None, None]
    assert answer(execution, 1) == [1]
    assert not states
    assert answer(execution, 2) == [2, 3], "what was held up begins at once"
    loaded = Execution.load(execution.definition, *states)
    assert lines_of(loaded) == ["ann leaves", "bob leaves", "ann is back", "bob is back"]
    loaded.go_on()
    assert lines_of(loaded) == lines_of(execution)
    assert loaded.digest() == execution.digest()
    assert run(execution, call(5, "write", "free")) == [Returned(7)], "it is open again"


def test_a_mark_where_nothing_waits_holds_up_nobody() -> None:
    execution = machine()
    execution.apply(following(execution), Marked())
    assert run(execution, call(1, "visit", "ann"), call(2, "write", "x")) == [None, Returned(2)]


def test_a_gate_that_was_given_up_lets_those_in_line_begin() -> None:
    execution = machine()
    run(execution, call(1, "visit", "ann"))
    execution.apply(following(execution), Marked())
    run(execution, call(2, "write", "x"))
    effects = execution.apply(following(execution), Unmarked())
    assert [reply.number for reply in effects.later] == [2]
    assert run(execution, call(3, "write", "y")) == [Returned(3)]


def test_a_call_that_somebody_waits_for_passes_a_closed_gate() -> None:
    """Otherwise two groups that call each other, both about to be captured, would wait for each other."""
    execution = machine()
    run(execution, call(1, "visit", "ann"))
    execution.apply(following(execution), Marked())
    assert run(execution, call(2, "write", "of a client")) == [None]
    outcome = nested(execution, 1, "write", "of a group")
    assert outcome is not None
    assert decode_outcome(outcome) == Returned(2)
    assert nested(execution, 2, "visit", "bob") is None
    assert [job.number for job in execution.line.queue] == [2, 2], "one that waits itself does not pass"


# --- in every style


def group(style: str, cls: type = Diary) -> FakeGroup:
    Spy.runs.clear()
    made = FakeGroup(style, definition(cls), CONFIG)
    made.clock.step_ns = 1000
    made.settle()
    return made


def operate(made: FakeGroup, number: int, method: str, *args: object) -> None:
    made.replicas[made.primary].on_calls(f"op {number}", sent(call(number, method, *args)))
    made.settle()


def come_back(made: FakeGroup, number: int) -> None:
    """Deliver the answer to the call of that request."""
    (found,) = (each for each in made.outgoing if each[1].caller.number == number)
    made.outgoing.remove(found)
    name, waits = found
    made.replicas[name].on_nested_outcome(waits.caller, waits.call, encode_outcome(Returned(number)))
    made.settle()


def journal(made: FakeGroup) -> list[str]:
    execution = made.replicas[made.primary].execution
    assert execution is not None
    return lines_of(execution)


@pytest.mark.parametrize("style", ALL)
def test_each_is_sent_once_and_answered_by_itself(style: str) -> None:
    made = group(style)
    for number in (1, 2, 3):
        operate(made, number, "visit", str(number))
    assert [outgoing.caller.number for _, outgoing in made.outgoing] == [1, 2, 3]
    for number in (2, 3, 1):
        come_back(made, number)
        assert told(made) == [(f"op {number}", [number], [Returned([number])])]
    assert not made.outgoing


@pytest.mark.parametrize("style", ALL)
def test_a_new_primary_takes_the_same_steps_and_asks_again_what_has_no_answer(style: str) -> None:
    made = group(style)
    for number in (1, 2, 3):
        operate(made, number, "visit", str(number))
    come_back(made, 2)
    before = journal(made)
    made.outgoing.clear()
    made.fail_over("b", is_crash=True)
    made.settle()
    assert journal(made) == before
    assert [(outgoing.caller.number, outgoing.may_have_left) for _, outgoing in made.outgoing] == [
        (1, True),
        (3, True),
    ]
    for number in (3, 1):
        come_back(made, number)
    assert journal(made) == [*before, "3 is back", "1 is back"]
    assert made.faults == []


@pytest.mark.parametrize("style", ALL)
def test_a_checkpoint_is_made_though_somebody_always_waits(style: str) -> None:
    made = group(style)
    operate(made, 1, "visit", "1")
    made.clock.time_ns += INTERVAL_NS
    for number in range(2, 30):
        operate(made, number, "visit", str(number))
        sent_out = [outgoing.caller.number for _, outgoing in made.outgoing]
        if len(sent_out) > 1 or number > 5:
            come_back(made, sent_out[0])
    kept = made.members[made.primary].checkpoint
    assert kept is not None
    assert Position(1) < kept.position < made.members[made.primary].tail
    assert made.faults == []


@pytest.mark.parametrize("style", ALL)
def test_a_rest_that_does_not_come_holds_up_operations_for_a_bounded_time(style: str) -> None:
    """One operation waits for a group that does not answer."""
    made = group(style)
    operate(made, 1, "visit", "nobody")
    made.outgoing.clear()
    made.clock.time_ns += INTERVAL_NS
    made.settle()
    operate(made, 2, "write", "held up")
    told(made)
    wake_ns = made.replicas[made.primary].next_wake_ns()
    assert wake_ns is not None
    assert wake_ns <= made.clock.wall() + CONFIG.gate_ns
    made.clock.time_ns += CONFIG.gate_ns
    made.settle()
    assert told(made) == [("op 2", [2], [Returned(2)])]
    operate(made, 3, "write", "free")
    assert told(made) == [("op 3", [3], [Returned(3)])]


@pytest.mark.parametrize("style", ALL)
def test_before_an_orderly_stop_nothing_begins_until_the_state_is_kept(style: str) -> None:
    """This holds although clients continue to call."""
    made = group(style)
    primary = made.replicas[made.primary]
    operate(made, 1, "visit", "1")
    assert not primary.settle()
    made.settle()
    operate(made, 2, "visit", "2")
    assert [outgoing.caller.number for _, outgoing in made.outgoing] == [1]
    come_back(made, 1)
    made.settle()
    kept = made.members[made.primary].checkpoint
    assert kept is not None
    assert kept.position >= Position(3)
    come_back(made, 2)


@pytest.mark.parametrize("style", ALL)
def test_one_that_ends_processes_is_given_up_and_the_others_go_on(style: str) -> None:
    made = group(style)
    for number in (1, 2, 3):
        operate(made, number, "visit", str(number), 2)
    come_back(made, 2)
    made.outgoing.clear()
    for name in "bc":
        made.attempts[name].ended(Attempt(NO_GROUP, ClientId("a"), 2, 2, 2))
    made.fail_over("b", is_crash=True)
    made.settle()
    for _ in range(2):
        for number in (3, 1):
            come_back(made, number)
    found = journal(made)
    assert "2 is back" not in found
    assert found[-2:] == ["3 is back", "1 is back"]
    execution = made.replicas[made.primary].execution
    assert execution is not None
    assert execution.is_idle
    assert {kind for _, kind, _ in made.faults} == {"poisoned"}


@pytest.mark.parametrize("style", ALL)
@pytest.mark.parametrize(("cls", "is_run"), [(Diary, True), (Spy, False)])
def test_a_call_that_comes_back_to_its_caller_runs_where_that_does_not_wait_in_the_way(
    style: str, cls: type, is_run: bool
) -> None:
    made = group(style, cls)
    frame = msgspec.structs.replace(sent(call(1, "write", "x"), client=B), chain=("g", "other"))
    made.replicas[made.primary].on_calls("back", frame)
    made.settle()
    ((_, _, (outcome,)),) = told(made)
    assert isinstance(outcome, Returned if is_run else Refused)
