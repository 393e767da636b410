"""Log lines about individual calls, and what methods know about their trace."""

from dataclasses import replace
from typing import Any

import pytest
from fake_group import FakeClock, FakeGroup
from group_classes import A, call, definition, sent
from style_groups import ALL, CONFIG, told

import holdfast as hf
from holdfast.execution.crash_attempts import Attempt
from holdfast.execution.records import Call, decode_calls, traced
from holdfast.machine.trace import CountingTrace
from holdfast.model.ids import SECOND, ClientId, Epoch, GroupId
from holdfast.model.outcome import Raised, Returned, encode_outcome
from holdfast.model.ports import NoTrace
from holdfast.model.properties import Style
from holdfast.model.traceparent import Traceparent
from holdfast.styles.by_name import make_member
from holdfast.styles.call_log import LINE_EVERY_NS, LINES_MAX, CallLog
from holdfast.styles.stateless import Stateless

CARRIED = Traceparent(bytes(range(16)), bytes(range(1, 9)), 1)


class Teller:
    """Returns, stores or raises its trace, or runs for long."""

    clock: FakeClock

    def __init__(self) -> None:
        self.known: list[str] = []

    def tell(self) -> str:
        self.known.append(hf.context.trace_id)
        return hf.context.traceparent

    def fail(self, text: str) -> None:
        raise ValueError(text)

    def sleep(self) -> str:
        self.clock.time_ns += SECOND
        return "slept"

    async def ask(self) -> str:
        await hf.context.group("other").get()
        return hf.context.trace_id

    @hf.query
    def all(self) -> list[str]:
        return [hf.context.trace_id, *self.known]


def group(style: str) -> FakeGroup:
    made = FakeGroup(style, definition(Teller, "tellers"), CONFIG)
    Teller.clock = made.clock
    return made


def do(made: FakeGroup, *calls: Call) -> None:
    made.replicas[made.primary].on_calls("t", sent(*calls))
    made.settle()


def derived(number: int) -> Traceparent:
    return Traceparent.derived("tellers", A, number)


# --- what methods know


@pytest.mark.parametrize("style", ALL)
def test_a_method_knows_its_trace_and_so_does_every_replay(style: str) -> None:
    """The trace may even be stored in the state: members that execute, replay or load it get the same one,
    because it comes from the record or is derived from the request id."""
    made = group(style)
    do(made, traced(call(1, "tell"), CARRIED.encoded()), call(2, "tell"))
    ((_, _, outcomes),) = told(made)
    assert outcomes == [Returned(str(CARRIED)), Returned(str(derived(2)))]
    made.fail_over("b", is_crash=True)
    made.settle()
    do(made, traced(call(3, "all"), CARRIED.encoded()))
    ((_, _, outcomes),) = told(made)
    assert outcomes == [Returned([CARRIED.trace_id, CARRIED.trace_id, derived(2).trace_id])]
    assert made.faults == []


@pytest.mark.parametrize("style", ALL)
@pytest.mark.parametrize("carried", [CARRIED.encoded(), b""])
def test_a_call_within_a_call_is_of_the_same_trace_whoever_makes_it(style: str, carried: bytes) -> None:
    """This holds even after a failover: the next primary knows the call from the record alone."""
    made = group(style)
    expected = CARRIED if carried else derived(1)
    do(made, traced(call(1, "ask"), carried))
    made.fail_over("b", is_crash=True)
    made.settle()
    assert [(name, each.traceparent) for name, each in made.outgoing] == [
        ("a", expected.encoded()),
        ("b", expected.encoded()),
    ]
    (name, outgoing), made.outgoing = made.outgoing[-1], []
    made.replicas[name].on_nested_outcome(outgoing.caller, outgoing.call, encode_outcome(Returned(None)))
    made.settle()
    again = traced(call(1, "ask"), carried)
    do(made, again)
    assert told(made)[-1][2] == [Returned(expected.trace_id)]


def test_outside_an_operation_there_is_no_trace() -> None:
    with pytest.raises(hf.InvalidRequest):
        _ = hf.context.trace_id


# --- lines


@pytest.mark.parametrize("style", ALL)
def test_a_method_that_raises_leaves_a_line_where_it_was_called_and_nowhere_else(style: str) -> None:
    made = group(style)
    do(made, traced(call(1, "fail", "no luck"), CARRIED.encoded()))
    ((_, _, outcomes),) = told(made)
    assert outcomes == [Raised("ValueError", "no luck")]
    ((name, event, fields),) = made.told
    assert (name, event) == ("a", "a method raised")
    where = fields.pop("at")
    assert fields == {
        "trace_id": CARRIED.trace_id,
        "group": "tellers",
        "request": "a/1",
        "error": "ValueError",
        "text": "no luck",
    }
    assert str(where).startswith(f"{__name__}:")
    assert str(where).endswith(" fail")
    made.fail_over("b", is_crash=True)
    made.settle()
    assert len(made.told) == 1, "replays find the same, and say nothing"


