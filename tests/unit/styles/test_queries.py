"""Queries while an operation waits for another group: they see finished operations, and never half of one."""

from typing import Any

import msgspec
import pytest
from fake_group import FakeGroup
from group_classes import B, TellsUpdates, call, definition, sent
from style_groups import ALL, told

import holdfast as hf
from holdfast.execution.read_copy import STATE_BYTES_MAX
from holdfast.execution.records import encode_arguments
from holdfast.model.calls import Request
from holdfast.model.errors import Overloaded, Rejected, Unavailable
from holdfast.model.ids import SECOND, ClientId
from holdfast.model.outcome import Refused, Returned, decode_outcome, encode_outcome, value_of
from holdfast.styles.config import StyleConfig

CONFIG = StyleConfig(checkpoint_interval_ns=1_000 * SECOND, query_wait_ns=5 * SECOND)
READER = ClientId("reader")


class Purse:
    """Takes money out before it knows whether anyone accepts it."""

    def __init__(self) -> None:
        self.coins = {"gold": 10}
        self.ballast = ""

    def earn(self, amount: int) -> int:
        self.coins["gold"] += amount
        return self.coins["gold"]

    def load(self, characters: int) -> None:
        self.ballast = "x" * characters

    async def pay(self, amount: int) -> int:
        self.coins["gold"] -= amount
        await hf.context.group("shop").take(amount)
        return self.coins["gold"]

    @hf.query
    def count(self) -> int:
        return self.coins["gold"]

    @hf.query(anytime=True)
    def peep(self) -> int:
        return self.coins["gold"]


class OwnPurse(Purse):
    """A purse that encodes its own state."""

    def get_state(self) -> bytes:
        return msgspec.msgpack.encode([self.coins, self.ballast])

    def set_state(self, state: bytes) -> None:
        self.coins, self.ballast = msgspec.msgpack.decode(state)


