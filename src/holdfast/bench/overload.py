"""False suspicions: a healthy domain on a machine that has twice as much work as it can do.

A domain of three hosts has groups that are monitored and called. Next to it run twice as many processes as
there are processors, each of which takes all the CPU time it gets. Nothing is faulty, so every new view
without a requested handover is a false suspicion, and every change of a primary a wrong failover.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec import Struct

from holdfast.agent.status_client import ask_agent
from holdfast.authority.views import Why
from holdfast.bench import Progress
from holdfast.bench.measuring.access import StartedDomain, admin_in, client_of, layout_of
from holdfast.bench.measuring.callers import Callers
from holdfast.bench.measuring.harm import MEMBERS, POLL_S, WAIT_S, insist_on
from holdfast.bench.objects import Patient
from holdfast.bench.systems.ours import started_domain
from holdfast.client.admin_client import give
from holdfast.client.domain import Domain
from holdfast.client.proxy import Group
from holdfast.model.admin.groups import GroupHistory, GroupInfo, ShowHistory, ViewInfo
from holdfast.net import Address

GROUPS: Final = 9
HOGS_PER_CPU: Final = 2
CALLS_PAUSE_S: Final = 0.05
"""The pause between two calls of a caller; there is one caller for each group."""
LOOK_S: Final = 2.0
"""Histories keep only the latest views, so they are read this often."""
TOLD_EVERY_S: Final = 30.0
_HOG: Final = "import time\nuntil = time.monotonic() + {}\nwhile time.monotonic() < until: pass"


class Overload(Struct, frozen=True, kw_only=True):
    """What was seen in that many seconds of overload."""

    seconds: float
    hogs: int
    calls: int
    suspicions: int
    """Hosts that were dropped, whose groups were claimed, or that ended themselves."""
    wrong_failovers: int
    """Groups that got another primary."""
    restarts: int
    causes: tuple[str, ...]

    @property
    def suspicions_per_hour(self) -> float:
        return self.suspicions * 3600 / self.seconds


async def measure_overload(directory: Path, seconds: float, progress: Progress) -> Overload:
    """Overload the machine for that many seconds."""
    async with _domain(directory) as (description, domain, addresses):
        groups = [await insist_on(domain, f"healthy{number}", directory) for number in range(GROUPS)]
        before = await _whole(domain)
        restarts = await _restarts(description)
        callers = [Callers(_calling(group)) for group in groups]
        known: Known = {name: {} for name in before}
        with _hogs(seconds) as hogs:
            began = time.monotonic()
            async with _all_calling(callers):
                await _watch(before, known, addresses, description, began + seconds, progress)
            elapsed = time.monotonic() - began
        restarted = await _restarts(description) - restarts
    views = [(name, view) for name, seen in known.items() for view in seen.values()]
    causes = [f"{name}: {view.why} {view.host} {view.text}".rstrip() for name, view in views]
    suspicions = sum(view.why != Why.ADDED.value for _, view in views) + restarted
    return Overload(
        seconds=round(elapsed, 1),
        hogs=hogs,
        calls=sum(map(len, callers)),
        suspicions=suspicions,
        wrong_failovers=_failovers(before, known),
        restarts=restarted,
        causes=tuple(causes),
    )


Known = Mapping[str, dict[int, ViewInfo]]
"""The views since the beginning, by group and epoch."""


def _failovers(before: Mapping[str, GroupInfo], known: Known) -> int:
    """Return how often a group got another primary."""
    count = 0
    for name, seen in known.items():
        primaries = [before[name].primary, *(view.primary for _, view in sorted(seen.items()))]
        count += sum(earlier != later for earlier, later in pairwise(primaries))
    return count


async def _watch(
    before: Mapping[str, GroupInfo],
    known: Known,
    addresses: Sequence[Address],
    description: StartedDomain,
    until: float,
    progress: Progress,
) -> None:
    endpoint = admin_in(description)
    told_at = time.monotonic()
    while (now := time.monotonic()) < until:
        await asyncio.sleep(min(LOOK_S, until - now))
        for name, start in before.items():
            told = await give(addresses, endpoint, ShowHistory(name=name), GroupHistory)
            known[name].update({view.epoch: view for view in told.views if view.epoch > start.epoch})
        if time.monotonic() - told_at >= TOLD_EVERY_S:
            told_at = time.monotonic()
            seen = sum(map(len, known.values()))
            progress(f"overload: {max(until - told_at, 0):.0f} s to go, {seen} views changed so far")


@contextmanager
def _hogs(seconds: float) -> Iterator[int]:
    """Run processes that use all CPU time.

    Each has its own session, as hosts do: schedulers share by sessions.
    """
    count = HOGS_PER_CPU * (os.cpu_count() or 1)
    program = [sys.executable, "-c", _HOG.format(seconds + WAIT_S)]
    hogs = [subprocess.Popen(program, start_new_session=True) for _ in range(count)]
    try:
        yield count
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


@asynccontextmanager
async def _domain(directory: Path) -> AsyncIterator[tuple[StartedDomain, Domain, list[Address]]]:
    async with started_domain(directory, hosts=MEMBERS) as (description, status):
        addresses = [Address.parse(str(host.address)) for host in status.hosts]
        async with client_of(description, status) as domain:
            yield description, domain, addresses


@asynccontextmanager
async def _all_calling(callers: Sequence[Callers]) -> AsyncIterator[None]:
    if not callers:
        yield
        return
    async with callers[0].calling(1), _all_calling(callers[1:]):
        yield


def _calling(group: Group[Any]) -> Any:
    async def call(random: Random) -> None:
        await group.call(Patient.add, 1)
        await asyncio.sleep(CALLS_PAUSE_S)

    return call


async def _whole(domain: Domain) -> dict[str, GroupInfo]:
    async with asyncio.timeout(WAIT_S):
        while True:
            groups = await domain.groups()
            if len(groups) >= GROUPS and all(len(each.in_sync) == MEMBERS for each in groups):
                return {each.name: each for each in groups}
            await asyncio.sleep(POLL_S)


async def _restarts(description: StartedDomain) -> int:
    return sum(host.restarts for host in (await ask_agent(layout_of(description), description)).hosts)
