"""The manager as a consumer of the fault notifier (FTC-229, FTC-313, T6).

Registered under one name, by whichever host coordinates, as soon as the domain has a notifier: the next
coordinator goes on after what the last one acknowledged. What the hosts' own detectors find, groups have
answered before the manager hears of it; what an application's detector reports, nobody else acts on.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

import structlog

from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.notifier_group import NotifierGroups, NotifierLine
from holdfast.faults.consumers import Consumer
from holdfast.faults.notifier import Notifier
from holdfast.faults.told_events import Page, Told
from holdfast.groups.host_groups import HostGroups
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId, Incarnation
from holdfast.model.system_groups import MANAGER, NOTIFIER
from holdfast.net import ConnectionSettings

READ_S: Final = 1.0
"""Between two questions, when there was nothing new: one of a whole domain asks."""
BATCH: Final = 100

log = structlog.get_logger("holdfast.manager")


class FaultConsumer:
    """Of one host; idle unless that one coordinates. *on_told* is called with every event, in order, and now
    and then with one that was heard before."""

    def __init__(
        self,
        control: ControlPlane,
        notifying: NotifierGroups,
        groups: HostGroups,
        endpoint: ConnectionSettings,
        on_told: Callable[[Told], None],
    ) -> None:
        self._control = control
        self._notifying = notifying
        self._groups = groups
        self._endpoint = endpoint
        self._on_told = on_told
        self._lines = itertools.count(1)

    async def work(self) -> None:
        """Hear until cancelled. Whatever goes wrong here ends no host, and is tried again."""
        while True:
            try:
                if self._is_due():
                    await self._hear()
            except HoldfastError as error:
                log.warning("the manager hears of no faults now", why=str(error))
            except Exception:
                # The next coordinator would meet the same, and end as well.
                log.exception("the manager hears of no faults now")
            await asyncio.sleep(READ_S)

    def _is_due(self) -> bool:
        """Whether this host coordinates, and there is somebody to hear. Of a notifier that somebody else
        registered nothing is known but that it takes reports."""
        is_there = self._groups.directory.find(NOTIFIER) is not None
        return self._control.is_coordinator and self._notifying.name == NOTIFIER and is_there

    async def _hear(self) -> None:
        me = self._groups.me
        name = _line_name(me.host, me.incarnation, next(self._lines))
        async with NotifierLine(
            await self._notifying.reference(), self._groups, self._endpoint, name
        ) as line:
            await self._read_on(line, await self._registered(line))

    async def _read_on(self, line: NotifierLine, id: int) -> None:
        """After the number it has: a page may hold nothing for the manager, as when a host with thousands of
        members crashed and each of them is a part of that, and there is more behind it."""
        after: int | None = None
        while self._is_due():
            page: Page = await line.ask(Notifier.read_for, id, after, BATCH, returns=Page)
            for told in page.events:
                self._on_told(told)
            if page.reached != after:
                missed = 0 if page.gap is None else page.gap.count
                await line.ask(Notifier.acknowledge, id, page.reached, missed)
            after = page.reached
            if page.reached == page.newest:
                await asyncio.sleep(READ_S)

    async def _registered(self, line: NotifierLine) -> int:
        """The manager's number among the consumers; there is one, whoever coordinates."""
        known: tuple[Consumer, ...] = await line.ask(Notifier.consumers, returns=tuple[Consumer, ...])
        for each in known:
            if each.push_consumer == MANAGER:
                return each.id
        made: int = await line.ask(Notifier.connect_structured_fault_consumer, MANAGER)
        log.info("the manager is registered with the fault notifier", consumer=made)
        return made


def _line_name(host: HostId, incarnation: Incarnation, number: int) -> str:
    """One per line: each counts its requests from 1."""
    return f"{host}:{incarnation}:manager-{number}"
