"""Harms a host, and measures when the others knew and when its group served again.

Each round harms the host of the primary of a warm group of three, which is called all the time. Harm and
detection are timed by the processes involved, with clocks of one machine: when the object began to hang, when
a host was told of a death, when the next primary requested its view.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from holdfast.agent.status_client import ask_agent, ask_host
from holdfast.bench import objects
from holdfast.bench.measuring.access import StartedDomain, admin_in, layout_of, url_of
from holdfast.bench.measuring.callers import Callers
from holdfast.bench.objects import Patient
from holdfast.bench.systems.ours import started_domain
from holdfast.client.admin_client import give
from holdfast.client.domain import Domain, connect
from holdfast.client.proxy import Group
from holdfast.machine import MachineClock
from holdfast.model.admin.groups import GroupHistory, GroupInfo, ShowHistory
from holdfast.model.errors import Unavailable
from holdfast.model.ids import MILLISECOND, HostId, Incarnation
from holdfast.net import Address
from holdfast.node.messages import DomainStatus, HostStatus
from holdfast.sequence.config import LeaseConfig

INTERVAL_MS: Final = 500
TIMEOUT_MS: Final = 1_000
"""The timeout of the group's monitoring."""
GRACE_MS: Final = LeaseConfig().grace_ns / MILLISECOND
"""The time after which a silent host's groups may be claimed."""
UNITS_PER_MS: Final = 10_000
"""Units per millisecond in properties that are times."""
NAME: Final = "patient"
MEMBERS: Final = 3
CALLERS: Final = 4
CALL_PAUSE_S: Final = 0.005
"""The pause between two calls of a caller: detection is measured, not load."""
WAIT_S: Final = 120.0
POLL_S: Final = 0.02
MONITORED: Final = {
    "FaultMonitoringIntervalAndTimeout": {
        "monitoring_interval": INTERVAL_MS * UNITS_PER_MS,
        "timeout": TIMEOUT_MS * UNITS_PER_MS,
    }
}

_clock = MachineClock()


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one round since the harm."""

    detected_ms: float
    recovered_ms: float


class Subject:
    """A domain with one group that is whole and called all the time."""

    def __init__(
        self,
        description: StartedDomain,
        orders: Path,
        group: Group[Patient],
        addresses: Sequence[Address],
        info: Callable[[], Awaitable[GroupInfo]],
        calls: Callers,
    ) -> None:
        self.description = description
        self.orders = orders
        self.group = group
        self.info = info
        self._addresses = addresses
        self._calls = calls

    async def whole(self) -> GroupInfo:
        """Return the group once every member is in sync and it has been called for a moment."""
        async with asyncio.timeout(WAIT_S):
            while len((info := await self.info()).in_sync) < MEMBERS:
                await asyncio.sleep(POLL_S)
        await asyncio.sleep(1.0)
        return info

    async def status(self) -> DomainStatus:
        """Return the domain's status once every host lives and hears every other."""
        async with asyncio.timeout(WAIT_S):
            while True:
                status = await ask_agent(layout_of(self.description), self.description)
                reports = [host.report for host in status.hosts if host.alive and host.report]
                if len(reports) == len(status.hosts) and all(
                    len(each.peers) == len(status.hosts) - 1 and not any(peer.silent for peer in each.peers)
                    for each in reports
                ):
                    return status
                await asyncio.sleep(POLL_S)

    async def superseded_ns(self, before: GroupInfo) -> int:
        """Return when the primary after the one in *before* requested its view.

        It is the new primary's own report, on the machine's clock.
        """
        endpoint = admin_in(self.description)
        async with asyncio.timeout(WAIT_S):
            while True:
                told = await give(self._addresses, endpoint, ShowHistory(name=NAME), GroupHistory)
                for view in told.views:
                    if view.epoch > before.epoch and view.primary != before.primary:
                        return view.at_ns - (time.time_ns() - _clock.now())
                await asyncio.sleep(POLL_S)

    async def recovered_ns(self, detected_ns: int) -> int:
        """Return when the first call made after the detection was answered."""
        async with asyncio.timeout(WAIT_S):
            while (answered := self._calls.answered_again_ns(detected_ns)) is None:
                await asyncio.sleep(POLL_S)
            return answered

    async def times(self, harmed_ns: int, detected_ns: int) -> Times:
        recovered_ns = await self.recovered_ns(max(detected_ns, harmed_ns))
        return Times((detected_ns - harmed_ns) / MILLISECOND, (recovered_ns - harmed_ns) / MILLISECOND)


