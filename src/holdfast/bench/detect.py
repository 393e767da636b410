"""How soon the other hosts know that a host is dead, beside what the kernel takes to tell its parent.

Each round kills -9 one host of a domain of real processes and reads, from each of the others, when the
agent's word reached it. The kernel's part is measured in the same round: a bare child killed -9, seen through
a pidfd.
"""

import asyncio
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from holdfast.bench import within
from holdfast.machine import MachineClock
from holdfast.model.errors import Unavailable
from holdfast.model.units import MILLISECOND
from holdfast.node.asking import ask_agent, ask_host
from holdfast.node.layout import Description, Layout
from holdfast.node.messages import DomainStatus, HostStatus
from holdfast.node.starting import describe, start_agent, wait_until_alive

TARGET_MS: Final = 20.0
WAIT_S: Final = 120.0
POLL_S: Final = 0.02

_clock = MachineClock()


def run_detect_bench(*, rounds: int = 20, progress: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Kill hosts one after another; times in milliseconds from the kill to the last of the others told."""
    with tempfile.TemporaryDirectory(prefix="holdfast-detect-") as directory:
        layout = Layout(Path(directory) / "domain")
        description = describe(layout, hosts=3, etcd=())
        agent = start_agent(layout, with_parent=True)
        try:
            return asyncio.run(_measure(layout, description, agent, rounds, progress))
        finally:
            agent.terminate()
            agent.wait()


async def _measure(
    layout: Layout,
    description: Description,
    agent: "subprocess.Popen[bytes]",
    rounds: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    await wait_until_alive(layout, description, agent, within_s=WAIT_S, progress=lambda _: None)
    ours, limits = [], []
    for number in range(rounds):
        status = await _wait_until_whole(description)
        victim = status.hosts[number % len(status.hosts)]
        ours.append(await _kill_and_time(description, status, victim))
        limits.append(_bare_death_ms())
        progress(f"kill {number + 1} of {rounds}: {ours[-1]:.1f} ms")
    name = "detect: kill -9, until the last of the other hosts is told"
    return {
        "results": [msgspec.to_builtins(within(name, ours, unit="ms", limit=TARGET_MS))],
        "name": name,
        "rounds": rounds,
        "detection_ms": [round(each, 2) for each in ours],
        "median_ms": round(median(ours), 2),
        "worst_ms": round(max(ours), 2),
        "kernel_median_ms": round(median(limits), 2),
        "ratio": round(median(ours) / median(limits), 2),
        "target_ms": TARGET_MS,
        "met": median(ours) <= TARGET_MS,
    }


async def _wait_until_whole(description: Description) -> DomainStatus:
    """Every host lives and hears the two others."""
    async with asyncio.timeout(WAIT_S):
        while True:
            status = await ask_agent(description)
            reports = [host.report for host in status.hosts if host.alive and host.report]
            if len(reports) == len(status.hosts) and all(
                len(report.peers) == len(status.hosts) - 1 and not any(peer.silent for peer in report.peers)
                for report in reports
            ):
                return status
            await asyncio.sleep(POLL_S)


async def _kill_and_time(description: Description, status: DomainStatus, victim: HostStatus) -> float:
    if victim.pid is None:
        raise Unavailable(f"{victim.id} is not running")
    killed_at = _clock.now()
    os.kill(victim.pid, signal.SIGKILL)
    others = [host for host in status.hosts if host.id != victim.id and host.address]
    told = [await _told_at(str(host.address), description, victim) for host in others]
    return (max(told) - killed_at) / MILLISECOND


async def _told_at(address: str, description: Description, victim: HostStatus) -> int:
    """When the host at *address* was told, by its own word."""
    async with asyncio.timeout(WAIT_S):
        while True:
            for death in (await ask_host(address, description)).deaths:
                if (death.host, death.incarnation) == (victim.id, victim.incarnation):
                    return death.at_ns
            await asyncio.sleep(POLL_S)


def _bare_death_ms() -> float:
    """From kill -9 of a child that does nothing to its parent knowing."""
    with subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=-1
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        pidfd = os.pidfd_open(child.pid)
        killed_at = _clock.now()
        child.kill()
        select.select([pidfd], [], [])
        elapsed = _clock.now() - killed_at
        os.close(pidfd)
    return elapsed / MILLISECOND
