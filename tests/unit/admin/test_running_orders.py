"""Orders on a host's connections: their number is bounded, and each is answered, whatever its outcome."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.admin import dispatch
from holdfast.admin.dispatch import RunningOrders
from holdfast.model.admin.groups import (
    DeleteGroup,
    ListGroups,
    Order,
    OrderAnswer,
    OrderRefused,
    decode_order_answer,
    encode_order,
)
from holdfast.model.errors import OutcomeUnknown, Overloaded, Unavailable
from holdfast.net import Address, Connection, Kind, Role, split_number, with_number


class Asker:
    """A connection, and the answers sent on it by number."""

    def __init__(self) -> None:
        self.peer = SimpleNamespace(role=Role.CLIENT)
        self.address = Address("127.0.0.1", 1)
        self.codes: dict[int, str] = {}

    def send(self, kind: Kind, payload: bytes) -> None:
        number, body = split_number(payload)
        answer = decode_order_answer(body)
        assert isinstance(answer, OrderRefused)
        self.codes[number] = answer.code

    def give(self, taken: RunningOrders, number: int, order: Order) -> None:
        taken.take(cast(Connection, self), with_number(number, encode_order(order)))


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


def doing(work: Callable[[], Awaitable[Any]]) -> RunningOrders:
    async def do(order: Order, by: Role) -> OrderAnswer:
        answer: OrderAnswer = await work()
        return answer

    return RunningOrders(do)


def test_while_the_authority_is_away_orders_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limited number of orders waits; further ones are told to come again. Questions are given up after a
    while, but orders that change something are not."""
    monkeypatch.setattr(dispatch, "ORDERS_MAX", 3)
    monkeypatch.setattr(dispatch, "QUESTION_S", 0.05)

    async def work() -> None:
        asker, taken = Asker(), doing(asyncio.Event().wait)
        asker.give(taken, 1, DeleteGroup(name="g"))
        asker.give(taken, 2, ListGroups())
        asker.give(taken, 3, ListGroups())
        asker.give(taken, 4, ListGroups())
        assert asker.codes == {4: Overloaded.code}
        await until(lambda: len(asker.codes) == 3)
        assert asker.codes == {2: Unavailable.code, 3: Unavailable.code, 4: Overloaded.code}
        await until(lambda: taken.under_way == 1)
        asker.give(taken, 5, DeleteGroup(name="g"))
        assert 5 not in asker.codes
        await taken.close()
        assert 1 not in asker.codes

    asyncio.run(work())


def test_an_order_that_fails_in_the_host_is_answered() -> None:
    """The client is told that the outcome is unknown, and does not wait in vain."""

    async def fail() -> None:
        raise RecursionError("too deep")

    async def work() -> None:
        asker = Asker()
        asker.give(doing(fail), 1, DeleteGroup(name="g"))
        await until(lambda: asker.codes)
        assert asker.codes == {1: OutcomeUnknown.code}

    asyncio.run(work())
