"""The fault shipper of a host: a report that cannot be delivered does not block the others."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
from local_notifier import LocalNotifier

from holdfast.admin.notifier_group import NotifierLine
from holdfast.faults.backlog import Backlog
from holdfast.faults.events import TEXT_MAX, Location
from holdfast.faults.monitor import Suspicion, reports_of
from holdfast.faults.reports import FaultKind, FaultReport, Scope
from holdfast.machine import MachineClock
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId, HostId
from holdfast.node.faults import shipper
from holdfast.node.faults.shipper import FaultShipper


class LocalLine(NotifierLine):
    """A connection to a notifier that is a local object."""

    def __init__(self, local: LocalNotifier) -> None:
        self._local = local
        self._is_own = True

    async def __aexit__(self, *_: object) -> None:
        return None

    def __call__(self, *_: object) -> Self:
        return self

    async def ask(self, method: Callable[..., Any], *arguments: object, returns: Any = None) -> Any:
        return await self._local.call(method, *arguments)


async def tell_all(line: LocalLine, backlog: Backlog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a shipper empty the backlog."""

    async def reference() -> None:
        return None

    monkeypatch.setattr(shipper, "NotifierLine", line)
    tells = FaultShipper(
        HostId("host1"),
        backlog,
        cast(Any, SimpleNamespace(reference=reference)),
        cast(Any, None),
        cast(Any, SimpleNamespace(identity=SimpleNamespace(domain="main"))),
    )
    telling = asyncio.create_task(tells.work())
    async with asyncio.timeout(60):
        while len(backlog):
            await asyncio.sleep(0)
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)


def host_crash(location: str, why: str = "") -> FaultReport:
    return FaultReport(FaultKind.HOST_CRASH, "main", Location.parse(location), why=why)


def test_a_report_that_cannot_be_told_takes_no_others_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other reports of the same batch are delivered in order, and the loss of one is reported as well."""

    async def work() -> None:
        local, backlog = LocalNotifier(), Backlog(MachineClock())
        for location, why in (("host1", "one"), ("host2", "\udc80"), ("host3", "three")):
            backlog.report(host_crash(location, why))
        await tell_all(LocalLine(local), backlog, monkeypatch)
        told = [FaultReport.of(each.event) for each in await local.faults().list()]
        assert [str(each.location) for each in told if each.kind is FaultKind.HOST_CRASH] == [
            "host1",
            "host3",
        ]
        (lost,) = (each for each in told if each.kind is FaultKind.REPORTS_LOST)
        assert lost.details["Count"] == 1

    asyncio.run(work())


def test_a_notifier_that_takes_nothing_is_not_told_of_that_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A registered notifier's class may lack the method: its refusals are counted, and nothing else
    happens.
    """

    class Deaf(LocalLine):
        async def ask(self, *_: object, **__: object) -> Any:
            await asyncio.sleep(0)
            raise InvalidRequest("no such method")

    async def work() -> None:
        backlog = Backlog(MachineClock())
        backlog.report(host_crash("host1"))
        await tell_all(Deaf(LocalNotifier()), backlog, monkeypatch)
        assert backlog.dropped == 1

    asyncio.run(work())


def test_what_a_member_says_of_itself_is_told_however_long_it_is() -> None:
    """An exception of ``is_alive`` may quote anything: the report has the beginning of that text."""
    suspicion = Suspicion(GroupId(7), "app:Ledger", Scope.MEMBER, "x" * (2 * TEXT_MAX), waited_ns=5)
    found = reports_of(suspicion, domain="main", location=Location.parse("host1"), host=HostId("host1"))
    assert [each.kind for each in found] == [FaultKind.OBJECT_CRASH, FaultKind.HANG]
    for each in found:
        assert str(each.to_event().remainder_of_body).startswith("xxx")
