"""Ending early: after the first signal everything is still counted, after the second it is not."""

import asyncio
import os
import signal

import pytest

from holdfast.demo.domain import ASKED, SIGNALS, Ending, run_until_asked

LONG_S = 60.0
"""Longer than any of these tests may take: nobody waits for it."""


def signal_self(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_under_load_asks_for_an_end_in_order(number: signal.Signals) -> None:
    """A rest between two faults ends at once, and the results are returned."""
    said: list[str] = []

    async def main(ending: Ending) -> str:
        ending.on_load()
        assert not ending.is_asked
        signal_self(number)
        async with asyncio.timeout(LONG_S):
            await ending.rest(2 * LONG_S)
        assert ending.is_asked
        return "counted"

    assert run_until_asked(main, on_asked=said.append) == "counted"
    assert said == [ASKED]


def test_without_a_signal_a_rest_is_as_long_as_it_is_said_to_be() -> None:
    """No end has been requested then."""

    async def main(ending: Ending) -> bool:
        ending.on_load()
        await ending.rest(0.01)
        return ending.is_asked

    assert run_until_asked(main, on_asked=pytest.fail) is False


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_there_is_anything_to_count_ends_at_once(number: signal.Signals) -> None:
    """What was begun is still cleaned up."""
    tidied: list[str] = []

    async def main(ending: Ending) -> None:
        try:
            signal_self(number)
            await asyncio.sleep(LONG_S)
        finally:
            tidied.append("processes")

    with pytest.raises(KeyboardInterrupt):
        run_until_asked(main, on_asked=pytest.fail)
    assert tidied == ["processes"]


def test_a_second_signal_ends_at_once_and_a_third_does_not_cut_that_short() -> None:
    """Cutting the cleanup short would leave processes behind."""
    tidied: list[str] = []
    said: list[str] = []

    async def main(ending: Ending) -> None:
        ending.on_load()
        try:
            signal_self(signal.SIGINT)
            await ending.rest(LONG_S)
            signal_self(signal.SIGTERM)
            await asyncio.sleep(LONG_S)
        finally:
            signal_self(signal.SIGINT)
            await asyncio.sleep(0.1)
            tidied.append("processes")

    with pytest.raises(KeyboardInterrupt):
        run_until_asked(main, on_asked=said.append)
    assert (said, tidied) == ([ASKED], ["processes"])
