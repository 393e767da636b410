"""Connections of a client to the members of a group, at the addresses that their hosts tell for streams."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from random import SystemRandom

from holdfast.net import Address, Connection, ConnectionSettings, Expected, Link, Receiver, Role


class MemberLinks:
    """A link to each member; *receiver* is asked at each new connection, with the member's address."""

    def __init__(self, endpoint: ConnectionSettings, receiver: Callable[[str, Connection], Receiver]) -> None:
        self._endpoint = replace(endpoint, expected=Expected(roles=frozenset({Role.HOST})))
        self._receiver = receiver
        self._links: dict[str, Link] = {}
        self._closing: dict[asyncio.Task[None], None] = {}

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())

    def get(self, member: str) -> Link | None:
        return self._links.get(member)

    def set_members(self, wanted: Collection[str]) -> None:
        """Connect to *wanted* and to nobody else."""
        for gone in [each for each in self._links if each not in wanted]:
            task = asyncio.get_running_loop().create_task(self._links.pop(gone).close())
            self._closing[task] = None
            task.add_done_callback(lambda done: self._closing.pop(done))
        for each in wanted:
            if each not in self._links:
                self._links[each] = self._link(each)

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self), *self._closing)
        self._links.clear()

    def _link(self, at: str) -> Link:
        address = Address.parse(at)
        return Link(
            f"member at {at}",
            lambda: address,
            lambda connection: self._receiver(at, connection),
            self._endpoint,
            random=SystemRandom(),
        )
