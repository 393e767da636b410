"""Ending a demo or a soak before its time, so that what was called until then is counted all the same."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

import uvloop

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
ASKED: Final = "asked to end: what is broken now is got over, then every call is counted (again: end at once)"

Found = TypeVar("Found")


class Ending:
    """What signals ask for. The first, once there are calls to count, asks for an end in order; a second, or
    one before that, ends *at once* by cancelling *task*. Whatever comes then is not heard: all that is left
    to do is to end processes, and it must not be cut short."""

    def __init__(self, task: "asyncio.Task[Any]", on_asked: Callable[[str], None]) -> None:
        self._task = task
        self._on_asked = on_asked
        self._asked = asyncio.Event()
        self._is_loaded = False
        self._is_cut_short = False

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    def on_load(self) -> None:
        """The first call is about to be made."""
        self._is_loaded = True

    def on_signal(self) -> None:
        if self._is_loaded and not self.is_asked:
            self._asked.set()
            self._on_asked(ASKED)
        elif not self._is_cut_short:
            self._is_cut_short = True
            self._task.cancel()

    async def rest(self, seconds: float) -> None:
        """Wait so long, or until the end is asked for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._asked.wait()


def run_until_asked(
    main: Callable[[Ending], Coroutine[Any, Any, Found]], *, on_asked: Callable[[str], None]
) -> Found:
    """Run *main* in a loop of its own, with an ending that hears SIGINT and SIGTERM; *on_asked* gets a line
    for people when there is to be an end in order. Raises ``KeyboardInterrupt`` when it was ended at once."""

    async def heard() -> Found:
        task = asyncio.current_task()
        assert task is not None  # a coroutine that runs has one
        ending = Ending(task, on_asked)
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, ending.on_signal)
        return await main(ending)

    try:
        return uvloop.run(heard())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
