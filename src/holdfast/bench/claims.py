"""How soon the last of many groups serves again after the primary of all of them is killed (K4).

A new domain of three real hosts hosts the groups, and one host is primary of each. That host is killed -9 and
every group is called at once: the time counts from the kill to each group's next acknowledged call. The time
of the first group is shown next to that of the last: it is what one group needs.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from holdfast.agent.status_client import ask_agent
from holdfast.bench import within
from holdfast.bench.measuring.access import StartedDomain, client_of, layout_of
from holdfast.bench.measuring.callers import CLASS, make_groups
from holdfast.bench.systems.ours import started_domain
from holdfast.calling.config import CallPolicy
from holdfast.client.domain import Domain
from holdfast.client.proxy import Group
from holdfast.machine import MachineClock
from holdfast.model.admin.groups import CreateGroup
from holdfast.model.errors import Unavailable
from holdfast.model.ids import MILLISECOND, SECOND, HostId
from holdfast.net import Address
from holdfast.node.messages import DomainStatus

SQLITE_LIMIT_MS: Final = 1_500.0
ETCD_LIMIT_MS: Final = 3_000.0
WAIT_S: Final = 120.0
POLL_S: Final = 0.2

_clock = MachineClock()


def run_claims_bench(
    *,
    rounds: int = 3,
    groups: int = 1_000,
    etcd: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Kill the primary of all groups, in *rounds* domains; times are in milliseconds from each kill."""
    return asyncio.run(measure_claims(rounds, groups, etcd, progress))


async def measure_claims(
    rounds: int, groups: int, etcd: Sequence[str], progress: Callable[[str], None]
) -> dict[str, Any]:
    """Does the work of :func:`run_claims_bench`."""
    last, first = [], []
    for number in range(rounds):
        times = await _round(groups, etcd, progress)
        last.append(max(times))
        first.append(min(times))
        progress(f"kill {number + 1} of {rounds}: first {first[-1]:.0f} ms, last {last[-1]:.0f} ms")
    kind, limit = ("etcd", ETCD_LIMIT_MS) if etcd else ("sqlite", SQLITE_LIMIT_MS)
    name = f"claims: kill -9 of the primary of {groups:,} groups ({kind}), until the last is called"
    return {
        "results": [msgspec.to_builtins(within(name, last, unit="ms", limit=limit))],
        "name": name,
        "groups": groups,
        "rounds": rounds,
        "last_ms": [round(each, 1) for each in last],
        "first_ms": [round(each, 1) for each in first],
        "median_ms": round(median(last), 1),
        "limit_ms": limit,
        "met": median(last) <= limit,
    }


async def _round(count: int, etcd: Sequence[str], progress: Callable[[str], None]) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="holdfast-claims-") as directory:
        async with started_domain(Path(directory), hosts=3, etcd=etcd) as (description, status):
            return await _measure(description, status, count, progress)


async def _measure(
    description: StartedDomain, status: DomainStatus, count: int, progress: Callable[[str], None]
) -> list[float]:
    addresses = [Address.parse(host.address) for host in status.hosts if host.address]
    # One host creates all of them, so it is primary of each.
    await make_groups(map(_wanted, range(count)), description, addresses[:1], progress)
    async with client_of(description, status, policy=CallPolicy(duration_ns=60 * SECOND)) as domain:
        proxies = [await domain.group(_name(number)) for number in range(count)]
        return await _kill_and_call(description, await _wait_until_settled(domain, description), proxies)


def _name(number: int) -> str:
    return f"tally-{number}"


def _wanted(number: int) -> CreateGroup:
    return CreateGroup(name=_name(number), class_name=CLASS, nonce=f"bench-{number}")


async def _wait_until_settled(domain: Domain, description: StartedDomain) -> HostId:
    """Wait until every host lives and every member of every group is in sync.

    Return the primary of all groups.
    """
    async with asyncio.timeout(WAIT_S):
        while True:
            await asyncio.sleep(POLL_S)
            status = await ask_agent(layout_of(description), description)
            found = await domain.groups()
            primaries = {each.primary for each in found}
            is_whole = all(len(each.in_sync) == len(status.hosts) for each in found)
            if is_whole and len(primaries) == 1 and all(host.alive for host in status.hosts):
                return primaries.pop()


async def _kill_and_call(
    description: StartedDomain, victim: HostId, proxies: Sequence[Group[Any]]
) -> list[float]:
    """Return how long after the kill each group's next call was acknowledged."""
    status = await ask_agent(layout_of(description), description)
    (pid,) = (host.pid for host in status.hosts if host.id == victim)
    if pid is None:
        raise Unavailable(f"{victim} is not running")
    killed_at = _clock.now()
    os.kill(pid, signal.SIGKILL)

    async def call(proxy: Group[Any]) -> float:
        await proxy.call("add")
        return (_clock.now() - killed_at) / MILLISECOND

    return list(await asyncio.gather(*(call(proxy) for proxy in proxies)))
