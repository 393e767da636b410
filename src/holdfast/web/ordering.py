"""Orders about groups, given where those of the native protocol are."""

import asyncio
from typing import TypeVar

from holdfast.model.errors import OutcomeUnknown, Overloaded, Unavailable
from holdfast.model.orders import Answer, Order, OrderAnswer, OrderRefused, Question
from holdfast.net import Role
from holdfast.node.administering import Administering
from holdfast.web.bounds import ORDER_S, ORDERS_MAX
from holdfast.web.problems import refusal_of_order

Given = TypeVar("Given", bound=Answer)


class Orders:
    """The orders that came through one door."""

    def __init__(self, administering: Administering) -> None:
        self._administering = administering
        self._under_way: dict[asyncio.Task[OrderAnswer], None] = {}

    async def give(self, order: Order, by: Role, kind: type[Given]) -> Given:
        """Have *order* done; its answer is of *kind*. Raises :class:`.problems.Refusal` when it was refused,
        ``OutcomeUnknown`` when it may yet be done, ``Unavailable`` or ``Overloaded`` when it was not."""
        if len(self._under_way) >= ORDERS_MAX:
            raise Overloaded(f"{len(self._under_way)} orders are under way")
        task = asyncio.get_running_loop().create_task(self._administering.do(order, by))
        self._under_way[task] = None
        task.add_done_callback(lambda done: self._under_way.pop(done))
        await asyncio.wait((task,), timeout=ORDER_S)
        if not task.done():
            if isinstance(order, Question):
                task.cancel()
                raise Unavailable(f"the authority did not answer within {ORDER_S:g} s")
            raise OutcomeUnknown("the order", waited_s=ORDER_S)
        answer = task.result()
        if isinstance(answer, OrderRefused):
            raise refusal_of_order(answer)
        assert isinstance(answer, kind)  # each order has one kind of answer
        return answer

    async def close(self) -> None:
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
