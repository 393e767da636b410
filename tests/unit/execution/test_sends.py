"""Durable one-way sends: once, in order, after commit, until executed or expired (E13, E14)."""

from typing import Any

import msgspec
import pytest
from fake_group import FakeClock, FakeGroup
from group_classes import A, TellsUpdates, call, definition, following, run, sent, stamp
from style_groups import ALL, told

import holdfast as hf
from holdfast.execution import sends as outbox
from holdfast.execution.effects import Outgoing
from holdfast.execution.execution import Execution
from holdfast.execution.nested_call import client_of, sent_by
from holdfast.execution.records import SendEnded, decode_calls
from holdfast.execution.sends import Sends
from holdfast.model.calls import Request
from holdfast.model.ids import SECOND, GroupId
from holdfast.model.outcome import (
    Outcome,
    Poisoned,
    Raised,
    Refused,
    Returned,
    Unknown,
    encode_outcome,
)
from holdfast.styles.config import StyleConfig
from holdfast.styles.stateless import Stateless

CONFIG = StyleConfig(checkpoint_interval_ns=10 * SECOND, scan_positions=1)


class Audit:
    """The receiver as its senders declare it: they check calls against it; it is never executed here."""

    def note(self, item: str) -> None:
        raise NotImplementedError


class Till:
    """Tells other groups what it sells, and waits for none of them."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def sell(self, item: str, *to: str) -> int:
        self.lines.append(item)
        for name in to:
            hf.context.send(name).note(item, till=hf.context.this_group)
        return len(self.lines)

    def sell_soon(self, item: str, expires_s: float) -> None:
        hf.context.send("audit", expires_s=expires_s).note(item)

    def sell_typed(self, item: str) -> None:
        hf.context.send("audit", Audit).call(Audit.note, item)

    def sell_wrongly(self, item: str) -> None:
        hf.context.send("audit", Audit).note(item, item, item)

    def fail(self, item: str) -> None:
        hf.context.send("audit").note(item)
        raise ValueError(item)

    async def ask(self, item: str) -> None:
        hf.context.send("audit").note(f"{item} is asked for")
        await hf.context.group("stock").get(item)
        hf.context.send("audit").note(f"{item} was asked for")

    @hf.query
    def peep(self) -> None:
        hf.context.send("audit").note("peeped")


class UpdatingTill(TellsUpdates, Till):
    """A till that also reports what changed."""


class Hasty:
    def __init__(self) -> None:
        hf.context.send("audit").note("made")


def group(style: str, cls: type = Till) -> FakeGroup:
    made = FakeGroup(style, definition(cls), CONFIG)
    made.clock.step_ns = 1000
    made.settle()
    return made


def operate(made: FakeGroup, number: int, method: str, *args: object) -> None:
    made.replicas[made.primary].on_calls("op", sent(call(number, method, *args)))
    made.settle()


def leave(made: FakeGroup) -> list[Outgoing]:
    """The one-way calls that have been sent."""
    found = [outgoing for _, outgoing in made.outgoing if outgoing.send]
    made.outgoing[:] = [each for each in made.outgoing if not each[1].send]
    return found


def end(made: FakeGroup, number: int, outcome: Outcome | None = None) -> None:
    made.replicas[made.primary].on_send_outcome(number, encode_outcome(outcome or Returned(None)))
    made.settle()


def named(outgoings: list[Outgoing]) -> list[tuple[str, Any]]:
    return [(each.group, msgspec.msgpack.decode(each.arguments)) for each in outgoings]


def box(made: FakeGroup) -> Sends:
    execution = made.replicas[made.primary].execution
    assert execution is not None
    return execution.sends


def note(item: str) -> dict[str, Any]:
    return {"*": [item], "till": "g"}


@pytest.mark.parametrize("style", ALL)
def test_one_leaves_after_the_other_to_each_receiver(style: str) -> None:
    made = group(style)
    operate(made, 1, "sell", "apple", "audit", "stock", "audit")
    operate(made, 2, "sell", "pear", "audit")
    assert [numbers for _, numbers, _ in told(made)] == [[1], [2]], "nobody waits for them"
    first = leave(made)
    assert named(first) == [("audit", note("apple")), ("stock", note("apple"))]
    made.settle()
    assert leave(made) == []
    end(made, first[0].send)
    assert named(leave(made)) == [("audit", note("apple"))], "stock has not answered, and is not asked again"
    end(made, 3)
    assert named(leave(made)) == [("audit", note("pear"))]
    end(made, 4)
    end(made, first[1].send)
    assert leave(made) == []
    assert len(box(made)) == 0
    assert made.faults == []


@pytest.mark.parametrize("style", ["cold", "warm"])
def test_nothing_leaves_before_what_sent_it_is_committed(style: str) -> None:
    made = group(style)
    made.replicas["a"].on_calls("op", sent(call(1, "sell", "apple", "audit")))
    made.replicas["a"].turn()
    assert leave(made) == []
    made.settle()
    assert len(leave(made)) == 1


@pytest.mark.parametrize("style", ["cold", "warm"])
def test_the_next_one_of_an_operation_waits_until_the_end_of_the_last_is_committed(style: str) -> None:
    """E13: the next send lets the receiver forget the reply to the last. Sends of other operations do not,
    and leave at once."""
    made = group(style)
    operate(made, 1, "sell", "apple", "audit", "audit")
    (first,) = leave(made)
    primary = made.replicas["a"]
    primary.on_send_outcome(first.send, encode_outcome(Returned(None)))
    primary.turn()
    assert leave(made) == []
    made.settle()
    (second,) = leave(made)
    operate(made, 2, "sell", "pear", "audit")
    assert leave(made) == []
    primary.on_send_outcome(second.send, encode_outcome(Returned(None)))
    primary.turn()
    assert named(leave(made)) == [("audit", note("pear"))]


@pytest.mark.parametrize("cls", [Till, UpdatingTill])
@pytest.mark.parametrize("style", ALL)
def test_another_primary_sends_what_has_no_end_under_the_same_id(style: str, cls: type) -> None:
    made = group(style, cls)
    for number, item in enumerate(("apple", "pear", "plum"), start=1):
        operate(made, number, "sell", item, "audit")
    made.clock.time_ns += 10 * SECOND  # a checkpoint, or an update
    made.settle()
    (first,) = leave(made)
    end(made, first.send)
    (second,) = leave(made)
    assert not second.may_have_left
    made.fail_over("b", is_crash=True)
    made.settle()
    (again,) = leave(made)
    assert again.may_have_left
    assert sent_by(GroupId(7), again) == sent_by(GroupId(7), second)
    end(made, again.send)
    assert named(leave(made)) == [("audit", note("plum"))]
    digests = []
    for name in "cb":
        if name in made.replicas:
            made.fail_over(name, is_crash=False)
            made.settle()
            leave(made)
            execution = made.replicas[name].execution
            assert execution is not None
            digests.append(execution.digest())
    assert len(set(digests)) == 1
    assert made.faults == []


def test_it_is_known_to_its_receiver_by_the_operation_that_sent_it_and_makes_no_circle() -> None:
    made = group("cold")
    operate(made, 1, "ask", "apple")
    frames = [sent_by(GroupId(7), each) for _, each in made.outgoing]
    sends = [frame for frame, (_, each) in zip(frames, made.outgoing, strict=True) if each.send]
    (nested,) = (frame for frame, (_, each) in zip(frames, made.outgoing, strict=True) if not each.send)
    (frame,) = sends
    assert nested.client == client_of(GroupId(7), Request(A, 1))
    assert frame.client != nested.client, "each has numbers of its own"
    assert frame.chain == ()
    assert frame.root is None
    assert [each.number for each in decode_calls(frame.calls)] == [1]
    leave(made)
    end(made, 1)
    ((name, waits),) = made.outgoing
    made.replicas[name].on_nested_outcome(waits.caller, waits.call, encode_outcome(Returned(None)))
    made.outgoing.clear()
    made.settle()
    (second,) = leave(made)
    after = sent_by(GroupId(7), second)
    assert after.client == frame.client
    assert [each.number for each in decode_calls(after.calls)] == [2]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Refused("bad_call", "it has no method note"), "bad_call"),
        (Raised("ValueError", "no"), "raised"),
        (Poisoned(2), "poisoned"),
    ],
)
@pytest.mark.parametrize("style", ALL)
def test_one_that_comes_to_nothing_is_listed_and_a_fault_and_the_next_one_leaves(
    style: str, outcome: Outcome, code: str
) -> None:
    made = group(style)
    operate(made, 1, "sell", "apple", "audit", "audit")
    leave(made)
    end(made, 1, outcome)
    assert [(each.number, each.group, each.method, each.code) for each in box(made).failed] == [
        (1, "audit", "note", code)
    ]
    assert [kind for _, kind, _ in made.faults] == ["send_failed"]
    assert [each.send for each in leave(made)] == [2]
    made.fail_over("b", is_crash=True)
    made.settle()
    assert [each.code for each in box(made).failed] == [code]
    assert box(made).failures == 1


@pytest.mark.parametrize(
    "outcome",
    [
        Refused("overloaded", "no room"),
        Refused("not_executed", "nobody"),
        Refused("no_such_group", "it may be about to be made"),
        Unknown("no answer"),
    ],
)
@pytest.mark.parametrize("style", ALL)
def test_one_that_nobody_answers_is_repeated_until_it_has_expired(
    style: str, outcome: Refused | Unknown
) -> None:
    made = group(style)
    operate(made, 1, "sell_soon", "apple", 5)
    made.clock.time_ns += 4 * SECOND
    leave(made)
    end(made, 1, outcome)
    assert (leave(made), made.faults) == ([], [])
    made.clock.time_ns += 1 * SECOND
    made.settle()
    assert [each.send for each in leave(made)] == [1]
    end(made, 1, outcome)
    (failed,) = box(made).failed
    is_named = isinstance(outcome, Refused) and outcome.code == "no_such_group"
    assert failed.code == ("no_such_group" if is_named else "expired")
    known = "it may have been executed" if isinstance(outcome, Unknown) else "it was not executed"
    assert failed.text == f"{known}: {outcome.text}"
    assert [kind for _, kind, _ in made.faults] == ["send_failed"]


def test_a_receiver_without_room_is_asked_again_after_a_while() -> None:
    made = group("warm")
    operate(made, 1, "sell", "apple", "audit")
    leave(made)
    end(made, 1, Refused("overloaded", "no room"))
    assert leave(made) == []
    wake_ns = made.replicas["a"].next_wake_ns()
    assert wake_ns is not None
    made.clock.time_ns += 1 * SECOND
    made.settle()
    assert [(each.send, each.may_have_left) for each in leave(made)] == [(1, False)]
    assert made.faults == []


def test_only_what_nobody_knows_the_end_of_may_have_been_executed() -> None:
    """For all other sends the final report says that they were not executed: a receiver that does not exist
    refuses each copy."""
    made = group("warm")
    operate(made, 1, "sell", "apple", "audit", "stock", "nobody")
    outcomes = [Unknown("no answer"), Refused("overloaded", "no room"), Refused("no_such_group", "none")]
    for round_ in range(3):
        assert [each.may_have_left for each in leave(made)] == [round_ > 0, False, False]
        for number, outcome in enumerate(outcomes, start=1):
            end(made, number, outcome)
        made.clock.time_ns += 2 * SECOND
        made.settle()
    made.fail_over("b", is_crash=True)
    made.settle()
    assert [each.may_have_left for each in leave(made)[-3:]] == [True, True, True]


def test_it_expires_by_the_time_of_its_group() -> None:
    made = group("cold")
    operate(made, 1, "sell_soon", "apple", 5)
    (outgoing,) = leave(made)
    assert 4 < outgoing.expiration_s - made.clock.time_ns / SECOND < 7


def test_what_was_sent_before_a_method_raised_stays_sent() -> None:
    made = group("active")
    operate(made, 1, "fail", "apple")
    assert len(leave(made)) == 1


def test_only_an_ordered_operation_sends() -> None:
    execution = Execution(definition(Till))
    outcome = msgspec.msgpack.decode(execution.query("peep", msgspec.Raw(b"\x90"), Request(A, 1)))
    assert "only an ordered operation sends" in str(outcome)
    with pytest.raises(hf.InvalidRequest, match="only an ordered operation sends"):
        Execution(definition(Hasty))
    with pytest.raises(hf.InvalidRequest, match="__init__ and upgraded have no record"):
        Execution(definition(Hasty))
    stateless = Stateless(definition(Till), FakeClock())
    _, (refused,) = stateless.execute(sent(call(1, "sell", "apple", "audit")))
    assert b"only an ordered operation sends" in refused


@pytest.mark.parametrize("expires_s", [0, -1, 10**6])
def test_an_expiration_that_no_group_keeps_is_refused(expires_s: float) -> None:
    execution = Execution(definition(Till))
    (outcome,) = run(execution, call(1, "sell_soon", "apple", expires_s))
    assert isinstance(outcome, Raised)
    assert "expires within" in outcome.text
    assert len(execution.sends) == 0


def test_the_outbox_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "SENDS_MAX", 2)
    execution = Execution(definition(Till))
    (outcome,) = run(execution, call(1, "sell", "apple", "a", "b", "c"))
    assert isinstance(outcome, Raised)
    assert outcome.type_name.endswith("OutboxFull")
    assert "2 calls" in outcome.text
    assert len(execution.sends) == 2
    execution.apply(following(execution), SendEnded(stamp(20), 1, "", ""))
    assert run(execution, call(2, "sell", "pear", "a")) == [Returned(2)]
    (outcome,) = run(execution, call(3, "sell", "x" * (outbox.SEND_BYTES_MAX + 1), "a"))
    assert isinstance(outcome, Raised)
    assert "bytes of arguments" in outcome.text


def test_receivers_that_are_away_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "SENDS_MAX", 12)
    execution, number = Execution(definition(Till)), 0

    def fill(to: str, item: str = "x") -> int:
        """How many of them fit."""
        nonlocal number
        for count in range(20):
            number += 1
            (outcome,) = run(execution, call(number, "sell", item, to))
            if isinstance(outcome, Raised):
                assert outcome.type_name.endswith("OutboxFull")
                assert f"bytes to {to};" in outcome.text
                return count
        raise AssertionError("no bound")

    assert [fill(to) for to in ("a", "b", "c", "d", "e")] == [6, 3, 2, 1, 0]
    loaded = Execution.load(execution.definition, execution.save())
    for each in list(loaded.sends):
        if each.group in "bcd":
            loaded.sends.end(each.number, "", "", 0)
    execution = loaded
    assert fill("a") == 0
    assert [fill(to) for to in ("b", "c")] == [3, 2]
    monkeypatch.undo()
    execution = Execution(definition(Till))
    assert [fill(to, "x" * 800_000) for to in ("a", "b", "c")] == [5, 3, 1]


def test_its_bytes_are_bounded() -> None:
    execution, item = Execution(definition(Till)), "x" * 800_000
    outcomes = [run(execution, call(number, "sell", item, "a"))[0] for number in range(1, 13)]
    assert isinstance(outcomes[-1], Raised)
    assert "OutboxFull" in outcomes[-1].type_name


def test_the_list_of_failures_is_bounded_and_counts_all() -> None:
    execution = Execution(definition(Till))
    for number in range(1, outbox.FAILED_MAX + 3):
        run(execution, call(number, "sell", "apple", "audit"))
        execution.apply(following(execution), SendEnded(stamp(20), number, "expired", "x" * 10_000))
    loaded = Execution.load(execution.definition, execution.save())
    assert len(loaded.sends.failed) == outbox.FAILED_MAX
    assert loaded.sends.failures == outbox.FAILED_MAX + 2
    assert len(loaded.sends.failed[0].text) == outbox.TEXT_MAX
    assert loaded.digest() == execution.digest()


def test_an_end_that_comes_twice_counts_once() -> None:
    execution = Execution(definition(Till))
    run(execution, call(1, "sell", "apple", "audit"))
    for _ in range(2):
        execution.apply(following(execution), SendEnded(stamp(20), 1, "expired", ""))
    assert execution.sends.failures == 1


@pytest.mark.parametrize("style", ALL)
def test_the_outbox_can_be_asked_for_at_any_time(style: str) -> None:
    made = group(style)
    operate(made, 1, "sell", "apple", "audit", "stock")
    operate(made, 2, "ask", "pear")
    end(made, 1, Raised("ValueError", "no"))
    made.replicas[made.primary].on_calls("list", sent(call(9, "@sends")))
    made.settle()
    (found,) = (outcomes[0] for token, _, outcomes in told(made) if token == "list")
    assert isinstance(found, Returned)
    assert [each["group"] for each in found.value["waiting"]] == ["stock", "audit"]
    assert [each["text"] for each in found.value["failed"]] == ["ValueError: no"]
    assert (found.value["waiting_count"], found.value["failures"]) == (2, 1)


def test_with_the_class_given_a_send_is_checked_before_it_is_made() -> None:
    execution = Execution(definition(Till))
    assert run(execution, call(1, "sell_typed", "apple")) == [Returned(None)]
    assert [(each.group, each.method) for each in execution.sends] == [("audit", "note")]
    (outcome,) = run(execution, call(2, "sell_wrongly", "apple"))
    assert isinstance(outcome, Raised)
    assert "too many positional arguments" in outcome.text
    assert len(execution.sends) == 1
