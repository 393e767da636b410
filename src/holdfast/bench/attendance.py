"""One caller for each of many groups, for as long as something is done to their hosts.

Each calls at a steady pace, so that all groups are heard of and the machine has time for what is measured.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from holdfast.client.proxy import Group
from holdfast.machine import MachineClock
from holdfast.model.errors import HoldfastError
from holdfast.model.units import MILLISECOND

_clock = MachineClock()


class Tally:
    """What each group replicates."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count


@dataclass(frozen=True, slots=True)
class Waits:
    """How long calls took in some stretch of time."""

    calls: int
    longest_ms: tuple[float, ...]
    """Of each group, the longest."""

    @property
    def worst_ms(self) -> float:
        return max(self.longest_ms, default=0.0)


CLASS: Final = f"{Tally.__module__}:{Tally.__qualname__}"
NO_WAITS: Final = Waits(0, ())


class Attendance:
    """Callers of *groups* of :class:`Tally`, each calling one every *every_s*."""

    def __init__(self, groups: Sequence[Group[Any]], every_s: float) -> None:
        self._groups = groups
        self._every_s = every_s
        self._is_over = False
        self._calls = 0
        self._longest_ns = [0] * len(groups)
        self.failures: list[str] = []
        """Calls that ended without an answer, or with a wrong one."""

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        """Afterwards every call has ended, and counts."""
        tasks = [asyncio.create_task(self._call_always(number)) for number in range(len(self._groups))]
        try:
            yield
        finally:
            self._is_over = True
            await asyncio.gather(*tasks)

    def take_waits(self) -> Waits:
        """Of the calls that ended since they were last taken."""
        longest = tuple(each / MILLISECOND for each in self._longest_ns)
        found = Waits(self._calls, longest)
        self._calls, self._longest_ns = 0, [0] * len(self._groups)
        return found

    async def _call_always(self, number: int) -> None:
        # Not all at once: each has its place within the pace.
        await asyncio.sleep(self._every_s * number / len(self._groups))
        acknowledged = 0
        while not self._is_over:
            began = _clock.now()
            try:
                count = await self._groups[number].call("add")
                acknowledged += 1
                if count != acknowledged:
                    self.failures.append(f"group {number} answered {count} to call {acknowledged}")
                    return
            except HoldfastError as error:
                self.failures.append(f"group {number}, call {acknowledged + 1}: {error!r}")
                return
            took = _clock.now() - began
            self._calls += 1
            self._longest_ns[number] = max(self._longest_ns[number], took)
            await asyncio.sleep(self._every_s)
