"""How often the manager examines the domain, whatever is reported to it."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

from holdfast.admin.reconciler import BUSY_LOOK_S, Reconciler
from holdfast.faults.events import Location
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.faults.told_events import Told

REPORT = FaultReport(FaultKind.IN_SYNC_SHRUNK, "main", Location.parse("host1")).to_event()


class Looks:
    """A host that does not coordinate, and counts how often it examines the domain."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        catalog = SimpleNamespace(views={}, sessions={})
        self.reconciler = Reconciler(
            cast(Any, SimpleNamespace(catalog=catalog)),
            cast(Any, None),
            cast(Any, SimpleNamespace(is_coordinator=False, coordinator=None)),
            cast(Any, SimpleNamespace(look=self._look)),
            cast(Any, None),
        )

    def _look(self) -> None:
        self.at_s.append(asyncio.get_running_loop().time())

    async def until(self, looks: int) -> None:
        async with asyncio.timeout(30):
            while len(self.at_s) < looks:
                await asyncio.sleep(0.01)


def test_a_flood_of_faults_is_not_a_flood_of_looks() -> None:
    """Each round waits a moment after the last one, however many faults are reported."""

    async def run() -> Looks:
        looks = Looks()
        working = asyncio.create_task(looks.reconciler.work())
        try:
            await looks.until(1)
            for number in range(200):
                looks.reconciler.on_told(Told(number + 1, 0, REPORT))
                await asyncio.sleep(0.003)
            await looks.until(3)
        finally:
            working.cancel()
        return looks

    found = asyncio.run(run()).at_s
    pauses = [later - earlier for earlier, later in pairwise(found)]
    assert min(pauses) > BUSY_LOOK_S * 0.9, "never at once: there may be thousands of reports"
