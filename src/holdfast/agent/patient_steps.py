"""Waits for the steps of a restart or an upgrade while hosts come and go, each within its time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from holdfast.model.errors import OutcomeUnknown, Unavailable

STEP_S: Final = 120.0
"""Time limit for each step: a host that starts replays its log, and members catch up."""
POLL_S: Final = 0.1

T = TypeVar("T")


async def insist(ask: Callable[[], Awaitable[T]], *, step_s: float = STEP_S) -> T:
    """Ask until a host answers: hosts restart meanwhile. Raises what the last one said, if none does in
    time."""
    now = asyncio.get_running_loop().time
    deadline = now() + step_s
    while True:
        try:
            return await ask()
        except (Unavailable, OutcomeUnknown):
            if now() >= deadline:
                raise
            await asyncio.sleep(POLL_S)


async def awaited(
    what: str,
    ask: Callable[[], Awaitable[T]],
    holds: Callable[[T], bool],
    *,
    advice: str,
    step_s: float = STEP_S,
) -> T:
    """Ask until *holds* says that *what* is so, and return what was found then. Raises ``Unavailable`` with
    *advice* if that does not come in time."""
    try:
        async with asyncio.timeout(step_s):
            while not holds(found := await insist(ask, step_s=step_s)):
                await asyncio.sleep(POLL_S)
            return found
    except TimeoutError:
        said = f"not within {step_s:g} s: {what}; {advice}"
        raise Unavailable(f"{said}. Nothing is lost; begin again to go on") from None
