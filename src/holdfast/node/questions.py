"""A core's questions to the authority, carried by tasks of the event loop (PROTOCOL A2)."""

import asyncio
from collections.abc import Callable, Hashable

from holdfast.authority.contract import Request, Result
from holdfast.authority.recipe import Authority


class Questions:
    """An AuthorityPort. *on_authority* follows every request, unless this was closed first.

    Bounded by its cores: each has at most a few questions open.
    """

    def __init__(self, authority: Authority) -> None:
        self.on_authority: Callable[[Hashable, Result], None] = lambda token, result: None
        self._authority = authority
        self._tasks: dict[asyncio.Task[None], None] = {}

    def request(self, request: Request, token: Hashable) -> None:
        task = asyncio.get_running_loop().create_task(self._ask(request, token))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done))

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self, request: Request, token: Hashable) -> None:
        result = await self._authority.ask(request)
        # Not within this task: what a core raises must reach the loop, which ends the process for it.
        asyncio.get_running_loop().call_soon(self.on_authority, token, result)
