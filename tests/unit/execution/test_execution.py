"""Executing records: each runs once, with the same result on every member, whatever the method does."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from group_classes import (
    LATER_S,
    A,
    B,
    Counter,
    call,
    definition,
    following,
    run,
    sent,
    stamp,
)

import holdfast as hf
from holdfast.execution.capture import NotCapturable
from holdfast.execution.context import OutsideOperation
from holdfast.execution.definition import NotMade
from holdfast.execution.effects import Effects
from holdfast.execution.execution import Execution
from holdfast.execution.method import CannotAwait
from holdfast.execution.records import (
    Calls,
    Executed,
    NestedReply,
    Poison,
    Record,
    Replied,
    Reply,
    Settled,
    TimerFired,
    encode_arguments,
)
from holdfast.execution.timers import Timers
from holdfast.model.calls import Request
from holdfast.model.errors import BrokenInvariant, invariant
from holdfast.model.ids import Position
from holdfast.model.outcome import (
    MethodRaised,
    Outcome,
    Poisoned,
    Raised,
    Refused,
    Returned,
    Unknown,
    decode_outcome,
    encode_outcome,
    encode_raised,
    encode_returned,
    error_in_words,
    value_of,
)
from holdfast.sequence.retention import NEVER, InProgress, Repeated


def machine(cls: type = Counter) -> Execution:
    return Execution(definition(cls))


def apply(execution: Execution, record: Record) -> Effects:
    return execution.apply(following(execution), record)


def answer(execution: Execution, outcome: Outcome, time_s: int = 20) -> Effects:
    """Record the outcome of the nested call that an operation is waiting for."""
    waits = execution.outgoing()
    assert waits is not None
    return apply(execution, NestedReply(stamp(time_s), *waits.caller, waits.call, encode_outcome(outcome)))


def get(execution: Execution) -> Any:
    outcome = decode_outcome(execution.query("get", encode_arguments((), {}), Request(A, 99)))
    assert isinstance(outcome, Returned)
    return outcome.value


def test_calls_of_a_batch_run_in_order_and_reply_each() -> None:
    execution = machine()
    assert run(execution, call(1, "add", 5), call(2, "add"), call(3, "add", amount=2)) == [
        Returned(5),
        Returned(6),
        Returned(8),
    ]
    assert execution.position == 3


def test_an_exception_is_a_reply_and_what_was_changed_before_stays() -> None:
    execution = machine()
    assert run(execution, call(1, "spoil", 7)) == [Raised("ValueError", "spoilt by 7")]
    assert get(execution) == 7


@pytest.mark.parametrize(
    "bad",
    [
        call(1, "nothing"),
        call(1, "_hidden"),
        call(1, "get_state"),
        call(1, "add", "text"),
        call(1, "add", 1, 2),
        call(1, "add", wrong=1),
        call(1, "spoil"),
    ],
)
def test_a_bad_call_is_refused_and_changes_nothing(bad: Any) -> None:
    execution = machine()
    (outcome,) = run(execution, bad)
    assert isinstance(outcome, Refused)
    assert outcome.code == "bad_call"
    assert get(execution) == 0
    assert run(execution, call(2, "add")) == [Returned(1)]


@pytest.mark.covers("FTC-97")
def test_a_repetition_gets_the_first_reply_also_inside_one_batch() -> None:
    execution = machine()
    assert run(execution, call(1, "add"), call(1, "add"), call(2, "add")) == [
        Returned(1),
        Returned(1),
        Returned(2),
    ]
    assert run(execution, call(2, "add")) == [Returned(2)]
    assert run(execution, call(2, "add"), client=B) == [Returned(3)]


@pytest.mark.covers("FTC-98")
def test_expiry_is_judged_by_the_records_time_only() -> None:
    execution = machine()
    (late,) = run(execution, call(1, "add", expiration_s=10), time_s=10)
    assert isinstance(late, Refused)
    assert late.code == "expired"
    assert run(execution, call(2, "add", expiration_s=11), time_s=10) == [Returned(1)]


def test_the_clients_floor_refuses_late_copies() -> None:
    execution = machine()
    run(execution, call(1, "add"))
    effects = apply(execution, Calls(stamp(), sent(call(2, "add"), call(1, "add"), floor=2)))
    second = decode_outcome(effects.outcomes[1] or b"")
    assert isinstance(second, Refused)
    assert second.code == "abandoned"


def test_positions_follow_each_other() -> None:
    with pytest.raises(BrokenInvariant):
        machine().apply(Position(2), Calls(stamp(), sent(call(1, "add"))))


class Odd:
    def __init__(self) -> None:
        self.value = 0

    def leave(self) -> None:
        raise SystemExit(3)

    def interrupt(self) -> None:
        raise KeyboardInterrupt

    def unsendable(self) -> object:
        return object()

    def huge(self) -> bytes:
        return bytes(9 * 1024 * 1024)

    async def sleep(self) -> str:
        self.value += 1
        await asyncio.sleep(0)
        return "slept"

    async def insist(self) -> None:
        while True:
            try:
                await asyncio.sleep(0)
            except CannotAwait:
                continue

    @hf.query
    async def ask(self) -> Any:
        return await hf.context.group("other").get()


@pytest.mark.parametrize(
    ("method", "type_name"),
    [
        ("leave", "SystemExit"),
        ("interrupt", "KeyboardInterrupt"),
        ("unsendable", "holdfast.NotEncodable"),
        ("huge", "holdfast.NotEncodable"),
        ("sleep", "holdfast.CannotAwait"),
        ("insist", "holdfast.CannotAwait"),
    ],
)
def test_what_a_method_may_not_do_is_its_reply_and_the_group_serves_on(method: str, type_name: str) -> None:
    execution = machine(Odd)
    (outcome,) = run(execution, call(1, method))
    assert isinstance(outcome, Raised)
    assert outcome.type_name == type_name
    assert execution.is_idle


class Broken:
    def contradict(self) -> None:
        invariant(False, "water runs downhill")


def test_a_broken_invariant_is_nobodys_reply() -> None:
    """A broken invariant ends the process, even if a method encounters it."""
    with pytest.raises(BrokenInvariant, match="downhill"):
        run(machine(Broken), call(1, "contradict"))


class Mute(Exception):
    """An exception whose text is whatever *says* returns or raises."""

    def __init__(self, says: Callable[[], str]) -> None:
        self.says = says

    def __str__(self) -> str:
        return self.says()


class Speaker:
    def fail(self) -> None:
        raise Mute(lambda: str(1 // 0))

    def leave(self) -> None:
        raise Mute(sys.exit)

    def half(self) -> None:
        raise Mute(lambda: "half \ud800")


@pytest.mark.parametrize(("method", "text"), [("fail", ""), ("leave", ""), ("half", "half \\ud800")])
def test_an_exception_whose_text_fails_still_has_its_type(method: str, text: str) -> None:
    """The text of an exception comes from the class's own code, which may fail or return what cannot be
    sent."""
    (outcome,) = run(machine(Speaker), call(1, method))
    assert outcome == Raised(f"{__name__}.Mute", text)


@pytest.mark.parametrize("leaves", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_code_of_a_class_that_leaves_the_process_fails_instead(leaves: type[BaseException]) -> None:
    """``sys.exit`` in ``__init__``, in ``get_state`` or in an argument's type does not end the host."""

    class Leaver:
        def __init__(self) -> None:
            raise leaves

    class Stateless:
        def get_state(self) -> bytes:
            raise leaves

        def set_state(self, state: bytes) -> None: ...

    with pytest.raises(NotMade, match=leaves.__name__):
        machine(Leaver)
    with pytest.raises(NotMade, match=leaves.__name__):
        machine(Stateless)


