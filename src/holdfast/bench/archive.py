"""What it costs to bring a stored object of gigabytes to a new host, while it is fed and called (W7, W8).

Four real hosts; a group of a stored class has members on three. It is filled with documents, then fed at a
steady rate by some callers while others read. The fourth host joins. Compared: the time of calls while it
joins and before, what was fed beside what was asked for, the memory of every process, and what was shipped
beside what had been put at the joining plus what was fed since. In the end the new host leads, and every
document that was acknowledged is read there and compared with what was put.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import uvloop

from holdfast.agent.status_client import ask_agent
from holdfast.bench import Progress, Result, compare, within
from holdfast.bench.measuring.access import StartedDomain, client_of, layout_of
from holdfast.bench.measuring.callers import Callers, quantile
from holdfast.bench.measuring.documents import BODY_BYTES, Feed, differing, name_of
from holdfast.bench.measuring.usage import Window, footprint
from holdfast.bench.objects import Documents
from holdfast.bench.systems.ours import pids_of, started_domain
from holdfast.client.domain import Domain
from holdfast.client.proxy import Group
from holdfast.machine import MachineClock
from holdfast.model.admin.groups import GroupInfo
from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId

HOSTS: Final = 4
NAME: Final = "documents"
FILLING: Final = 8
"""How many callers fill the archive; each document is acknowledged before the next."""
P99_TARGET: Final = 2.0
MEMORY_MB_MAX: Final = 300.0
SENT_TARGET: Final = 1.1
FEED_MB_S: Final = 5.0
AIMED: Final = 1.05
"""So many times what is asked for is fed, so that what is acknowledged is not less for the last documents."""
LEADS_S_MAX: Final = 60.0
BEFORE_S: Final = 10.0
JOIN_S_MAX: Final = 1800.0
LOOK_S: Final = 0.2
NEVER: Final = Window(0, 0)

_clock = MachineClock()


class _Peak:
    """The most memory that each process has had since the domain started."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self.bytes = dict.fromkeys(pids, 0)

    def look(self) -> None:
        for role, pid in self._pids.items():
            try:
                self.bytes[role] = max(self.bytes[role], footprint(pid).resident_bytes)
            except FileNotFoundError:
                raise Unavailable(f"{role} (pid {pid}) ended while it was measured") from None

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        """Look again and again within the context. Raises ``Unavailable`` at its end if a process ended."""

        async def always() -> None:
            while True:
                self.look()
                await asyncio.sleep(LOOK_S)

        task = asyncio.create_task(always())
        try:
            yield
        finally:
            task.cancel()
        self.look()


