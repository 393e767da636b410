"""A call to another group that a method does not await is never made, and the method's caller is told so."""

from typing import Any

import pytest
from group_classes import call, definition, following, run, sent, stamp

import holdfast as hf
from holdfast.execution.execution import Execution
from holdfast.execution.records import Calls, NestedReply
from holdfast.model.outcome import Raised, Returned, encode_returned

NOT_AWAITED = "holdfast.NotAwaited"


class Shop:
    """Orders from the group ``stock`` in ways that make no call."""

    def __init__(self) -> None:
        self.orders = 0

    def order(self) -> int:
        hf.context.group("stock").reserve("x")
        self.orders += 1
        return self.orders

    async def forget(self) -> int:
        hf.context.group("stock").reserve("x")
        return 1

    async def await_one_of_two(self) -> Any:
        first = hf.context.group("stock").reserve("x")
        hf.context.group("mail").send("y")
        return await first

    async def await_later(self) -> Any:
        later = hf.context.group("stock").reserve("x")
        self.orders += 1
        return await later

    def fail(self) -> None:
        hf.context.group("stock").reserve("x")
        raise ValueError("no")

    def count(self) -> int:
        return self.orders


@pytest.fixture
def shop() -> Execution:
    return Execution(definition(Shop))


@pytest.mark.parametrize("method", ["order", "forget"])
def test_a_call_that_is_not_awaited_is_an_error_that_names_it(shop: Execution, method: str) -> None:
    """What the method changed stays changed, as with any exception; later calls are not affected."""
    raised, counted = run(shop, call(1, method), call(2, "count"))
    assert isinstance(raised, Raised)
    assert raised.type_name == NOT_AWAITED
    assert "stock.reserve" in raised.text
    assert isinstance(counted, Returned)


def test_what_the_method_raised_itself_is_its_outcome(shop: Execution) -> None:
    raised, counted = run(shop, call(1, "fail"), call(2, "count"))
    assert isinstance(raised, Raised)
    assert raised.type_name == "ValueError"
    assert counted == Returned(0)


@pytest.mark.parametrize(
    ("method", "outcome"), [("await_later", encode_returned(7)), ("await_one_of_two", None)]
)
def test_what_is_awaited_later_is_made(shop: Execution, method: str, outcome: bytes | None) -> None:
    """A method may create a call first and await it later. Of two calls, the one not awaited is named."""
    effects = shop.apply(following(shop), Calls(stamp(), sent(call(1, method))))
    assert effects.outcomes == [None]
    made = shop.outgoing()
    assert made is not None
    assert made.method == "reserve"
    answered = NestedReply(stamp(), made.caller.client, made.caller.number, made.call, encode_returned(7))
    (reply,) = shop.apply(following(shop), answered).later
    if outcome is not None:
        assert reply.outcome == outcome
    else:
        assert b"mail.send" in reply.outcome
        assert b"stock" not in reply.outcome
