"""A host's background work for its domain: whatever goes wrong there, its groups keep serving."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.admin import reconciler
from holdfast.admin.reconciler import Reconciler
from holdfast.faults.backlog import Backlog
from holdfast.faults.events import Location
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.machine import MachineClock
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import HostId, Nonce
from holdfast.node.faults import consumer, shipper
from holdfast.node.faults.consumer import FaultConsumer
from holdfast.node.faults.shipper import FaultShipper


class Fails:
    """Raises *error* whenever it is used, and counts how often."""

    def __init__(self, error: BaseException) -> None:
        self.count = 0
        self._error = error

    @property
    def is_coordinator(self) -> bool:
        self.count += 1
        raise self._error

    async def reference(self) -> None:
        self.count += 1
        raise self._error


def works(fails: Fails, what: str) -> Coroutine[Any, Any, None]:
    """One kind of work, of which each attempt fails."""
    groups: Any = SimpleNamespace(catalog=SimpleNamespace(find=lambda name: 1))
    if what == "managing":
        return Reconciler(
            groups, cast(Any, None), cast(Any, fails), cast(Any, None), lambda: Nonce("n")
        ).work()
    if what == "hearing":
        notifiers: Any = SimpleNamespace(name="")
        return FaultConsumer(cast(Any, fails), notifiers, groups, cast(Any, None), lambda told: None).work()
    backlog = Backlog(MachineClock())
    backlog.report(FaultReport(FaultKind.HOST_CRASH, "main", Location.parse("host2")))
    return FaultShipper(HostId("host1"), backlog, cast(Any, fails), groups, cast(Any, None)).work()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "READ_S", 0.01)
    monkeypatch.setattr(reconciler, "LOOK_S", 0.01)
    monkeypatch.setattr(reconciler, "BUSY_LOOK_S", 0.01)
    monkeypatch.setattr(shipper, "RETRY_S", 0.01)


@pytest.mark.parametrize("what", ["managing", "hearing", "reporting"])
def test_what_nobody_thought_of_is_tried_again(what: str) -> None:
    """Every host that took over would meet the same error: one after the other, all of them would end."""

    async def work() -> None:
        fails = Fails(AttributeError("nobody thought of it"))
        task = asyncio.create_task(works(fails, what))
        async with asyncio.timeout(30):
            while fails.count < 3 and not task.done():
                await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())


@pytest.mark.parametrize("what", ["managing", "hearing", "reporting"])
def test_a_broken_invariant_is_not(what: str) -> None:
    """The process must end because of it."""

    async def work() -> None:
        async with asyncio.timeout(30):
            await works(Fails(BrokenInvariant("no")), what)

    with pytest.raises(BrokenInvariant):
        asyncio.run(work())