class UpdatingPurse(TellsUpdates, Purse):
    """Asking it for its state changes what its next update contains."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = []


def group(style: str, cls: type = Purse) -> FakeGroup:
    made = FakeGroup(style, definition(cls), CONFIG)
    made.settle()
    return made


def operate(made: FakeGroup, number: int, method: str, *args: object) -> None:
    made.replicas[made.primary].on_calls("op", sent(call(number, method, *args)))
    made.settle()


def ask(made: FakeGroup, number: int, method: str = "count", expiration_s: int = 100_000) -> None:
    query = call(number, method, expiration_s=expiration_s)
    made.replicas[made.primary].on_calls(f"ask {number}", sent(query, client=READER))
    made.replicas[made.primary].turn()


def answers(made: FakeGroup) -> dict[Any, Any]:
    return {token: outcomes[0] for token, _, outcomes in told(made)}


def come_back(made: FakeGroup) -> None:
    name, waits = made.outgoing.pop(0)
    made.replicas[name].on_nested_outcome(waits.caller, waits.call, encode_outcome(Returned(None)))
    made.settle()


@pytest.mark.parametrize("cls", [Purse, OwnPurse])
@pytest.mark.parametrize("style", ALL)
def test_a_query_sees_the_state_before_the_operation_that_waits(style: str, cls: type) -> None:
    made = group(style, cls)
    operate(made, 1, "earn", 5)
    operate(made, 2, "pay", 3)
    assert made.outgoing
    answers(made)
    ask(made, 1)
    assert answers(made) == {"ask 1": Returned(15)}
    operate(made, 3, "earn", 1)  # it is queued, and has changed nothing
    ask(made, 2)
    assert answers(made) == {"ask 2": Returned(15)}
    come_back(made)
    assert answers(made) == {"op": Returned(13)}
    ask(made, 3)
    assert answers(made) == {"ask 3": Returned(13)}


@pytest.mark.parametrize("style", ALL)
def test_a_query_at_any_time_sees_the_object_as_it_is(style: str) -> None:
    made = group(style)
    operate(made, 1, "pay", 3)
    ask(made, 1, "peep")
    assert answers(made) == {"ask 1": Returned(7)}


@pytest.mark.parametrize("style", ALL)
def test_the_next_operation_that_waits_is_copied_anew(style: str) -> None:
    made = group(style)
    operate(made, 1, "pay", 3)
    operate(made, 2, "pay", 3)
    ask(made, 1)
    come_back(made)
    answers(made)
    assert made.outgoing, "the second waits now"
    ask(made, 2)
    assert answers(made) == {"ask 2": Returned(7)}


def test_what_a_query_saw_is_told_when_it_is_committed() -> None:
    """S4: the state before the operation may not be committed itself."""
    made = group("cold")
    primary = made.replicas["a"]
    primary.on_calls("op", sent(call(1, "earn", 5), call(2, "pay", 3)))
    ask(made, 1)
    assert answers(made) == {}
    made.settle()
    assert answers(made)["ask 1"] == Returned(15)


@pytest.mark.parametrize("style", ALL)
def test_where_no_copy_is_the_query_waits_and_is_then_not_executed(style: str) -> None:
    made = group(style)
    operate(made, 1, "load", STATE_BYTES_MAX + 1)
    operate(made, 2, "pay", 3)
    answers(made)
    ask(made, 1)
    ask(made, 2, expiration_s=made.clock.time_ns // SECOND + 2)
    assert answers(made) == {}
    primary = made.replicas[made.primary]
    wake_ns = primary.next_wake_ns()
    assert wake_ns is not None
    assert wake_ns <= made.clock.wall() + 2 * SECOND
    made.clock.time_ns += 2 * SECOND
    primary.turn()
    assert [*answers(made)] == ["ask 2"], "its own client does not wait any longer"
    made.clock.time_ns += 3 * SECOND
    primary.turn()
    (refusal,) = answers(made).values()
    assert isinstance(refusal, Refused)
    with pytest.raises(Overloaded, match="not run") as raised:
        value_of(refusal)
    assert isinstance(raised.value, Rejected)
    come_back(made)
    assert answers(made) == {"op": Returned(7)}, "who was refused is not answered again"
    ask(made, 3)
    assert answers(made) == {"ask 3": Returned(7)}


@pytest.mark.parametrize("style", ALL)
def test_where_no_copy_is_a_query_is_answered_if_the_operation_ends_in_time(style: str) -> None:
    made = group(style)
    operate(made, 1, "load", STATE_BYTES_MAX + 1)
    operate(made, 2, "pay", 3)
    ask(made, 1)
    come_back(made)
    made.replicas[made.primary].turn()
    assert answers(made)["ask 1"] == Returned(7)


def test_an_updateable_object_is_not_asked_for_a_copy() -> None:
    """Its next update would lack the earlier changes."""
    made = group("warm", UpdatingPurse)
    operate(made, 1, "pay", 3)
    ask(made, 1)
    assert answers(made) == {}


def test_a_stale_read_of_a_member_that_waits_sees_the_same() -> None:
    made = group("active")
    operate(made, 1, "pay", 3)
    replica = made.replicas["b"]
    assert replica.execution is not None
    assert not replica.execution.is_at_rest
    assert replica.reached == replica.execution.position
    found = replica.on_stale_query(Request(B, 1), "count", encode_arguments((), {}))
    assert decode_outcome(found) == Returned(10)


def test_a_stale_read_without_a_copy_is_not_answered() -> None:
    made = group("active")
    operate(made, 1, "load", STATE_BYTES_MAX + 1)
    operate(made, 2, "pay", 3)
    replica = made.replicas["b"]
    assert replica.reached == 0
    with pytest.raises(Unavailable):
        replica.on_stale_query(Request(B, 1), "count", encode_arguments((), {}))


@pytest.mark.parametrize("style", ALL)
def test_queries_that_wait_at_a_primary_that_ends_are_forsaken(style: str) -> None:
    made = group(style)
    operate(made, 1, "load", STATE_BYTES_MAX + 1)
    operate(made, 2, "pay", 3)
    ask(made, 1)
    made.fail_over("b", is_crash=False)
    made.settle()
    for _ in range(3):
        made.clock.time_ns += 3 * SECOND
        made.replicas["a"].turn()
    assert "ask 1" in made.forsaken or isinstance(answers(made).get("ask 1"), Refused)
