"""A large object on real hosts: captured by copies of the process, loaded in pieces, sent from its file."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from domain import Domain, is_whole
from group_client import EXAMPLES, Client, run

from holdfast.bench.objects import key_of
from holdfast.model.ids import HostId
from holdfast.node.layout import Layout
from holdfast.node.store import STORE
from holdfast.storage.checkpoint import ASIDE, COPIED, checkpoint_of

pytestmark = pytest.mark.cluster

WAIT_S = 240.0
ACCOUNTS = 60_000
"""Two megabytes of state: four times what is captured between two calls."""
MEMO = "x" * 250_000
"""Some sixteen such calls make a checkpoint due."""
DUE_BYTES = 4 << 20


def store_of(domain: Domain, host: str) -> Path:
    return Layout(domain.directory).host(HostId(host)) / STORE


def checkpoints(domain: Domain, host: str) -> list[str]:
    """Return the finished checkpoints of a host."""
    store = store_of(domain, host)
    names = [path.name for path in store.iterdir()] if store.is_dir() else []
    return [name for name in names if checkpoint_of(name) and not name.endswith((ASIDE, COPIED))]


async def until(holds: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {WAIT_S:g} s: {what}") from None


def said(domain: Domain, host: str) -> str:
    return Layout(domain.directory).output(host).read_text(encoding="utf-8")


def test_a_large_object_survives_and_reaches_a_host_that_lost_its_disk(tmp_path: Path) -> None:
    """Every host takes two checkpoints by copies, so that the log begins after the first; then all processes
    are killed, and one disk is wiped: its host can get the object only by being sent a checkpoint."""
    with Domain(
        tmp_path / "d", "--app", str(EXAMPLES), "--allow-class", "holdfast.bench.objects:Bulk"
    ) as domain:
        domain.wait("every host hears every other", is_whole)
        hosts = [host["id"] for host in domain.status()["hosts"]]

        def all_captured(number: int) -> bool:
            return all(said(domain, host).count("a state was captured") >= number for host in hosts)

        async def fill(client: Client) -> int:
            """Return the account's value after everything that was acknowledged."""
            bulk = await client.connection.create(
                "holdfast.bench.objects:Bulk", name="bulk", properties={"CheckpointBytes": DUE_BYTES}
            )
            await client.wait_in_sync("bulk")
            for first in range(0, ACCOUNTS, 5_000):
                await bulk.grow(first, 5_000)
            value = 0
            for number in (1, 2):
                # Not a fixed number of calls: a host whose copy is late captures at a later mark.
                async with asyncio.timeout(WAIT_S):
                    while not all_captured(number):
                        value = max(await asyncio.gather(*(bulk.add(key_of(1), 1, MEMO) for _ in range(8))))
                        await asyncio.sleep(0.1)
            async with asyncio.timeout(WAIT_S):
                # A state that could not be compared, as the primary's copy failed, is followed by the next.
                while not all(len(checkpoints(domain, host)) >= 2 for host in hosts):
                    value = await bulk.add(key_of(1), 1, MEMO)
                    await asyncio.sleep(0.1)
            await client.kill_all()
            await client.wait_in_sync("bulk")
            assert await bulk.count() == ACCOUNTS
            return value

        expected = run(domain, fill)
        domain.run("down")
        shutil.rmtree(store_of(domain, hosts[0]))
        domain.up()

        async def look(client: Client) -> None:
            # The view may list its old store for a while: only the file shows that it has begun anew.
            await until(lambda: bool(checkpoints(domain, hosts[0])), "it was sent a checkpoint")
            bulk = await client.group("bulk")
            for _ in range(3):
                found = await client.wait_in_sync("bulk")
                assert await bulk.count() == ACCOUNTS
                assert await bulk.add(key_of(1), 0, "") == expected
                if found.primary == hosts[0]:
                    return
                await client.kill_primary("bulk")
                await client.wait("bulk", "another primary", lambda info: info.primary != found.primary)  # noqa: B023  # awaited within the loop

        run(domain, look)
