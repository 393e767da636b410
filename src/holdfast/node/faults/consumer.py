"""The replication manager as a consumer of the fault notifier (FTC-229, FTC-313, T6).

Whichever host coordinates registers it, always under the same name, as soon as the domain has a notifier.
So a new coordinator continues after the last event that its predecessor acknowledged. The groups have
already reacted to what the hosts' own detectors find by the time the manager hears of it; but nobody else
acts on what an application's detector reports.
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
"""The pause after a read that returned nothing new. Only one host of a domain reads."""
BATCH: Final = 100

log = structlog.get_logger("holdfast.manager")


class FaultConsumer:
    """Reads fault events on the coordinating host; idle on every other host.

    *on_told* is called with every event, in order. It may occasionally see an event twice.
    """

    def __init__(
        self,
        control: ControlPlane,
        notifiers: NotifierGroups,
        groups: HostGroups,
        endpoint: ConnectionSettings,
        on_told: Callable[[Told], None],
    ) -> None:
        self._control = control
        self._notifiers = notifiers
        self._groups = groups
        self._endpoint = endpoint
        self._on_told = on_told
        self._lines = itertools.count(1)

    async def work(self) -> None:
        """Read events until cancelled. No failure here ends the host; each is logged and retried."""
        while True:
            try:
                if self._is_due():
                    await self._hear()
            except HoldfastError as error:
                log.warning("the manager hears of no faults now", why=str(error))
            except Exception:
                # If this ended the host, the next coordinator would meet the same error and end as well.
                log.exception("the manager hears of no faults now")
            await asyncio.sleep(READ_S)

    def _is_due(self) -> bool:
        """Whether this host coordinates and Holdfast's own notifier group exists.

        Of a notifier that somebody else registered, nothing is known except that it takes reports.
        """
        is_there = self._groups.catalog.find(NOTIFIER) is not None
        return self._control.is_coordinator and self._notifiers.name == NOTIFIER and is_there

    async def _hear(self) -> None:
        me = self._groups.me
        name = _line_name(me.host, me.incarnation, next(self._lines))
        async with NotifierLine(
            await self._notifiers.reference(), self._groups, self._endpoint, name
        ) as line:
            await self._read_on(line, await self._registered(line))

    async def _read_on(self, line: NotifierLine, id: int) -> None:
        """Read and acknowledge pages of events, each starting after the position that the last one reached.

        A page may hold no event for the manager and still have more behind it: for example, when a host
        with thousands of members crashes, each member's event is filtered out as part of that crash.
        """
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
        """The manager's id among the notifier's consumers, registered if necessary; all coordinators share
        it."""
        known: tuple[Consumer, ...] = await line.ask(Notifier.consumers, returns=tuple[Consumer, ...])
        for each in known:
            if each.push_consumer == MANAGER:
                return each.id
        made: int = await line.ask(Notifier.connect_structured_fault_consumer, MANAGER)
        log.info("the manager is registered with the fault notifier", consumer=made)
        return made


def _line_name(host: HostId, incarnation: Incarnation, number: int) -> str:
    """A distinct client name for each connection, since each counts its requests from 1."""
    return f"{host}:{incarnation}:manager-{number}"
