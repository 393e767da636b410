"""What calls and idle groups cost as work grows: members, bytes per call, groups on a host.

Nothing here is compared with a target: each row is the same work, grown, after the row before it. Idle groups
are created on three hosts and then left alone; their cost is what the hosts use beyond what they used without
groups. For some time after thousands of groups were created, their hosts still record how each began, a few
dozen per second. They are idle when that is done.
"""

import asyncio
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
import uvloop

from holdfast.bench import Progress, number
from holdfast.bench.measuring.access import StartedDomain, client_of
from holdfast.bench.measuring.callers import Load, make_groups
from holdfast.bench.measuring.usage import Footprint, cpu_of, footprint
from holdfast.bench.objects import Counter
from holdfast.bench.systems.ours import Holdfast, RunningHoldfast, pids_of, started_domain
from holdfast.model.admin.groups import CreateGroup
from holdfast.model.errors import HoldfastError, OutcomeUnknown, Unavailable
from holdfast.net import Address
from holdfast.node.messages import DomainStatus

MEMBERS: Final = (1, 3, 5)
PAYLOADS: Final = (64, 1 << 10, 64 << 10)
GROUPS: Final = (1, 100, 10_000)
MANY: Final = 1_000
PAYLOAD_IN_FLIGHT: Final = 64
WARM_UP_S: Final = 0.5
SETTLE_S: Final = 300.0
"""The longest time until all members of all groups are in sync."""
REST_S: Final = 0.03
"""The time per group that the hosts may take to become as idle as without groups; then they are measured as
they are."""
IDLE: Final = 1.25
"""Hosts count as idle when they use at most this many times what they used without groups."""
CLASS: Final = f"{Counter.__module__}:{Counter.__qualname__}"


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """Calls to one group."""

    what: str
    members: int
    payload_bytes: int
    one: Load
    many: Load


class IdleRow(msgspec.Struct, frozen=True, kw_only=True):
    """Groups that nobody calls, on three hosts; the values are averages per host."""

    groups: int
    create_s: float = 0.0
    """How long it took to create the groups."""
    rest_s: float = 0.0
    """How long it then took until their hosts had nothing left to do for them."""
    cpu_share: float = 0.0
    """The share of one core used while idle."""
    resident_bytes_per_group: float = 0.0
    descriptors: float = 0.0
    """Open files and sockets, including those that a host has without groups."""
    failure: str = ""
    """Why this many could not be measured; if set, the other fields have no meaning."""