def run_archive_bench(
    *,
    size: int = 2000,
    feed_mb_s: float = FEED_MB_S,
    callers: int = 8,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Join a fourth host to an archive of *size* megabytes, fed at *feed_mb_s* and read by *callers*."""
    with tempfile.TemporaryDirectory(prefix="holdfast-archive-") as directory:
        return uvloop.run(_measure(Path(directory), size, feed_mb_s, callers, progress))


async def _measure(
    directory: Path, size: int, feed_mb_s: float, callers: int, progress: Progress
) -> dict[str, Any]:
    async with (
        started_domain(directory, hosts=HOSTS) as (description, status),
        client_of(description, status) as domain,
    ):
        group = await domain.create(Documents, name=NAME, replicas=3)
        peak = _Peak(pids_of(status))
        async with peak.looking():
            count = max(size * 1_000_000 // BODY_BYTES, 1)
            progress(f"filling {count} documents of {BODY_BYTES} bytes")
            feeds = [Feed(group, first) for first in range(0, FILLING * count, count)]
            filling = _clock.now()
            await asyncio.gather(*(feed.put(-(-count // FILLING)) for feed in feeds))
            filled_s = (_clock.now() - filling) / 1e9
            placed_on = (await _info(domain)).placed_on
            (new,) = (host.id for host in status.hosts if host.id not in placed_on)
            feeds.append(Feed(group, FILLING * count * 2))
            joining = _Joining(description, domain, group, feeds, feed_mb_s, callers, progress)
            await joining.join(HostId(new), count // FILLING)
            await _lead(group, HostId(new))
            put = [number for each in feeds for number in each.put_numbers]
            progress(f"{new} leads; {len(put)} documents are compared")
            wrong = await differing(group, put)
    failures = [f"{joining.failed} reads failed"] if joining.failed else []
    if wrong:
        failures.append(f"{len(wrong)} of {len(put)} documents are not as they were put: {wrong[:5]}")
    most = max(peak.bytes.values()) / 1e6
    memory = within("memory of the largest process", [most], unit="MB", limit=MEMORY_MB_MAX)
    return {
        "results": [msgspec.to_builtins(each) for each in (*joining.results(), memory)],
        "failures": failures,
        "size_mb": size,
        "filled_mb_s": round(size / filled_s, 2),
        **joining.figures(),
        "memory_mb": {role: round(most / 1e6, 1) for role, most in peak.bytes.items()},
        "documents_compared": len(put),
        "documents_differing": len(wrong),
    }


@dataclass(slots=True)
class _Joining:
    """How a host joins a group that is fed and read, and what was measured of it."""

    started: StartedDomain
    domain: Domain
    group: Group[Documents]
    feeds: Sequence[Feed]
    """All there were; the last one goes on."""
    feed_mb_s: float
    callers: int
    progress: Progress
    file: int = 0
    held: int = 0
    fed: int = 0
    sent: int = 0
    before: Window = NEVER
    during: Window = NEVER
    before_ms: float = 0.0
    during_ms: float = 0.0
    fed_before: int = 0
    failed: int = 0
    load: tuple[float, ...] = ()

    async def join(self, new: HostId, readable: int) -> None:
        """Feed and read for a while, then let *new* join; documents 1 to *readable* are read."""
        sent_before = await _sent(self.started)
        feed, group = self.feeds[-1], self.group

        async def read(random: Random) -> None:
            await group.call(Documents.get, name_of(random.randrange(1, readable + 1)))

        calls = Callers(read)
        async with calls.calling(self.callers):
            feeding = asyncio.create_task(feed.steadily(self.feed_mb_s * AIMED * 1e6))
            try:
                began = _clock.now()
                await asyncio.sleep(BEFORE_S)
                joining, self.fed_before = _clock.now(), feed.bytes
                self.held = sum(each.bytes for each in self.feeds)
                self.file = _file_bytes(self.started, (await _info(self.domain)).primary)
                self.progress(
                    f"{new} joins; {self.held / 1e6:.0f} MB were put, the file has {self.file / 1e6:.0f} MB"
                )
                await group.add_member(new)
                await _until_in_sync(self.domain, new, feeding)
                joined, self.fed = _clock.now(), feed.bytes - self.fed_before
            finally:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
        self.sent = await _sent(self.started) - sent_before
        self.before, self.during = Window(began, joining), Window(joining, joined)
        self.before_ms = quantile(calls.took_ms([self.before]), 0.99)
        self.during_ms = quantile(calls.took_ms([self.during]), 0.99)
        self.failed = calls.failed
        self.load = os.getloadavg()
        self.progress(
            f"{new} is in-sync after {self._seconds:.1f} s; {self.sent / 1e6:.0f} MB were sent, "
            f"{self.fed / 1e6:.0f} MB fed"
        )

    @property
    def _seconds(self) -> float:
        return self.during.length_ns / 1e9

    def results(self) -> tuple[Result, ...]:
        return (
            compare(
                "a read while a host joins, p99",
                [self.during_ms],
                [max(self.before_ms, 1e-3)],
                unit="ms",
                other_name="before",
                target=P99_TARGET,
                is_at_most=True,
            ),
            compare(
                "bytes sent",
                [self.sent / 1e6],
                [(self.held + self.fed) / 1e6],
                unit="MB",
                other_name="what was put until then, and since",
                target=SENT_TARGET,
                is_at_most=True,
            ),
            compare(
                "fed while a host joins",
                [self.fed / 1e6 / self._seconds],
                [self.feed_mb_s],
                unit="MB/s",
                other_name="asked for",
                target=1.0,
            ),
        )

    def figures(self) -> dict[str, Any]:
        return {
            "put_mb": round(self.held / 1e6, 1),
            "file_mb": round(self.file / 1e6, 1),
            "joined_s": round(self._seconds, 1),
            "fed_mb": round(self.fed / 1e6, 1),
            "fed_mb_s": round(self.fed / 1e6 / self._seconds, 2),
            "fed_before_mb_s": round(self.fed_before / 1e6 / (self.before.length_ns / 1e9), 2),
            "sent_mb": round(self.sent / 1e6, 1),
            "p99_before_ms": round(self.before_ms, 2),
            "p99_during_ms": round(self.during_ms, 2),
            "load_average": self.load,
        }


async def _info(domain: Domain) -> GroupInfo:
    return next(each for each in await domain.groups() if each.name == NAME)


async def _until_in_sync(domain: Domain, host: HostId, feeding: "asyncio.Task[None]") -> None:
    deadline = _clock.now() + int(JOIN_S_MAX * 1e9)
    while _clock.now() < deadline:
        if feeding.done():
            feeding.result()
        if host in (await _info(domain)).in_sync:
            return
        await asyncio.sleep(LOOK_S)
    raise Unavailable(f"{host} was not in-sync within {JOIN_S_MAX:g} s")


async def _sent(started: StartedDomain) -> int:
    """What all hosts have shipped so far."""
    status = await ask_agent(layout_of(started), started)
    reports = (host.report for host in status.hosts)
    return sum(each.shipping.sent_bytes for each in reports if each is not None and each.shipping)


def _file_bytes(started: StartedDomain, host: HostId) -> int:
    files = (layout_of(started).host(host) / "databases").glob("*.db")
    return sum(each.stat().st_size for each in files)


async def _lead(group: Group[Documents], host: HostId) -> None:
    """Hand the group over to *host*, so that it answers from its own file."""
    async with asyncio.timeout(LEADS_S_MAX):
        await group.hand_over(host)