@pytest.mark.parametrize("style", ALL)
def test_a_call_that_runs_for_long_leaves_a_line(style: str) -> None:
    made = group(style)
    do(made, call(1, "tell"), call(2, "sleep"))
    found = [(name, event, fields["trace_id"], fields["method"]) for name, event, fields in made.told]
    assert found == [
        ("a", "a call was slow", derived(1).trace_id, "tell"),
        ("a", "a call was slow", derived(2).trace_id, "sleep"),
    ]
    assert {(fields["took_ms"], fields["among"]) for _, _, fields in made.told} == {(1000, 2)}


def test_lines_are_bounded_and_the_next_says_how_many_were_left_out() -> None:
    written: list[dict[str, Any]] = []
    clock = FakeClock()
    lines = CallLog(lambda event, **fields: written.append(fields), clock)
    lines.tell("a call was lost", "tellers", A, [call(number, "tell") for number in range(1, 1001)])
    assert len(written) == LINES_MAX
    assert not lines.has_room()
    lines.leave_out(4)
    clock.time_ns += LINE_EVERY_NS
    lines.tell("a call was lost", "tellers", A, [call(number, "tell") for number in (1001, 1002)])
    assert len(written) == LINES_MAX + 1
    assert written[-1]["left_out"] == 1000 - LINES_MAX + 4
    clock.time_ns += 3600 * SECOND
    lines.tell("a call was lost", "tellers", A, [call(number, "tell") for number in range(1, 1001)])
    assert len(written) == 2 * LINES_MAX + 1, "rest is not saved up"


def test_an_error_that_cannot_say_what_it_is_still_has_its_line() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    class Mutes:
        def fail(self) -> None:
            raise Mute

    made = FakeGroup("warm", definition(Mutes, "mutes"), CONFIG)
    do(made, call(1, "fail"))
    ((_, _, fields),) = made.told
    assert (fields["error"], fields["text"]) == ("Mute", "")


def test_the_record_has_the_trace_as_the_caller_sent_it() -> None:
    """The trace is stored only there: the kept reply does not contain it."""
    made = group("warm")
    do(made, traced(call(1, "sleep"), CARRIED.encoded()))
    execution = made.replicas["a"].execution
    assert execution is not None
    assert CARRIED.trace not in execution.save()
    assert any(CARRIED.trace in record.body for record in made.final)


def test_a_request_that_waits_in_line_keeps_its_trace_in_a_checkpoint() -> None:
    made = group("active")
    do(made, call(1, "ask"), traced(call(2, "tell"), CARRIED.encoded()))
    execution = made.replicas["b"].execution
    assert execution is not None
    assert [job.traceparent for job in execution.line.queue] == [CARRIED.encoded()]


def test_calls_are_decoded_with_what_they_carry() -> None:
    (found,) = decode_calls(sent(traced(call(1, "tell"), CARRIED.encoded()), client=ClientId("x")).calls)
    assert found.traceparent == CARRIED.encoded()


@pytest.mark.parametrize("style", ALL)
def test_the_first_answer_of_each_primary_is_noted(style: str) -> None:
    """With it, a failover can be measured until a client gets an answer again."""

    class Noted(FakeGroup):
        trace = CountingTrace(NoTrace())

    made = Noted(style, definition(Teller, "tellers"), CONFIG)
    do(made, call(1, "tell"))
    do(made, call(2, "tell"))
    assert made.trace.counts["answered"] == 1
    made.fail_over("b", is_crash=True)
    made.settle()
    assert made.trace.counts["answered"] == 1
    do(made, call(3, "tell"))
    assert made.trace.counts["answered"] == 2


@pytest.mark.parametrize("is_self_kept", [True, False])
def test_members_without_a_sequence_leave_lines_too(is_self_kept: bool) -> None:
    made = group("warm")
    written: list[tuple[str, object]] = []
    lines = CallLog(lambda event, **fields: written.append((event, fields["trace_id"])), made.clock)
    ports = replace(made.ports["a"], lines=lines)
    style = Style.COLD_PASSIVE if is_self_kept else Style.STATELESS
    member = make_member(style, definition(Teller, "tellers"), ports, CONFIG, is_self_kept=is_self_kept)
    assert isinstance(member, Stateless)
    member.on_serving(Epoch(1))
    member.turn()
    member.execute(sent(traced(call(1, "fail", "no"), CARRIED.encoded())))
    member.execute(sent(call(2, "sleep")))
    assert written == [("a method raised", CARRIED.trace_id), ("a call was slow", derived(2).trace_id)]


@pytest.mark.parametrize("style", ALL)
def test_a_call_that_is_given_up_leaves_a_line(style: str) -> None:
    made = group(style)
    for _ in range(2):
        made.attempts["a"].ended(Attempt(GroupId(1), A, 1, 1, 2))
    do(made, traced(call(1, "tell"), CARRIED.encoded()))
    made.settle()
    (fields,) = (fields for name, event, fields in made.told if event == "a call was given up")
    assert (fields["trace_id"], fields["call"]) == (CARRIED.trace_id, "tell()")
