"""Carries a core's requests and watches to the authority (A2), and asks until the authority answers.

:class:`AuthorityDriver` serves cores. An authority that calls back gets their requests directly; for another
one each request is a task of the event loop. :func:`insist` serves a starting host: losing the authority
stops nothing, so the host waits for it without a time limit.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from holdfast.authority.contract import Compacted, Request, Result, WatchEvent
from holdfast.authority.recipe import (
    Authority,
    CallsBack,
    Listing,
    Seen,
    answering,
    decoded,
    perform,
    read_all,
)
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import Revision

Value = TypeVar("Value")


class AuthorityDriver:
    """An AuthorityPort that also watches: *on_authority* follows every request, unless it is closed first.

    The number of tasks is bounded by the cores: each has only a few watches and requests open.
    """

    def __init__(self, authority: Authority) -> None:
        self.on_authority: Callable[[Hashable, Result], None] = lambda token, result: None
        self._authority = authority
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._is_closed = False

    def request(self, request: Request, token: Hashable) -> None:
        if isinstance(self._authority, CallsBack):
            self._authority.request(request, partial(self._answered, token))
        else:
            self._start(self._ask(request, token))

    def watch(self, prefix: str, revision: Revision, then: Callable[[WatchEvent], None]) -> None:
        """Call *then* with every change from *revision* on; the last call is with ``Compacted``."""
        self._start(self._follow(prefix, revision, then))

    async def close(self) -> None:
        self._is_closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _answered(self, token: Hashable, result: Result) -> None:
        """Pass on a result that came with a frame, in the same turn of the loop."""
        if self._is_closed:
            return
        try:
            self.on_authority(token, result)
        except (Exception, BrokenInvariant) as error:
            # A connection logs what its receiver raises and goes on with another connection. An exception of
            # the core must reach the loop, which ends the process.
            asyncio.get_running_loop().call_soon(_raise, error)

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


def _raise(error: BaseException) -> None:
    raise error


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


async def followed(
    authority: Authority, prefix: str, kind: type[Value]
) -> AsyncIterator[Mapping[str, Seen[Value]]]:
    """Everything below *prefix* by key, as it is listed first and again after each change. While the
    authority is away, the last known state stays. A core has :class:`~holdfast.groups.informer.Informer`
    instead."""
    list_all = answering(read_all)
    while True:
        listing: Listing[Value] = await insist(lambda: perform(authority, list_all(prefix, kind)), Listing)
        known = {seen.key: seen for seen in listing.items}
        yield known
        async with aclosing(authority.watch(prefix, Revision(listing.revision + 1))) as events:  # type: ignore[type-var]  # every watch is a generator
            async for event in events:
                if isinstance(event, Compacted):
                    break  # too far behind to catch up: list again
                for changed in event.changes:
                    if changed.item is None:
                        known.pop(changed.key, None)
                    else:
                        known[changed.key] = decoded(changed.item, kind)
                yield known