@dataclass
class Picky:
    number: int

    def __post_init__(self) -> None:
        raise KeyboardInterrupt


class Taker:
    def take(self, one: Picky, other: int = 0) -> None: ...


@pytest.mark.parametrize("arguments", [({"number": 1},), ({"number": 1}, 2)])
def test_a_type_that_refuses_a_value_in_any_way_makes_a_bad_call(arguments: tuple[Any, ...]) -> None:
    (outcome,) = run(machine(Taker), call(1, "take", *arguments))
    assert isinstance(outcome, Refused)
    assert "KeyboardInterrupt" in outcome.text


def test_a_query_calls_no_other_group() -> None:
    outcome = decode_outcome(machine(Odd).query("ask", encode_arguments((), {}), Request(A, 1)))
    assert isinstance(outcome, Raised)
    assert outcome.type_name == "holdfast.NotOrdered"


# --- context


@pytest.mark.covers("FTC-23")
def test_every_replay_sees_the_same_time_randomness_and_ids() -> None:
    one, other = machine(), machine()
    record = Calls(stamp(10, nanos=500_000_000), sent(call(1, "roll"), call(2, "roll")))
    first, second = apply(one, record).outcomes, apply(other, record).outcomes
    assert first == second
    assert one.digest() == other.digest()
    rolled = [decode_outcome(each or b"") for each in first]
    assert isinstance(rolled[0], Returned)
    assert isinstance(rolled[1], Returned)
    assert rolled[0].value[0] == 10.5
    assert rolled[0].value[3:] == [["a", 1], "g"]
    assert rolled[0].value[1:3] != rolled[1].value[1:3]