@asynccontextmanager
async def subject(directory: Path) -> AsyncIterator[Subject]:
    """Start a domain of three hosts with an agent, and its group."""
    async with started_domain(directory, hosts=MEMBERS) as (description, status):
        addresses = [Address.parse(str(host.address)) for host in status.hosts]
        async with connected(url_of(description, status), description, addresses, directory) as made:
            yield made


@asynccontextmanager
async def connected(
    url: str, description: StartedDomain, addresses: Sequence[Address], directory: Path
) -> AsyncIterator[Subject]:
    """Create the group in the domain at *url*, and yield it once it is whole and being called."""
    orders = directory / "orders"
    orders.mkdir()
    async with connect(url, dir=layout_of(description).directory) as domain:
        group = await insist_on(domain, NAME, orders)

        async def call(random: Random) -> None:
            await group.call(Patient.add, 1)
            await asyncio.sleep(CALL_PAUSE_S)

        async def info() -> GroupInfo:
            (found,) = [each for each in await domain.groups() if each.name == NAME]
            return found

        calls = Callers(call)
        async with calls.calling(CALLERS):
            made = Subject(description, orders, group, addresses, info, calls)
            await made.whole()
            yield made


async def insist_on(domain: Domain, name: str, orders: Path) -> Group[Any]:
    """Create a group of patients, repeating the request: hosts may still be finding each other."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return await domain.create(
                    Patient, name=name, replicas=MEMBERS, args=[str(orders)], properties=MONITORED
                )
            except Unavailable:
                await asyncio.sleep(POLL_S)


# --- ways to harm a host


async def kill(made: Subject) -> Times:
    """Kill -9 a host; detection is when the last of the others was told."""
    victim, status, _ = await _victim(made)
    harmed_ns = _clock.now()
    os.kill(_pid(victim), signal.SIGKILL)
    return await made.times(harmed_ns, await _told_ns(made, status, victim))


async def stop(made: Subject) -> Times:
    """SIGSTOP a host; detection is when another member claims."""
    victim, _, before = await _victim(made)
    harmed_ns = _clock.now()
    os.kill(_pid(victim), signal.SIGSTOP)
    try:
        return await made.times(harmed_ns, await made.superseded_ns(before))
    finally:
        os.kill(_pid(victim), signal.SIGCONT)


async def say_no(made: Subject) -> Times:
    """Let ``is_alive`` return false; detection is when the member that the group was handed to claims it."""
    victim, _, before = await _victim(made)
    harmed_ns = _clock.now()
    objects.harm(made.orders, _pid(victim), objects.SAYS_NO)
    return await made.times(harmed_ns, await made.superseded_ns(before))


async def block(made: Subject) -> Times:
    """Let ``is_alive`` never return; detection is when the others are told that its host has ended itself."""
    return await _stand(made, objects.BLOCKS)


async def stand(made: Subject) -> Times:
    """Let a method never return and so block the event loop.

    Detection is when the others are told that the host has ended itself.
    """
    return await _stand(made, objects.STANDS)


async def _stand(made: Subject, how: str) -> Times:
    victim, status, _ = await _victim(made)
    pid = _pid(victim)
    objects.harm(made.orders, pid, how)
    async with asyncio.timeout(WAIT_S):
        while (harmed_ns := objects.hung_since_ns(made.orders, pid)) is None:
            await asyncio.sleep(POLL_S)
    return await made.times(harmed_ns, await _told_ns(made, status, victim))


async def _victim(made: Subject) -> tuple[HostStatus, DomainStatus, GroupInfo]:
    """Return the host of the primary, once everything is well."""
    status = await made.status()
    before = await made.whole()
    victim = next(host for host in status.hosts if host.id == before.primary)
    return victim, status, before


def _pid(victim: HostStatus) -> int:
    if victim.pid is None:
        raise Unavailable(f"{victim.id} is not running")
    return victim.pid


async def _told_ns(made: Subject, status: DomainStatus, victim: HostStatus) -> int:
    """Return when the last of the other hosts was told of the death, as it reports."""
    others = [host for host in status.hosts if host.id != victim.id and host.address]
    incarnation = victim.incarnation or Incarnation(0)
    return max([await _heard_ns(made, str(host.address), victim.id, incarnation) for host in others])


async def _heard_ns(made: Subject, address: str, victim: HostId, incarnation: Incarnation) -> int:
    async with asyncio.timeout(WAIT_S):
        while True:
            for death in (await ask_host(address, layout_of(made.description), made.description)).deaths:
                if (death.host, death.incarnation) == (victim, incarnation):
                    return death.at_ns
            await asyncio.sleep(POLL_S)
