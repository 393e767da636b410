"""Groups whose hosts' disks lose power, fill up and fail: the member stops with a reason, the group serves
on."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from domain import Domain, is_whole
from faults.disk import FaultyDisk
from faults.machine import require_fuse
from faults.preload import CallFaults, environment
from group_client import EXAMPLES, Client, run
from workload import Workload, check_members

from holdfast.client.proxy import Group
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId
from holdfast.node.host_config import FILE_BYTES

pytestmark = pytest.mark.cluster

HOSTS = ("host1", "host2", "host3")
FIRST_PRIMARY, BACKUP = "host1", "host2"
"""A group's first primary is the host that was asked to create it: the first one."""


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[dict[str, FaultyDisk]]:
    """One disk for each host. Where a disk has no power, its host has no directory either."""
    require_fuse()
    (tmp_path / "d" / "hosts").mkdir(parents=True)
    with ExitStack() as stack:
        found = {}
        for number, host in enumerate(HOSTS):
            found[host] = stack.enter_context(FaultyDisk(tmp_path / f"disk-{host}", seed=number))
            (found[host].path / "host").mkdir()
            (tmp_path / "d" / "hosts" / host).symlink_to(found[host].path / "host")
        yield found


@pytest.fixture
def domain(tmp_path: Path, disks: dict[str, FaultyDisk]) -> Iterator[Domain]:
    with Domain(tmp_path / "d", "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def end(pid: int) -> None:
    """Kill -9 the host, unless its disk has ended it already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def test_power_cuts_under_load_lose_nothing(
    domain: Domain, disks: dict[str, FaultyDisk], rounds: Callable[..., int]
) -> None:
    """First one host after the other, then all at once: the process dies, and its disk keeps what was synced
    and a random part of what was not."""

    async def cut(client: Client, hosts: tuple[str, ...]) -> None:
        pids = [await client.pid(HostId(host)) for host in hosts]
        for host in hosts:
            await asyncio.to_thread(disks[host].power_off)
        for pid in pids:
            end(pid)
        for host in hosts:
            await asyncio.to_thread(disks[host].power_on, torn=True)

    async def work(client: Client) -> None:
        async with Workload(await client.create("power")) as calls:
            for number in range(rounds(short=4, long=80)):
                await calls.more(100)
                await cut(client, HOSTS if number % 4 == 3 else (HOSTS[number % 4],))
            await calls.more(100)
        assert not calls.unknown + calls.refused
        await check_members(client, {"power": calls})

    run(domain, work)


def test_a_full_disk_stops_its_host_loudly_and_the_group_serves_on(
    domain: Domain, disks: dict[str, FaultyDisk]
) -> None:
    """D1: first a backup's, then the primary's. Once there is room again, the host comes back by itself."""

    async def work(client: Client) -> None:
        ledger = await client.create("full")
        async with Workload(ledger) as calls:
            for is_primary in (False, True):
                found = await client.wait_in_sync("full")
                victim = next(host for host in found.in_sync if (host == found.primary) is is_primary)
                await asyncio.to_thread(disks[victim].fill_up)
                await fill_log(ledger)
                await calls.more(50)
                await says_why(client, victim, "No space left on device")
                await calls.more(50)
                await asyncio.to_thread(disks[victim].free_up)
        assert not calls.unknown + calls.refused
        await check_members(client, {"full": calls})

    run(domain, work)


async def fill_log(ledger: Group[Any]) -> None:
    """Make calls that change nothing and take more of the log than the prepared files hold, so that it needs
    room."""
    wide = "x" * (FILE_BYTES // 32)
    for _ in range(3 * 32):
        with pytest.raises(HoldfastError, match="a deposit of -1"):
            await ledger.deposit(wide, -1)


def test_disks_full_of_the_hosts_own_logs_are_freed_by_the_hosts(
    domain: Domain, disks: dict[str, FaultyDisk]
) -> None:
    """D5: a group that is hardly ever called keeps the log of one that is called much. Nobody makes room."""

    async def work(client: Client) -> None:
        quiet, busy = await client.create("quiet"), await client.create("busy")
        await quiet.deposit("alice", 5)
        await fill_log(busy)
        began = await pids(domain)
        assert min(log_bytes(disk) for disk in disks.values()) >= 4 * FILE_BYTES
        for disk in disks.values():
            await asyncio.to_thread(disk.fill_up, free_bytes=LEFT_BYTES)
        async with asyncio.timeout(FREED_S):
            while max(log_bytes(disk) for disk in disks.values()) > 3 * FILE_BYTES:
                await asyncio.sleep(0.2)
            assert await busy.deposit("bob", 7) == 7
            assert await quiet.deposit("alice", 1) == 6
        assert await pids(domain) == began, "no host has ended"

    run(domain, work)


LEFT_BYTES = 2 << 20
"""Less than a twentieth of a disk that holds four files of the log and so much more."""
FREED_S = 60.0


async def pids(domain: Domain) -> dict[str, int]:
    return {each["id"]: each["pid"] for each in (await asyncio.to_thread(domain.status))["hosts"]}


def log_bytes(disk: FaultyDisk) -> int:
    return sum(file.stat().st_size for file in disk.path.rglob("log-*"))


def test_a_failed_sync_stops_its_host_loudly_and_the_group_serves_on(
    tmp_path: Path, failing_calls: Path, monkeypatch: pytest.MonkeyPatch, rounds: Callable[..., int]
) -> None:
    """D1: a failed sync is never retried. The restarted host fails again each time it has synced as often;
    the others continue. On a good disk it has everything again."""

    async def fail(client: Client) -> Workload:
        async with Workload(await client.create("failing")) as calls:
            await says_why(client, victim, "Input/output error")
            await calls.more(300)
        assert not calls.unknown + calls.refused
        return calls

    for victim in [FIRST_PRIMARY, BACKUP][: rounds(short=1, long=2)]:
        directory = tmp_path / victim
        faults = environment(failing_calls, directory / "hosts" / victim, CallFaults(sync_eio_at=200))
        for name, value in faults.items():
            monkeypatch.setenv(name, value)
        with Domain(directory, "--app", str(EXAMPLES)) as domain:
            domain.wait("every host hears every other", is_whole)
            calls = run(domain, fail)
            domain.run("down")
            monkeypatch.delenv("LD_PRELOAD")
            domain.up()
            run(domain, partial(check_members, calls={"failing": calls}))


async def says_why(client: Client, host: str, reason: str) -> None:
    """Wait until the domain's status shows that *host* ended for that reason, and where."""

    def holds(status: dict[str, Any]) -> bool:
        (found,) = (each for each in status["hosts"] if each["id"] == host)
        said: str = found["last_exit"] or ""
        return reason in said and str(client.layout.host(HostId(host))) in said

    await asyncio.to_thread(client.domain.wait, f"{host} ended: {reason}", holds)
