"""A group in memory with 100 MB in one bytearray, on real hosts: its state is copied, sent and loaded while
calls are served, and no process holds it twice (E5, E8)."""

import asyncio
import contextlib
import hashlib
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from domain import HOLDFAST, Domain, is_whole
from group_client import Client, run

from holdfast.cli.admin import give_at
from holdfast.model.admin.groups import ExplainGroup, GroupExplained
from holdfast.model.errors import OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId
from holdfast.node.layout import Layout
from holdfast.node.store import STORE
from holdfast.storage.checkpoint import UNFINISHED
from holdfast.storage.scratch import PREFIX

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

APPS = Path(__file__).parent / "apps"
MEGABYTES = 100
STATE_BYTES = MEGABYTES << 20
OTHER_BYTES = 96 << 20
"""What a host may need besides: chunks on their way to the disk, and what Python gives back late."""
WAIT_S = 300.0
SELDOM = {"CheckpointInterval": 100_000_000}
"""In units of 100 ns: every ten seconds each of three hosts writes 100 MB."""


def scratch(domain: Domain, host: str) -> list[str]:
    """Return the finished scratch files of a host."""
    store = Layout(domain.directory).host(HostId(host)) / STORE
    names = [path.name for path in store.iterdir()] if store.is_dir() else []
    return [name for name in names if name.startswith(PREFIX) and not name.endswith(UNFINISHED)]


def peak_bytes(pid: int) -> int:
    """Return the most memory that the process has occupied."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) * 1024


def holdfast(domain: Domain, *words: str) -> None:
    command = [*HOLDFAST, *words, "--dir", str(domain.directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr


class Load:
    """Stamps again and again: every stamp must be acknowledged, in order and once."""

    def __init__(self) -> None:
        self.acknowledged = 0

    @contextlib.asynccontextmanager
    async def on(self, vessel: Any) -> AsyncIterator["Load"]:
        stop = asyncio.Event()

        async def stamp() -> None:
            while not stop.is_set():
                assert await vessel.stamp() == self.acknowledged + 1
                self.acknowledged += 1

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stamp())
            try:
                yield self
            finally:
                stop.set()


def expected(stamps: int) -> str:
    """Return the digest after this many stamps."""
    cargo = bytearray(bytes(range(256)) * 4096 * MEGABYTES)
    for number in range(stamps):
        at = number * 1_000_003 % len(cargo)
        cargo[at] = (cargo[at] + 1) % 256
    return hashlib.sha256(cargo).hexdigest()


async def until(holds: Callable[[], Any], what: str) -> None:
    try:
        async with asyncio.timeout(WAIT_S):
            while not await holds():
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"not within {WAIT_S:g} s: {what}") from None


def test_a_state_of_100_mb_in_memory_reaches_who_differs_and_who_joins_under_calls(tmp_path: Path) -> None:
    """A member whose object differs takes the primary's state, and a host that joins is sent one; calls are
    answered throughout by the same primary, and every member ends with the same bytes."""
    marks = tmp_path / "marks"
    marks.mkdir()
    with Domain(tmp_path / "d", "--app", str(APPS), "--hosts", "4") as domain:
        domain.wait("every host hears every other", is_whole)

        async def lacking(client: Client) -> list[HostId] | None:
            """Return who has no object; None if nobody says."""
            try:
                said = await give_at(client.layout, ExplainGroup(name="vessel"), GroupExplained)
            except (Unavailable, OutcomeUnknown):
                return None
            return [each.host for each in said.group.without_object]

        async def work(client: Client) -> None:
            vessel = await client.connection.create(
                "vessel:Vessel",
                name="vessel",
                args=[str(marks)],
                style="active",
                durability="memory",
                properties=SELDOM,
            )
            before = await client.wait_in_sync("vessel")
            (outside,) = {host["id"] for host in domain_hosts} - set(before.placed_on)
            pids = {host: await client.pid(HostId(host)) for host in (*before.placed_on, outside)}
            began = {host: peak_bytes(pid) for host, pid in pids.items()}
            assert await vessel.fill(MEGABYTES) == STATE_BYTES
            async with Load().on(vessel) as load:

                async def all_copied() -> bool:
                    return all(scratch(domain, host) for host in before.placed_on)

                await until(all_copied, "every member has its state in a scratch file")
                at_first = load.acknowledged
                swayed = next(host for host in before.placed_on if host != before.primary)
                (marks / str(pids[swayed])).touch()

                async def differs() -> bool:
                    return await lacking(client) == [swayed]

                async def is_mended() -> bool:
                    return await lacking(client) == []

                await until(differs, "the member that differs has no object")
                found = load.acknowledged
                await until(is_mended, "it has taken the primary's state")
                mended = load.acknowledged
                await vessel.add_member(outside)

                async def has_joined() -> bool:
                    return outside in (await client.info("vessel")).in_sync

                await until(has_joined, "the host that joins is in sync")
                joined = load.acknowledged
            assert scratch(domain, outside), "it was sent a state"
            assert at_first < found < mended < joined, "calls were answered throughout"
            after = await client.info("vessel")
            assert after.primary == before.primary
            assert {host: await client.pid(HostId(host)) for host in pids} == pids, "no process has ended"
            whole = expected(load.acknowledged)
            assert await vessel.digest() == whole
            for host in (swayed, outside):
                await asyncio.to_thread(holdfast, domain, "group", "handover", "vessel", host)
                await client.wait("vessel", "it leads", lambda info: info.primary == host)  # noqa: B023  # awaited within the loop
                assert await vessel.digest() == whole, host
            peaks = {host: peak_bytes(pid) - began[host] for host, pid in pids.items()}
            assert max(peaks.values()) < STATE_BYTES + OTHER_BYTES, peaks
            print(f"served {at_first} {found} {mended} {joined}, grew by {peaks}")

        domain_hosts = domain.status()["hosts"]
        run(domain, work)
        assert all(len(scratch(domain, host["id"])) <= 2 for host in domain_hosts)
