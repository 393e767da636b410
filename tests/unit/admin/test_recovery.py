"""Inspections that people order: one that was given up may end later without causing a failure."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from holdfast.admin.recovery import RecoveryAdmin
from holdfast.authority.views import NoGroup
from holdfast.model.ids import GroupId


def test_an_inspection_that_nobody_waits_for_any_more_ends_quietly() -> None:
    """The result is dropped without an error in the core that made it."""

    async def work() -> None:
        ends: list[Callable[[Any], None]] = []
        recovery = SimpleNamespace(inspect=lambda group, hosts, then: ends.append(then))
        info: Any = SimpleNamespace(name="g", group=GroupId(1), placed_on=(), leaving=())
        asked = asyncio.create_task(RecoveryAdmin(cast(Any, recovery), cast(Any, None)).inspected(info))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        (end,) = ends
        end(NoGroup(GroupId(1)))

    asyncio.run(work())