def test_outside_an_operation_the_context_says_so() -> None:
    for use in (
        hf.context.time,
        hf.context.uuid4,
        lambda: hf.context.random,
        lambda: hf.context.request_id,
        lambda: hf.context.this_group,
        lambda: hf.context.group("x"),
        lambda: hf.context.call_later(1, "x"),
        lambda: hf.context.cron("* * * * *", "x"),
        lambda: hf.context.cancel(1),
    ):
        with pytest.raises(OutsideOperation, match=r"holdfast\.context"):
            use()


# --- nested calls


@pytest.mark.covers("FTC-22")
def test_a_nested_call_suspends_and_those_behind_wait_in_order() -> None:
    execution = machine()
    assert run(execution, call(1, "add", 10), call(2, "fetch", "h", "x"), call(3, "add")) == [
        Returned(10),
        None,
        None,
    ]
    waits = execution.outgoing()
    assert waits is not None
    assert (waits.caller, waits.call, waits.group, waits.method) == (Request(A, 2), 1, "h", "get")
    assert waits.chain == ("g",)
    assert run(execution, call(3, "add"), call(4, "add")) == [None, None]
    effects = answer(execution, Returned("value of x"))
    assert [(reply.number, decode_outcome(reply.outcome)) for reply in effects.later] == [
        (2, Returned(["value of x"])),
        (3, Returned(13)),
        (4, Returned(14)),
    ]
    assert execution.is_idle


def test_a_second_answer_to_a_nested_call_is_ignored() -> None:
    execution = machine()
    run(execution, call(1, "fetch", "h", "x", "y"))
    waits = execution.outgoing()
    assert waits is not None
    answer(execution, Returned(1))
    again = NestedReply(stamp(21), *waits.caller, waits.call, encode_outcome(Returned(2)))
    assert apply(execution, again) == Effects()
    effects = answer(execution, Returned(3))
    assert decode_outcome(effects.later[0].outcome) == Returned([1, 3])


@pytest.mark.parametrize(
    ("outcome", "type_name"),
    [
        (Raised("KeyError", "'x'"), "MethodRaised"),
        (Refused("bad_call", "no such method"), "CallRefused"),
        (Unknown("no answer"), "NestedOutcomeUnknown"),
        (Poisoned(2), "CallPoisoned"),
    ],
)
def test_a_nested_call_that_fails_raises_in_the_method(outcome: Outcome, type_name: str) -> None:
    execution = machine()
    run(execution, call(1, "fetch", "h", "x"))
    (reply,) = answer(execution, outcome).later
    found = decode_outcome(reply.outcome)
    assert isinstance(found, Raised)
    assert found.type_name == f"holdfast.{type_name}"


def test_what_another_groups_method_raised_reads_as_it_was_raised() -> None:
    """The error passes through any number of groups; its type is named by its class, without the module."""
    text = "'x'"
    for type_name in ("KeyError", "shop.stock.OutOfStock", "shop.test.<locals>.OutOfStock"):
        outcome: Outcome = Raised(type_name, text)
        for _ in range(3):
            with pytest.raises(MethodRaised) as caught:
                value_of(outcome)
            assert str(caught.value) == f"{type_name.rpartition('.')[2]}: 'x'"
            assert error_in_words(caught.value) == str(caught.value)
            outcome = decode_outcome(encode_raised(caught.value))
    assert str(MethodRaised("shop.Closed", "")) == "Closed"
    assert MethodRaised("shop.Closed", "").type_name == "shop.Closed"


def test_an_async_method_that_waits_for_nothing_ends_at_once() -> None:
    assert run(machine(), call(1, "at_once", 3)) == [Returned(3)]


# --- timers


