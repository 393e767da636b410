"""The time that a trial of new code may take is that of the code, not that of a busy machine (E7)."""

import asyncio
import time

import pytest

from holdfast.admin.upgrade import TookTooLong, within

FAR_S = 1e9


async def work(takes_s: float) -> str:
    await asyncio.sleep(takes_s)
    return "done"


def test_time_without_a_core_does_not_count() -> None:
    """Work that had a core for a tenth of the time may take ten times as long."""
    began_s = time.monotonic()
    found = within(work(0.5), 0.1, FAR_S, lambda: (time.monotonic() - began_s) * 0.99)
    assert asyncio.run(found) == "done"


def test_time_with_a_core_counts() -> None:
    """Work that had its core, or that waits for something else, ends with its limit."""
    with pytest.raises(TookTooLong):
        asyncio.run(within(work(60), 0.1, FAR_S, lambda: 0.0))


def test_nothing_takes_for_ever() -> None:
    """A process that never gets a core is given up, and that is told from code that takes too long."""

    async def starved() -> None:
        until_s = asyncio.get_running_loop().time() + 0.1
        await within(work(60), 0.1, until_s, lambda: FAR_S)

    with pytest.raises(TimeoutError) as caught:
        asyncio.run(starved())
    assert not isinstance(caught.value, TookTooLong)


def test_what_the_work_raises_is_raised() -> None:
    async def fails() -> str:
        raise EOFError

    with pytest.raises(EOFError):
        asyncio.run(within(fails(), 0.1, FAR_S, lambda: 0.0))
