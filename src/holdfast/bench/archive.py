"""What it costs to bring a stored object of gigabytes to a new host, while it is fed and called (W7, W8).

Four real hosts; a group of a stored class has members on three. It is filled with documents, then fed at a
steady rate by some callers while others read. The fourth host joins. Compared: the time of calls while it
joins and before, the memory of every process, and what was shipped beside what had been put at the joining
plus what was fed since.
"""

import asyncio
import tempfile
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import uvloop

from holdfast.agent.status_client import ask_agent
from holdfast.bench import Progress, compare, within
from holdfast.bench.measuring.access import StartedDomain, client_of, layout_of
from holdfast.bench.measuring.callers import Callers, quantile
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
BODY_BYTES: Final = 64 << 10
FILLING: Final = 8
"""How many callers fill the archive; each document is acknowledged before the next."""
FEEDING: Final = 4
"""How many callers feed it afterwards, together at the rate that is asked for."""
P99_TARGET: Final = 2.0
MEMORY_MB_MAX: Final = 300.0
SENT_TARGET: Final = 1.1
FEED_MB_S: Final = 5.0
BEFORE_S: Final = 10.0
JOIN_S_MAX: Final = 1800.0
LOOK_S: Final = 0.2

_clock = MachineClock()


class _Peak:
    """The most memory that each process has had."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self.bytes = dict.fromkeys(pids, 0)

    def look(self) -> None:
        for role, pid in self._pids.items():
            try:
                self.bytes[role] = max(self.bytes[role], footprint(pid).resident_bytes)
            except FileNotFoundError:
                raise Unavailable(f"{role} (pid {pid}) ended while it was measured") from None


class _Feed:
    """Puts documents at a steady rate, and counts what was acknowledged."""

    def __init__(self, group: Group[Documents], first: int) -> None:
        self._group = group
        self._next = first
        self.bytes = 0

    async def put(self, count: int) -> None:
        for _ in range(count):
            self._next += 1
            await self._group.call(Documents.put, f"document {self._next}", _body(self._next))
            self.bytes += BODY_BYTES

    async def steadily(self, bytes_per_s: float) -> None:
        began, begun = _clock.now(), self.bytes

        async def feed() -> None:
            nonlocal begun
            while True:
                due = bytes_per_s * (_clock.now() - began) / 1e9
                if begun < due:
                    begun += BODY_BYTES
                    await self.put(1)
                else:
                    await asyncio.sleep(BODY_BYTES / bytes_per_s / 4)

        await asyncio.gather(*(feed() for _ in range(FEEDING)))


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
        count = max(size * 1_000_000 // BODY_BYTES, 1)
        progress(f"filling {count} documents of {BODY_BYTES} bytes")
        feeds = [_Feed(group, first) for first in range(0, FILLING * count, count)]
        await asyncio.gather(*(feed.put(-(-count // FILLING)) for feed in feeds))
        info = await _info(domain)
        (new,) = (host.id for host in status.hosts if host.id not in info.placed_on)
        sent_before = await _sent(description)

        async def read(random: Random) -> None:
            await group.call(Documents.get, f"document {random.randrange(1, count // FILLING + 1)}")

        calls, feed = Callers(read), _Feed(group, FILLING * count * 2)
        async with calls.calling(callers):
            feeding = asyncio.create_task(feed.steadily(feed_mb_s * 1e6))
            try:
                began = _clock.now()
                await asyncio.sleep(BEFORE_S)
                joining, fed_before = _clock.now(), feed.bytes
                held = sum(each.bytes for each in feeds) + fed_before
                file = _file_bytes(description, info.primary)
                progress(f"{new} joins; {held / 1e6:.0f} MB were put, the file has {file / 1e6:.0f} MB")
                await group.add_member(new)
                await _until_in_sync(domain, HostId(new), peak, feeding)
                joined, fed = _clock.now(), feed.bytes - fed_before
            finally:
                feeding.cancel()
        sent = await _sent(description) - sent_before
        before = quantile(calls.took_ms([Window(began, joining)]), 0.99)
        during = quantile(calls.took_ms([Window(joining, joined)]), 0.99)
        seconds = (joined - joining) / 1e9
        progress(f"{new} is in-sync after {seconds:.1f} s; {sent / 1e6:.0f} MB were sent")
        p99 = compare(
            "a read while a host joins, p99",
            [during],
            [max(before, 1e-3)],
            unit="ms",
            other_name="before",
            target=P99_TARGET,
            is_at_most=True,
        )
        shipped = compare(
            "bytes sent",
            [sent / 1e6],
            [(held + fed) / 1e6],
            unit="MB",
            other_name="what was put until then, and since",
            target=SENT_TARGET,
            is_at_most=True,
        )
        most = max(peak.bytes.values()) / 1e6
        memory = within("memory of the largest process", [most], unit="MB", limit=MEMORY_MB_MAX)
        return {
            "results": [msgspec.to_builtins(each) for each in (p99, shipped, memory)],
            "failures": [f"{calls.failed} reads failed"] if calls.failed else [],
            "size_mb": size,
            "put_mb": round(held / 1e6, 1),
            "file_mb": round(file / 1e6, 1),
            "joined_s": round(seconds, 1),
            "fed_mb": round(fed / 1e6, 1),
            "fed_mb_s": round(fed / 1e6 / seconds, 2),
            "sent_mb": round(sent / 1e6, 1),
            "memory_mb": {role: round(most / 1e6, 1) for role, most in peak.bytes.items()},
            "p99_before_ms": round(before, 2),
            "p99_during_ms": round(during, 2),
        }


async def _info(domain: Domain) -> GroupInfo:
    return next(each for each in await domain.groups() if each.name == NAME)


async def _until_in_sync(domain: Domain, host: HostId, peak: _Peak, feeding: "asyncio.Task[None]") -> None:
    deadline = _clock.now() + int(JOIN_S_MAX * 1e9)
    while _clock.now() < deadline:
        peak.look()
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


def _body(number: int) -> bytes:
    return Random(number).randbytes(BODY_BYTES)