def test_a_timer_fires_once_at_its_time() -> None:
    """E6: firing is an ordered operation; a second firing of the same timer does nothing."""
    execution = machine()
    run(execution, call(1, "remind", 5, "wake"), time_s=10)
    assert execution.timers.next_due_ns() == 15_000_000_000
    (timer,) = execution.timers.due(15_000_000_000, at_most=10)
    for _ in range(2):
        apply(execution, TimerFired(stamp(15), timer.number, timer.due_ns))
    assert run(execution, call(2, "forget", timer.number)) == [Returned(False)]
    reference = machine()
    run(reference, call(1, "note", "wake"))
    assert seen(execution) == seen(reference) == ["wake"]
    assert execution.timers.next_due_ns() is None


def test_a_cancelled_timer_does_not_fire_even_if_its_firing_was_on_its_way() -> None:
    execution = machine()
    run(execution, call(1, "remind", 5, "wake"), call(2, "forget", 1), time_s=10)
    apply(execution, TimerFired(stamp(15), 1, 15_000_000_000))
    assert seen(execution) == []


def test_a_cron_timer_comes_again_and_misses_are_not_made_up() -> None:
    execution = machine()
    run(execution, call(1, "repeat", "*/10 * * * *", "tick"), time_s=0)
    for due_s, fired_s in ((600, 600), (1200, 5000), (5400, 5400)):
        (timer,) = execution.timers.due(fired_s * 10**9, at_most=10)
        assert timer.due_ns == due_s * 10**9
        apply(execution, TimerFired(stamp(fired_s), timer.number, timer.due_ns))
    assert seen(execution) == ["tick"] * 3


def test_a_firing_of_a_cron_timer_counts_once() -> None:
    execution = machine()
    run(execution, call(1, "repeat", "*/10 * * * *", "tick"), time_s=0)
    for _ in range(2):
        apply(execution, TimerFired(stamp(600), 1, 600 * 10**9))
    assert seen(execution) == ["tick"]


def test_the_groups_time_never_goes_back() -> None:
    execution = machine()
    run(execution, call(1, "roll"), time_s=20)
    (outcome,) = run(execution, call(2, "roll"), time_s=15)
    assert isinstance(outcome, Returned)
    assert outcome.value[0] == 20


def test_a_timer_with_arguments_that_do_not_fit_is_refused_when_it_is_set() -> None:
    """When the timer fires, nobody could be told."""

    class Setter:
        def later(self) -> int:
            return hf.context.call_later(5, self.note)

        def again(self) -> int:
            return hf.context.cron("* * * * *", "note", 5)

        def note(self, text: str) -> None: ...

    execution = machine(Setter)
    for outcome in run(execution, call(1, "later"), call(2, "again")):
        assert isinstance(outcome, Raised)
        assert outcome.type_name.endswith("BadCall")
    assert execution.timers.next_due_ns() is None


def test_a_timer_for_a_method_that_does_not_exist_is_refused_when_it_is_set() -> None:
    class Hasty:
        def go(self) -> None:
            hf.context.call_later(1, "come")

    (outcome,) = run(machine(Hasty), call(1, "go"))
    assert isinstance(outcome, Raised)
    assert outcome.type_name.endswith("BadCall")


def seen(execution: Execution) -> list[str]:
    state = msgspec.msgpack.decode(execution.save())[5]
    found: list[str] = msgspec.msgpack.decode(state)["seen"]
    return found


# --- settling an outcome, poison


def test_asking_for_an_outcome_settles_it() -> None:
    """X3: a call that has not run when its outcome is settled never will."""
    execution = machine()
    run(execution, call(1, "add"), call(2, "fetch", "h", "x"))
    asked = [apply(execution, Settled(stamp(), A, number, LATER_S)).settled for number in (1, 2, 3)]
    assert isinstance(asked[0], Repeated)
    assert asked[1] == InProgress(Position(2))
    assert asked[2] == NEVER
    (late,) = run(execution, call(3, "add"))
    assert isinstance(late, Refused)
    assert late.code == "never_runs"


def test_a_poisoned_call_never_runs() -> None:
    """E4: neither when it is ordered later, nor when it is queued."""
    execution = machine()
    apply(execution, Poison(stamp(), A, 1, LATER_S, attempts=2))
    assert run(execution, call(1, "add")) == [Poisoned(2)]
    run(execution, call(2, "fetch", "h", "x"), call(3, "add"))
    apply(execution, Poison(stamp(), A, 3, LATER_S, attempts=2))
    effects = answer(execution, Returned(1))
    assert decode_outcome(effects.later[1].outcome) == Poisoned(2)
    assert get(execution) == 2


