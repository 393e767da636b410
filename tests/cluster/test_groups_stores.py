"""Stores that are not what they were: damaged, wiped, copied, rolled back. They are recognised, and their
hosts get what they lack from their peers."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from domain import Domain, is_whole
from group_client import EXAMPLES, Client, run
from workload import Workload, check_members

from holdfast.model.ids import GroupId, HostId, StoreId
from holdfast.node.layout import Layout
from holdfast.node.store import STORE
from holdfast.storage.disk import Directory
from holdfast.storage.identity import load
from holdfast.storage.inspect import inspect, records

pytestmark = pytest.mark.cluster

VICTIM, PEER = "host1", "host2"


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    """A stopped domain with a ledger on all its hosts; every test leaves it so."""
    with Domain(tmp_path_factory.mktemp("stores") / "d", "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        run(made, serve)
        yield made


async def serve(client: Client) -> None:
    """Make calls to the ledger; then stop the domain, and require that every member's files agree with the
    callers."""
    if not await client.connection.groups():
        await client.create("ledger")
    async with Workload(await client.group("ledger")) as calls:
        await calls.more(100)
    assert not calls.unknown + calls.refused
    await check_members(client, {"ledger": calls})


def wipe(store: Path, _: Domain) -> None:
    shutil.rmtree(store)


def copy_a_peer(store: Path, domain: Domain) -> None:
    shutil.rmtree(store)
    shutil.copytree(store_of(domain, PEER), store)


def roll_back(store: Path, domain: Domain) -> None:
    """Roll the store back to a copy that was made before the domain ran once more."""
    copy = store.with_name("copy")
    shutil.copytree(store, copy)
    domain.up()
    run(domain, serve)
    shutil.rmtree(store)
    copy.rename(store)


def test_a_wiped_copied_or_rolled_back_store_joins_as_new(domain: Domain, rounds: Callable[..., int]) -> None:
    """V5: no view lists such a store, and it has everything before it is listed again."""
    store = store_of(domain, VICTIM)
    for spoil in (wipe, roll_back, copy_a_peer)[: rounds(short=2, long=3)]:
        known = [store_id(store), store_id(store_of(domain, PEER))]
        spoil(store, domain)
        domain.up()
        run(domain, serve)
        assert store_id(store) not in known


def test_a_damaged_log_is_said_and_repaired_from_its_peers(domain: Domain) -> None:
    """D2: one byte of a record below the synced mark is flipped. The host neither serves nor cuts its log;
    the group continues without it, and once the store is moved away it joins as new."""
    store = store_of(domain, VICTIM)
    flip_a_byte_of_a_record(store)
    assert inspect(Directory(store)).is_damaged
    damaged = {file.name: file.read_bytes() for file in store.iterdir() if file.name.startswith("log")}
    assert damaged

    async def go_on(client: Client) -> None:
        async with Workload(await client.group("ledger")) as calls:
            await calls.more(100)
            status = await asyncio.to_thread(
                domain.wait, "it says so", lambda now: "log inspect" in (now["hosts"][0]["last_exit"] or "")
            )
            assert not status["hosts"][0]["alive"]
            assert all((store / name).read_bytes() == found for name, found in damaged.items())
            store.rename(store.with_name("moved away"))
            await calls.more(100)
            await client.wait_in_sync("ledger")
        assert not calls.unknown + calls.refused
        await check_members(client, {"ledger": calls})

    started = domain.run("up", "--detach", check=False)
    assert started.returncode == 1
    assert f"holdfast log inspect {store}" in started.stderr
    run(domain, go_on)


def store_of(domain: Domain, host: str) -> Path:
    return Layout(domain.directory).host(HostId(host)) / STORE


def store_id(store: Path) -> StoreId:
    found = load(Directory(store))
    assert found is not None
    return found.store


def flip_a_byte_of_a_record(store: Path) -> None:
    """Flip a byte of the oldest record of the log: newer batches say that it was synced."""
    disk = Directory(store)
    body = next(records(disk, GroupId(1))).body
    for file in sorted(store.iterdir()):
        data = bytearray(file.read_bytes())
        at = data.find(body)
        if at >= 0:
            data[at + len(body) // 2] ^= 0x10
            file.write_bytes(data)
            return
    raise AssertionError("the record is in no file")
