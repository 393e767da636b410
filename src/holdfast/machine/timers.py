"""An event loop's timers as a Timers port."""

import asyncio
from collections.abc import Callable, Hashable

from holdfast.model.ports import TimerId
from holdfast.model.units import SECOND


class LoopTimers:
    """Timers of one core on one loop. After :meth:`close` none fires and none can be set."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_timer: Callable[[Hashable], None]) -> None:
        self._loop = loop
        self._on_timer = on_timer
        self._handles: dict[TimerId, asyncio.TimerHandle] = {}
        self._last = 0
        self._closed = False

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self._last += 1
        timer = TimerId(self._last)
        if not self._closed:
            self._handles[timer] = self._loop.call_later(delay_ns / SECOND, self._fire, timer, tag)
        return timer

    def cancel(self, timer: TimerId) -> None:
        handle = self._handles.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def close(self) -> None:
        self._closed = True
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _fire(self, timer: TimerId, tag: Hashable) -> None:
        if self._handles.pop(timer, None) is not None:
            self._on_timer(tag)
