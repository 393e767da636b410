"""Requests that wait for room: each ends once, whatever ends while they begin."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.calling.config import CallPolicy
from holdfast.calling.queueing import Queueing
from holdfast.model.errors import Overloaded
from holdfast.model.units import MILLISECOND


class LateLoop:
    """An event loop whose clock is moved by hand, and whose timers have not run yet."""

    def __init__(self) -> None:
        self.now = 100.0
        self._loop = asyncio.get_running_loop()

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        return self._loop.call_later(1000, callback, *args)


def tell(story: Callable[[LateLoop, Queueing], Awaitable[None]]) -> None:
    async def run() -> None:
        loop = LateLoop()
        await story(loop, Queueing(loop, "g"))  # type: ignore[arg-type]  # as much of a loop as is used

    asyncio.run(run())


def test_a_request_whose_duration_is_over_before_its_timer_has_run_ends_as_late() -> None:
    """Room came in the same turn of the loop, ahead of the timer: nothing is made, and the caller is told."""

    async def story(loop: LateLoop, queueing: Queueing) -> None:
        made: list[object] = []
        answer = queueing.add(lambda *made_of: made.append(made_of), CallPolicy(duration_ns=MILLISECOND), 1)
        loop.now += 1
        queueing.admit()
        assert answer.done()
        assert isinstance(answer.exception(), Overloaded)
        assert (made, list(queueing.waiting)) == ([], [])

    tell(story)