def run_growth_bench(
    *,
    seconds: float = 2.0,
    groups: int = GROUPS[-1],
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Measure calls and idle groups. *seconds*: the time of each load, and of watching idle hosts. *groups*:
    the largest number."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    calls, idle = uvloop.run(_measure(seconds, groups, progress))
    return {
        "results": [],
        "calls": [msgspec.to_builtins(each) for each in calls],
        "idle": [msgspec.to_builtins(each) for each in idle],
    }


async def _measure(seconds: float, groups: int, progress: Progress) -> tuple[list[CallRow], list[IdleRow]]:
    calls = []
    for members in MEMBERS:
        async with _running(members) as running:
            await running.load(in_flight=1, seconds=WARM_UP_S)
            one = await running.load(in_flight=1, seconds=seconds)
            await running.load(in_flight=MANY, seconds=WARM_UP_S)
            many = await running.load(in_flight=MANY, seconds=seconds)
        calls.append(_row(f"members {members}", members, 1, one, many, progress))
    async with _running(3) as running:
        for size in PAYLOADS:
            payload = bytes(size)
            one = await running.load_payload(payload, in_flight=1, seconds=seconds)
            many = await running.load_payload(payload, in_flight=PAYLOAD_IN_FLIGHT, seconds=seconds)
            calls.append(_row(f"payload {size}", 3, size, one, many, progress))
    idle = await measure_idle([each for each in GROUPS if each < groups] + [groups], seconds, progress)
    return calls, idle


def _row(what: str, members: int, size: int, one: Load, many: Load, progress: Progress) -> CallRow:
    progress(f"{what}: {one.rate:,.0f}/s one by one, {many.rate:,.0f}/s with {many.in_flight:,} in flight")
    return CallRow(what=what, members=members, payload_bytes=size, one=one, many=many)


@asynccontextmanager
async def _running(members: int) -> AsyncIterator[RunningHoldfast]:
    with tempfile.TemporaryDirectory(prefix="holdfast-growth-") as directory:
        async with Holdfast(members=members).running(Path(directory)) as running:
            yield running


async def measure_idle(numbers: Sequence[int], seconds: float, progress: Progress) -> list[IdleRow]:
    """Measure what these numbers of groups cost three hosts when nobody calls, in one domain that grows."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="holdfast-growth-") as directory:
        async with started_domain(Path(directory), hosts=3) as (description, status):
            pids = pids_of(status)
            bare = _average([footprint(pid) for pid in pids.values()])
            bare_share = await _cpu_share(pids, seconds)
            made = 0
            for wanted in numbers:
                try:
                    create_s = await _make(description, status, range(made, wanted), progress)
                    made = wanted
                    await _settled(description, status, wanted)
                    rest_s = await _rested(wanted, pids, bare_share, seconds)
                    rows.append(await _idle_row(wanted, create_s, rest_s, pids, bare, seconds))
                except (HoldfastError, OSError, ExceptionGroup) as error:
                    # This many groups are beyond this machine as it is now, which is a result too.
                    rows.append(IdleRow(groups=wanted, failure=_first_of(error)))
                    progress(f"{wanted:,} groups could not be measured: {rows[-1].failure}")
                    break
                progress(f"{wanted:,} groups, idle: {rows[-1].cpu_share:.1%} of a core per host")
    return rows


def _first_of(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def _make(
    description: StartedDomain, status: DomainStatus, numbers: range, progress: Progress
) -> float:
    """Let every host create its share of the groups, of which it is then primary."""
    addresses = [Address.parse(host.address) for host in status.hosts if host.address]
    wanted = (CreateGroup(name=f"idle{each}", class_name=CLASS, nonce=f"bench-{each}") for each in numbers)
    return await make_groups(wanted, description, addresses, progress)


async def _settled(description: StartedDomain, status: DomainStatus, groups: int) -> None:
    """Wait until every member of every group is in sync: before that the groups are not idle."""
    async with client_of(description, status) as domain, asyncio.timeout(SETTLE_S):
        while True:
            with suppress(OutcomeUnknown, Unavailable):  # a host that is busy with them is asked again
                found = await domain.groups()
                if len(found) >= groups and all(len(each.in_sync) == len(each.placed_on) for each in found):
                    break
            await asyncio.sleep(1.0)
    await asyncio.sleep(1.0)  # leave time for the last messages


async def _rested(groups: int, pids: dict[str, int], bare_share: float, seconds: float) -> float:
    """Wait until the hosts use hardly more than they did without groups; return how long that took."""
    began = time.perf_counter()
    until = began + groups * REST_S
    while time.perf_counter() < until and await _cpu_share(pids, seconds) > IDLE * bare_share:
        pass
    return time.perf_counter() - began


async def _cpu_share(pids: dict[str, int], seconds: float) -> float:
    """Return the share of one core that each process uses on average in the next *seconds*."""
    before, began = cpu_of(pids), time.perf_counter()
    await asyncio.sleep(seconds)
    used, elapsed = cpu_of(pids), time.perf_counter() - began
    return sum(used[role] - before[role] for role in pids) / elapsed / len(pids)


async def _idle_row(
    groups: int, create_s: float, rest_s: float, pids: dict[str, int], bare: Footprint, seconds: float
) -> IdleRow:
    cpu_share = await _cpu_share(pids, seconds)
    now = _average([footprint(pid) for pid in pids.values()])
    return IdleRow(
        groups=groups,
        create_s=create_s,
        rest_s=rest_s,
        cpu_share=cpu_share,
        resident_bytes_per_group=(now.resident_bytes - bare.resident_bytes) / groups,
        descriptors=now.descriptors,
    )


def _average(footprints: Sequence[Footprint]) -> Footprint:
    count = len(footprints)
    return Footprint(
        sum(each.resident_bytes for each in footprints) // count,
        sum(each.descriptors for each in footprints) // count,
    )


CALL_COLUMNS: Final = ("", "1 caller", "p50", "p99", "CPU/call", "in flight", "", "p50", "p99", "CPU/call")
IDLE_COLUMNS: Final = (
    *("idle groups", "made in", "idle after", "CPU per host"),
    *("memory per group and host", "descriptors"),
)


def call_row(row: CallRow) -> tuple[str, ...]:
    """Return the row as the table shows it."""
    return (row.what, *_load_cells(row.one), f"{row.many.in_flight:,}", *_load_cells(row.many))


def idle_row(row: IdleRow) -> tuple[str, ...]:
    if row.failure:
        return (f"{row.groups:,}", f"not measured: {row.failure}", "", "", "", "")
    return (
        f"{row.groups:,}",
        f"{number(row.create_s)} s",
        f"{number(row.rest_s)} s",
        f"{row.cpu_share:.1%} of a core",
        f"{number(row.resident_bytes_per_group / 1024)} KiB",
        f"{row.descriptors:g}",
    )


def _load_cells(load: Load) -> tuple[str, ...]:
    cpu_us = load.cpu_s_per_1000 * 1000
    return (
        f"{number(load.rate)}/s",
        f"{number(load.p50_ms)} ms",
        f"{number(load.p99_ms)} ms",
        f"{number(cpu_us)} µs",
    )
