"""The orders that come on connections: so many at a time, each answered, whatever becomes of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from holdfast.model.errors import OutcomeUnknown, Overloaded, Unavailable
from holdfast.model.orders import Order, OrderAnswer, OrderRefused, Question, decode_order, encode_order
from holdfast.net import Connection, Kind, Role, split_number, with_number

ORDERS_MAX: Final = 1_000
"""Under way at once. Each asks the authority again and again while that is away."""
QUESTION_S: Final = 20.0
"""Whoever asks waits no longer. What changes something goes on: half an order is worse than a whole one."""

log = structlog.get_logger("holdfast.orders")


class Orders:
    """Of one host, which has them done by *do*."""

    def __init__(self, do: Callable[[Order, Role], Awaitable[OrderAnswer]]) -> None:
        self._do = do
        self._under_way: dict[asyncio.Task[None], None] = {}

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def take(self, connection: Connection, payload: bytes) -> None:
        """Raises ``LaterKind``, and ``msgspec.DecodeError`` for what is no order."""
        number, body = split_number(payload)
        order = decode_order(body)
        if self.under_way >= ORDERS_MAX:
            _answer(connection, number, OrderRefused.by(Overloaded(f"{ORDERS_MAX} orders are under way")))
            return
        task = asyncio.get_running_loop().create_task(self._answered(connection, number, order))
        self._under_way[task] = None
        task.add_done_callback(lambda done: self._under_way.pop(done))

    async def close(self) -> None:
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _answered(self, connection: Connection, number: int, order: Order) -> None:
        try:
            async with asyncio.timeout(QUESTION_S if isinstance(order, Question) else None):
                answer = await self._do(order, connection.peer.role)
        except TimeoutError:
            answer = OrderRefused.by(Unavailable(f"the authority did not answer within {QUESTION_S:g} s"))
        except Exception:
            log.exception("an order failed", order=type(order).__name__)
            said = "the host failed while it did this; its log says why"
            answer = OrderRefused(code=OutcomeUnknown.code, text=said, is_final=False)
        _answer(connection, number, answer)


def _answer(connection: Connection, number: int, answer: OrderAnswer) -> None:
    connection.send(Kind.GROUP_ANSWER, with_number(number, encode_order(answer)))