# --- replay and state


def test_a_replay_that_differs_is_told_and_the_recorded_reply_stands() -> None:
    execution = machine()
    frame = sent(call(1, "add"))
    effects = apply(execution, Executed(stamp(), frame, [encode_outcome(Returned(41))]))
    assert "a/1" in effects.divergence
    assert run(execution, call(1, "add")) == [Returned(41)]
    same = apply(execution, Executed(stamp(), sent(call(2, "add")), [encode_outcome(Returned(2))]))
    assert same.divergence == ""


def test_a_later_reply_that_differs_is_told_too() -> None:
    execution = machine()
    run(execution, call(1, "fetch", "h", "x"))
    answer(execution, Returned("x"))
    recorded = encode_outcome(Returned(["x"]))
    assert apply(execution, Replied([Reply(A, 1, recorded)])).divergence == ""
    other = encode_outcome(Returned(["y"]))
    assert "a/1" in apply(execution, Replied([Reply(A, 1, other)])).divergence
    assert run(execution, call(1, "fetch", "h", "x")) == [Returned(["y"])]


@pytest.mark.covers("FTC-101", "FTC-295")
def test_a_loaded_state_is_the_saved_one_with_its_replies_and_timers() -> None:
    execution = machine()
    run(execution, call(1, "add", 5), call(2, "remind", 5, "wake"), call(3, "roll"))
    loaded = Execution.load(definition(), execution.save())
    assert loaded.digest() == execution.digest()
    assert loaded.position == 3
    for each in (execution, loaded):
        assert run(each, call(1, "add", 5), call(4, "add")) == [Returned(5), Returned(6)]
        apply(each, TimerFired(stamp(15), 1, 15_000_000_000))
    assert loaded.save() == execution.save()


def test_no_state_is_captured_while_a_method_waits_but_between_two_that_queue() -> None:
    """Queued calls are part of the state, so a capture need not wait for the queue to empty."""
    execution = machine()
    run(execution, call(1, "fetch", "h", "x"), call(2, "fetch", "h", "y"), call(3, "add"))
    with pytest.raises(BrokenInvariant):
        execution.save()
    states: list[bytes] = []
    execution.when_at_rest(lambda: states.append(execution.save()))
    assert not states
    first = answer(execution, Returned("x"))
    assert [reply.number for reply in first.later] == [1]
    loaded = Execution.load(definition(), states[0])
    assert loaded.go_on().later == []
    assert loaded.outgoing() == execution.outgoing()
    for each in (execution, loaded):
        assert [reply.number for reply in answer(each, Returned("y")).later] == [2, 3]
    assert loaded.digest() == execution.digest()


def test_discarding_closes_the_method_that_waits() -> None:
    execution = machine()
    run(execution, call(1, "fetch", "h", "x"))
    rested: list[bool] = []
    execution.when_at_rest(lambda: rested.append(execution.is_at_rest))
    execution.discard()
    assert execution.outgoing() is None
    assert rested == [False], "half an operation is no state"


def test_a_class_that_cannot_be_captured_is_refused_by_attribute() -> None:
    class Holder:
        def __init__(self) -> None:
            self.lock = object()

    with pytest.raises(NotCapturable, match=r"Holder\.lock"):
        machine(Holder)


@pytest.mark.parametrize("kind", [dict, list, set, int, bytearray, Exception])
def test_a_class_whose_state_is_not_in_attributes_is_refused(kind: type) -> None:
    """Its checkpoint would be empty, and no object could be made from it."""
    with pytest.raises(NotCapturable, match="Shelf is more than its attributes"):
        machine(type("Shelf", (kind,), {}))


def test_such_a_class_may_be_stateless() -> None:
    """A stateless group never captures its object."""

    class Shelf(dict[str, int]):
        def count(self) -> int:
            return len(self)

    assert definition(Shelf).make(Timers()) == {}


def test_a_set_is_returned_in_the_same_order_by_every_process() -> None:
    """The iteration order of a set differs between processes, so a replay in that order would differ (E8)."""
    names = [f"name {number}" for number in range(20)]
    in_order = Returned(sorted(names, key=msgspec.msgpack.encode))
    assert decode_outcome(encode_returned({*names})) == in_order
    assert decode_outcome(encode_returned(frozenset(names))) == in_order
    assert encode_returned({1, "a", None}) == encode_returned({None, "a", 1})
