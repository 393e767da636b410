"""How late hosts' loops turn, and whether healthy hosts are suspected, beside work of theirs (W4, E15).

On three real hosts a group is called at a steady pace. In each round that is all for a while; then, one after
the other, one host has a slow method compute on a thread, a worker process compute, and a worker process keep
its interpreter. By the host's own measure of its loop, one turn in a hundred was so late: that is compared
with the quiet time of its round. Hosts are meant to have a machine each. So meanwhile the processor of the
one that works, and of its workers, is not used by the other hosts and the caller.

Then everything shares all processors. A processor that computes is slower for everybody beside it, whoever
computes, so workers of all hosts are compared with as many processes that are no host's, at the same low
priority. What they cost beyond that is Holdfast's own doing.

A thread that has lost its processor to another host keeps its interpreter, and its own loop waits for both.
So a slow method is also measured where hosts share processors, on one host and, replayed by the backups of a
warm group, on all. That has no target.

No host may be suspected meanwhile: no peer is silent, and no group has another view.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

import msgspec
import uvloop

from holdfast.agent.status_client import ask_host_at
from holdfast.bench import Progress, compare
from holdfast.bench.measuring.access import admin_in, client_of
from holdfast.bench.measuring.processors import set_apart
from holdfast.bench.objects import Counter, Miller
from holdfast.bench.systems.ours import pids_of, started_domain, until_whole
from holdfast.client.admin_client import give
from holdfast.client.domain import Domain
from holdfast.client.proxy import Group
from holdfast.model.admin.hosts import KeepBusy, KeptBusy
from holdfast.net import Address, ConnectionSettings, Role
from holdfast.node.endpoints import expecting
from holdfast.node.heartbeat_thread import LoopPulse

TARGET: Final = 1.2
"""The loop may be so many times as late as without."""
BUSY_S: Final = 5.0
"""How long each method and each job is busy at a time."""
WINDOW_S: Final = LoopPulse.INTERVAL_S * LoopPulse.LATE_KEPT
"""What the host's measure covers: each part is measured for so long."""
PACE_S: Final = 0.01
LEAST_MS: Final = 0.05
"""Below it lateness is not told apart from none: the loop's clock is no finer."""
QUIET: Final = "quiet"
SLOW, SPIN, HOLD = "a slow method", "a worker that spins", "a worker that keeps its interpreter"
STRANGERS, SPIN_ALL = "three strangers that spin", "workers of three hosts that spin"
SHARED_QUIET, SHARED_SLOW = "nothing, on shared processors", "a slow method, on shared processors"
REPLAYED: Final = "a slow method on three hosts"
APART: Final = (QUIET, SLOW, SPIN, HOLD)
"""What is measured on a processor of its own."""
_SPINS: Final = """
import sys, time
from holdfast.machine.process_tuning import lower_priority
from holdfast.machine.worker_process import NICENESS
lower_priority(NICENESS)
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    pass
"""
"""What a worker that spins does, in a process that is no host's. Its session has as low a priority as it."""


@dataclass(slots=True)
class Measured:
    """What was found in all rounds, by what went on beside."""

    late_ms: dict[str, list[float]] = field(default_factory=dict)
    by_host_ms: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    """The same of each host."""
    works_on: str = ""
    """Which host has the work, if one alone has it."""
    suspicions: int = 0
    answered: int = 0

    def of(self, name: str, host: str) -> list[float]:
        """What that host found in each round beside *name*; without a *host*, what the middle one did."""
        if not host:
            return self.late_ms[name]
        return [max(each[host], LEAST_MS) for each in self.by_host_ms[name]]


def run_busy_bench(*, rounds: int = 3, progress: Progress = lambda _: None) -> dict[str, Any]:
    """Measure each kind of work *rounds* times, for twenty seconds each."""
    with tempfile.TemporaryDirectory(prefix="holdfast-busy-") as directory:
        found = uvloop.run(_measure(Path(directory), rounds, progress))
    results = [
        compare(
            f"busy: p99 of the loop's lateness beside {name}",
            found.of(name, host),
            found.of(quiet, host),
            unit="ms",
            other_name="without",
            target=target,
            is_at_most=True,
        )
        for name, quiet, host, target in (
            (SLOW, QUIET, found.works_on, TARGET),
            (SPIN, QUIET, found.works_on, TARGET),
            (HOLD, QUIET, found.works_on, TARGET),
            (SHARED_SLOW, SHARED_QUIET, found.works_on, None),
            (REPLAYED, SHARED_QUIET, "", None),
        )
    ]
    results.append(
        compare(
            f"busy: p99 of the loop's lateness beside {SPIN_ALL}",
            found.late_ms[SPIN_ALL],
            found.late_ms[STRANGERS],
            unit="ms",
            other_name=f"beside {STRANGERS}",
            target=TARGET,
            is_at_most=True,
        )
    )
    failures = [f"{found.suspicions} times a healthy host was suspected"] if found.suspicions else []
    return {
        "results": [msgspec.to_builtins(each) for each in results],
        "failures": failures,
        "rounds": rounds,
        "suspicions": found.suspicions,
        "answered": found.answered,
        "late_ms": found.late_ms,
        "late_by_host_ms": found.by_host_ms,
        "works_on": found.works_on,
        "load_average": os.getloadavg(),
    }


