"""What a host does with the frames that others send it, by their kind."""

import asyncio
from collections.abc import Coroutine

import msgspec

from holdfast.authority.recipe import Authority
from holdfast.model.ids import HostId
from holdfast.model.orders import Order, decode_order, encode_order
from holdfast.net import Connection, Kind, Role, split_number, with_number
from holdfast.node.creating import Creating
from holdfast.node.groups import Groups, fresh_nonce
from holdfast.node.serving import Serving


class Receiving:
    """The groups of a host, as hosts, clients and people reach them."""

    def __init__(self, groups: Groups, authority: Authority) -> None:
        self._groups = groups
        self._serving = Serving(groups, authority)
        self._creating = Creating(groups, authority, fresh_nonce)
        self._orders: dict[asyncio.Task[None], None] = {}

    def following(self) -> list[Coroutine[object, object, None]]:
        """What must run as long as the host does."""
        return self._groups.following()

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        """Raises what msgspec raises for a payload that is none of ours."""
        if kind is Kind.SEQUENCE:
            if connection.peer.role is not Role.HOST:
                raise msgspec.ValidationError(f"{connection.peer} is no host")
            self._groups.on_sequence(HostId(connection.peer.id), payload)
        elif kind is Kind.CALL:
            self._groups.guarded(self._serving.on_call)(connection, payload)
        elif kind is Kind.GROUP_ORDER:
            number, body = split_number(payload)
            work = self._do(connection, number, decode_order(body))
            task = asyncio.get_running_loop().create_task(work)
            self._orders[task] = None
            task.add_done_callback(lambda done: self._orders.pop(done))
        else:
            raise msgspec.ValidationError(f"a host takes no {kind.name}")

    async def close(self) -> None:
        for task in list(self._orders):
            task.cancel()
        await asyncio.gather(*self._orders, return_exceptions=True)
        await self._serving.close()
        await self._groups.close()

    async def _do(self, connection: Connection, number: int, order: Order) -> None:
        answer = await self._creating.do(order)
        connection.send(Kind.GROUP_ANSWER, with_number(number, encode_order(answer)))
