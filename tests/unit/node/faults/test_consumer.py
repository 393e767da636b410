"""The manager as a consumer of the notifier: it receives everything, even behind many irrelevant events."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
from local_notifier import LocalNotifier

from holdfast.faults import notifier
from holdfast.faults.events import Location
from holdfast.faults.notifier import Notifier
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.faults.told_events import Told
from holdfast.model.ids import GroupId
from holdfast.model.system_groups import MANAGER, NOTIFIER
from holdfast.node.faults import consumer as consumer_module
from holdfast.node.faults.consumer import FaultConsumer


class LocalLine:
    """A connection to a notifier that is a local object; *asked* counts the reads."""

    def __init__(self, local: LocalNotifier) -> None:
        self._local = local
        self.asked = 0

    def __call__(self, *_: object) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def ask(self, method: Callable[..., Any], *arguments: object, returns: Any = None) -> Any:
        self.asked += method is Notifier.read_for
        await asyncio.sleep(0)
        return await self._local.call(method, *arguments)


def hears(on_told: Callable[[Told], None]) -> FaultConsumer:
    """A consumer whose host coordinates, in a domain that has a notifier."""

    async def reference() -> None:
        return None

    groups = SimpleNamespace(
        catalog=SimpleNamespace(find=lambda name: GroupId(1)),
        me=SimpleNamespace(host="host1", incarnation=1),
    )
    notifiers = SimpleNamespace(name=NOTIFIER, reference=reference)
    control = SimpleNamespace(is_coordinator=True)
    return FaultConsumer(
        cast(Any, control), cast(Any, notifiers), cast(Any, groups), cast(Any, None), on_told
    )


def member_of_the_dead(number: int) -> FaultReport:
    location = Location.parse("host2")
    return FaultReport(FaultKind.OBJECT_CRASH, "main", location, "app:Ledger", GroupId(number))


LOOKED_AT = 10
"""How many events the notifier examines per read in these tests."""


def test_what_follows_thousands_of_parts_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host dies with more members than the notifier examines per read: all of them are parts of that death,
    and whole pages hold nothing else. The next fault is received all the same, each event once, and what was
    examined is acknowledged, for the next coordinator."""

    async def work() -> None:
        local = LocalNotifier()
        faults, line = local.faults(), LocalLine(local)
        monkeypatch.setattr(consumer_module, "NotifierLine", line)
        monkeypatch.setattr(consumer_module, "READ_S", 0.0)
        monkeypatch.setattr(notifier, "PAGE_LOOKED_AT_MAX", LOOKED_AT)
        heard: list[Told] = []
        manager = asyncio.create_task(hears(heard.append).work())
        while line.asked < 2:
            await asyncio.sleep(0)
        await faults.push(FaultReport(FaultKind.HOST_CRASH, "main", Location.parse("host2")))
        members = [member_of_the_dead(each).to_event() for each in range(4 * LOOKED_AT)]
        await faults.push_sequence_fault(members)
        await faults.push(FaultReport(FaultKind.OBJECT_CRASH, "main", Location.parse("host3")))
        before = line.asked
        async with asyncio.timeout(60):
            while len(heard) < 2:
                await asyncio.sleep(0)
                assert line.asked - before < 100
        manager.cancel()
        await asyncio.gather(manager, return_exceptions=True)
        assert [each.number for each in heard] == [1, len(members) + 2]
        (consumer,) = await faults.consumers()
        assert consumer.push_consumer == MANAGER
        assert consumer.reached >= len(members)

    asyncio.run(work())