async def _measure(directory: Path, rounds: int, progress: Progress) -> Measured:
    found = Measured()
    async with (
        started_domain(directory, hosts=3) as (description, status),
        client_of(description, status) as domain,
    ):
        hosts = {str(host.id): Address.parse(host.address) for host in status.hosts if host.address}
        addresses = tuple(hosts.values())
        admin = expecting(admin_in(description), Role.HOST)
        counter = await domain.create(Counter, name="beside")
        miller = await domain.create(Miller, name="miller", style="cold_passive")
        millers = await domain.create(Miller, name="millers", style="warm_passive")
        await until_whole(domain, len(hosts))
        found.works_on = next(str(each.primary) for each in await domain.groups() if each.name == "miller")
        works_at = hosts[found.works_on]
        pids = pids_of(status)
        working = pids.pop(found.works_on)
        parts: dict[str, Callable[[], Awaitable[object]]] = {
            QUIET: lambda: asyncio.sleep(BUSY_S),
            SLOW: lambda: miller.call(Miller.grind, BUSY_S),
            SPIN: lambda: _keep_busy([works_at], admin, "spin"),
            HOLD: lambda: _keep_busy([works_at], admin, "hold"),
            SHARED_QUIET: lambda: asyncio.sleep(BUSY_S),
            SHARED_SLOW: lambda: miller.call(Miller.grind, BUSY_S),
            STRANGERS: lambda: _spin_beside(len(addresses)),
            SPIN_ALL: lambda: _keep_busy(addresses, admin, "spin"),
            REPLAYED: lambda: millers.call(Miller.grind, BUSY_S),
        }
        in_turn = [(number, name) for number in range(1, rounds + 1) for name in parts if name != REPLAYED]
        # What backups still have to replay would disturb what follows, so nothing does.
        for number, name in (*in_turn, *((number, REPLAYED) for number in range(1, rounds + 1))):
            work = parts[name]
            with set_apart(working, pids.values()) if name in APART else nullcontext():
                late = await _late_beside(work, domain, counter, addresses, admin, found)
            hosts_ms = dict(zip(hosts, late, strict=True))
            late_ms = max(median(late), LEAST_MS)
            found.late_ms.setdefault(name, []).append(late_ms)
            found.by_host_ms.setdefault(name, []).append(hosts_ms)
            said = ", ".join(f"{host} {each:.2f}" for host, each in hosts_ms.items())
            progress(f"round {number} of {rounds}, {name}: p99 {said} ms")
    return found


async def _late_beside(
    work: Callable[[], Awaitable[object]],
    domain: Domain,
    counter: Group[Counter],
    addresses: Sequence[Address],
    admin: ConnectionSettings,
    found: Measured,
) -> tuple[float, ...]:
    """Have *work* done over and over for as long as hosts measure; what each of them found."""
    epochs = {each.name: each.epoch for each in await domain.groups()}
    until = asyncio.get_running_loop().time() + WINDOW_S

    async def repeat() -> None:
        while asyncio.get_running_loop().time() < until:
            await work()

    repeating = asyncio.ensure_future(repeat())
    while not repeating.done():
        await counter.call(Counter.add, 1)
        found.answered += 1
        await asyncio.sleep(PACE_S)
    await repeating
    reports = [await ask_host_at(each, admin) for each in addresses]
    found.suspicions += sum(peer.silent for report in reports for peer in report.peers)
    found.suspicions += sum(each.epoch != epochs.get(each.name) for each in await domain.groups())
    return tuple(report.loop_late_ms for report in reports)


async def _keep_busy(
    addresses: Sequence[Address], admin: ConnectionSettings, how: Literal["spin", "hold"]
) -> None:
    order = KeepBusy(how=how, seconds=BUSY_S)
    await asyncio.gather(*(give([each], admin, order, KeptBusy) for each in addresses))


async def _spin_beside(count: int) -> None:
    """Let so many processes compute that no host knows of."""
    said = (sys.executable, "-c", _SPINS, str(BUSY_S))
    processes = [await asyncio.create_subprocess_exec(*said) for _ in range(count)]
    try:
        await asyncio.gather(*(each.wait() for each in processes))
    finally:
        for each in processes:
            if each.returncode is None:
                each.kill()
                await each.wait()
