"""Keeps quiet streams alive: passes on events, and marks each pause between them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from holdfast.web.settings import QUIET_S

T = TypeVar("T")


async def with_pauses(events: AsyncIterator[T]) -> AsyncGenerator[T | None, None]:
    """Yield *events*, and None whenever there is none for a while.

    Close it before *events*: it then no longer awaits any of them.
    """
    coming: asyncio.Future[T] | None = None
    try:
        while True:
            if coming is None:
                coming = asyncio.ensure_future(anext(events))
            await asyncio.wait((coming,), timeout=QUIET_S)
            if not coming.done():
                yield None
                continue
            done, coming = coming, None
            try:
                event = done.result()
            except StopAsyncIteration:
                return
            yield event
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
