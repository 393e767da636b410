"""Runs a core's requests and watches as tasks of the event loop (A2), and asks until the authority answers.

:class:`AuthorityDriver` serves cores. :func:`insist` serves a starting host: losing the authority stops
nothing, so the host waits for it without a time limit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Final

import structlog

from holdfast.authority.contract import Request, Result, WatchEvent
from holdfast.authority.recipe import Authority
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import Revision


class AuthorityDriver:
    """An AuthorityPort that also watches: *on_authority* follows every request, unless it is closed first.

    The number of tasks is bounded by the cores: each has only a few requests open.
    """

    def __init__(self, authority: Authority) -> None:
        self.on_authority: Callable[[Hashable, Result], None] = lambda token, result: None
        self._authority = authority
        self._tasks: dict[asyncio.Task[None], None] = {}

    def request(self, request: Request, token: Hashable) -> None:
        self._start(self._ask(request, token))

    def watch(self, prefix: str, revision: Revision, then: Callable[[WatchEvent], None]) -> None:
        """Call *then* with every change from *revision* on; the last call is with ``Compacted``."""
        self._start(self._follow(prefix, revision, then))

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self, request: Request, token: Hashable) -> None:
        result = await self._authority.ask(request)
        # call_soon leaves this task: an exception of the core must reach the loop, which ends the process.
        asyncio.get_running_loop().call_soon(self.on_authority, token, result)

    async def _follow(self, prefix: str, revision: Revision, then: Callable[[WatchEvent], None]) -> None:
        async for event in self._authority.watch(prefix, revision):
            asyncio.get_running_loop().call_soon(then, event)

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # A core is waiting for an answer that will not come. A process that restarts is better than one
            # that looks healthy and takes no part any more.
            raise BrokenInvariant(f"the authority's driver failed: {error!r}") from error


RETRY_S: Final = 0.2

log = structlog.get_logger("holdfast.authority")


async def insist(ask: Callable[[], Awaitable[object]], *kinds: type[object]) -> Any:
    """Ask until the answer is one of *kinds*. A problem that stays the same is logged only once."""
    trouble = None
    while not isinstance(answer := await ask(), kinds):
        if str(answer) != trouble:
            trouble = str(answer)
            log.info("waiting for the authority", answer=trouble)
        await asyncio.sleep(RETRY_S)
    return answer
