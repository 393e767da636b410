"""Callers that call without pause, and when each of their calls began and ended."""

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random

from holdfast.bench.windows import Window
from holdfast.machine import MachineClock, MachineRandom
from holdfast.model.errors import HoldfastError
from holdfast.model.units import MILLISECOND

Call = Callable[[Random], Awaitable[object]]
"""Makes one call, with the caller's own dice; done when it is acknowledged."""

_clock = MachineClock()


class Callers:
    """So many callers of *call*, each making one call after the other.

    The times are kept as plain integers: hundreds of thousands of objects would have the collector hold up
    the very calls that are measured.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._began = array("q")
        self._ended = array("q")
        """Ascending: written down as they end."""
        self._is_running = True
        self.failed = 0

    def __len__(self) -> int:
        """Of the calls that were acknowledged."""
        return len(self._ended)

    @asynccontextmanager
    async def calling(self, callers: int) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._call_always(number)) for number in range(callers)]
        try:
            yield
        finally:
            self._is_running = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _call_always(self, number: int) -> None:
        random = MachineRandom().stream(f"caller {number}")
        while self._is_running:
            began = _clock.now()
            try:
                await self._call(random)
            except HoldfastError:
                self.failed += 1
                continue
            self._began.append(began)
            self._ended.append(_clock.now())

    def took_ms(self, windows: Iterable[Window]) -> list[float]:
        """What the calls took that were under way in any of *windows*, the shortest first."""
        return sorted(each.length_ns / MILLISECOND for each in self.under_way(windows))

    def under_way(self, windows: Iterable[Window]) -> Iterator[Window]:
        """The calls that were, each from its beginning to its end."""
        wanted = tuple(windows)
        for began, ended in zip(self._began, self._ended, strict=True):
            if any(began < each.end_ns and ended > each.start_ns for each in wanted):
                yield Window(began, ended)

    def answered_again_ns(self, since_ns: int) -> int | None:
        """When the first call was answered that began after *since_ns*: by whoever served then."""
        first = bisect_right(self._ended, since_ns)
        late = zip(self._began[first:], self._ended[first:], strict=True)
        return next((ended for began, ended in late if began > since_ns), None)

    def longest_gap_ms(self, window: Window) -> float:
        """The longest time in *window* in which no call was answered."""
        first, last = (bisect_right(self._ended, each) for each in (window.start_ns, window.end_ns))
        times = [window.start_ns, *self._ended[first:last], window.end_ns]
        return max(later - earlier for earlier, later in pairwise(times)) / MILLISECOND
