"""Delivers a host's fault reports from its backlog to the notifier, in the background.

Nothing waits for the delivery. If the notifier does not accept a report, the shipper retries at growing
intervals. Reports that did not fit into the backlog meanwhile are counted, and the count is reported once
the notifier answers again.
"""

import asyncio
import itertools
from typing import Final

import structlog

from holdfast.admin.notifier_group import NotifierGroups, NotifierLine
from holdfast.faults.backlog import Backlog, Filed
from holdfast.faults.events import Location, Simple
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.groups.host_groups import HostGroups
from holdfast.model.errors import HoldfastError, InvalidRequest, NoSuchGroup
from holdfast.model.ids import SECOND, HostId
from holdfast.model.outcome import MethodRaised
from holdfast.net import ConnectionSettings

BATCH: Final = 50
"""Reports per call: the other groups on the notifier's host wait while it processes them."""
RETRY_S: Final = 0.5
RETRY_S_MAX: Final = 10.0

log = structlog.get_logger("holdfast.faults")


class FaultShipper:
    """Empties the backlog of one host."""

    def __init__(
        self,
        host: HostId,
        backlog: Backlog,
        notifiers: NotifierGroups,
        groups: HostGroups,
        endpoint: ConnectionSettings,
    ) -> None:
        self._host = host
        self._backlog = backlog
        self._notifiers = notifiers
        self._groups = groups
        self._endpoint = endpoint
        self._filed = asyncio.Event()
        self._lines = itertools.count(1)
        self._lost_told = 0
        backlog.on_filed = self._filed.set

    async def work(self) -> None:
        """Deliver reports as they become due, until cancelled. No failure here ends the host."""
        retry_s = RETRY_S
        while True:
            await self._wait_until_due()
            try:
                await self._tell()
                retry_s = RETRY_S
                continue
            except HoldfastError as error:
                log.warning("faults cannot be reported now", reports=len(self._backlog), why=str(error))
            except Exception:
                log.exception("faults cannot be reported now", reports=len(self._backlog))
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_S_MAX)

    async def _wait_until_due(self) -> None:
        while True:
            self._filed.clear()
            due_in_ns = self._backlog.due_in_ns()
            if due_in_ns == 0:
                return
            try:
                async with asyncio.timeout(None if due_in_ns is None else due_in_ns / SECOND):
                    await self._filed.wait()
            except TimeoutError:
                return

    async def _tell(self) -> None:
        reference = await self._notifiers.reference()
        # A distinct name for each connection, since each counts its requests from 1.
        name = f"{self._backlog.name}:faults-{next(self._lines)}"
        async with NotifierLine(reference, self._groups, self._endpoint, name) as line:
            while due := self._backlog.due(BATCH):
                await self._push(line, due)
                self._tell_of_lost()

    async def _push(self, line: NotifierLine, due: tuple[Filed, ...]) -> None:
        try:
            await line.push(due)
        except NoSuchGroup:
            raise  # the notifier was removed; another will be created
        except (InvalidRequest, MethodRaised) as error:
            if len(due) > 1:
                for each in due:  # one of them is to blame
                    await self._push(line, (each,))
                return
            # Retrying would change nothing, and the reports behind it would never be delivered.
            log.error("a report of a fault is refused", kind=due[0].report.kind.value, why=str(error))
            if due[0].report.kind is FaultKind.REPORTS_LOST:
                self._backlog.forget(due)  # reporting this loss as well would never end
            else:
                self._backlog.drop(due)
        else:
            self._backlog.forget(due)

    def _tell_of_lost(self) -> None:
        """Report how many reports were dropped since this was last reported."""
        lost, self._lost_told = self._backlog.dropped - self._lost_told, self._backlog.dropped
        if lost:
            details: dict[str, Simple] = {"HostId": self._host, "Count": lost}
            location = Location.parse(self._host, "hostname")
            domain = self._endpoint.identity.domain
            self._backlog.report(FaultReport(FaultKind.REPORTS_LOST, domain, location, details=details))
