"""Asking the authority until it answers: losing it stops nothing, so a host waits for it without end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog

RETRY_S: Final = 0.2

log = structlog.get_logger("holdfast.authority")


async def insist(ask: Callable[[], Awaitable[object]], *kinds: type[object]) -> Any:
    """Ask until the answer is one of *kinds*. The same trouble, however long, is one line of the log."""
    trouble = None
    while not isinstance(answer := await ask(), kinds):
        if str(answer) != trouble:
            trouble = str(answer)
            log.info("waiting for the authority", answer=trouble)
        await asyncio.sleep(RETRY_S)
    return answer
