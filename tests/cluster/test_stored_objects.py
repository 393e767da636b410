"""Objects with databases of their own, on real hosts: killed, and brought to a new host by files."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run

from holdfast.client.admin_client import AdminRefused
from holdfast.client.proxy import Group
from holdfast.node.layout import Layout

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

CLASS = "archive:Archive"
HOSTS = ("host1", "host2", "host3", "host4")
BODY_BYTES = 100_000
DOCUMENTS = 480
"""48 MB: three checkpoints, so that the log does not reach back to the beginning."""
WINDOW_BYTES = 1 << 20
SLOWLY = f'[shipping]\nbytes_per_s = "3 MiB"\nwindow_bytes = {WINDOW_BYTES}\n'
"""A host takes some 16 seconds to join."""
READ_STEP = 7
"""Each seventh document is read back."""


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    directory = tmp_path_factory.mktemp("stored") / "d"
    with Domain(directory, "--app", str(EXAMPLES), "--hosts", str(len(HOSTS))) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def body(number: int) -> bytes:
    return msgspec.msgpack.encode(number).ljust(BODY_BYTES, bytes([number % 256]))


async def put(archive: Group[Any], numbers: range) -> None:
    for first in range(numbers.start, numbers.stop, 10):
        some = range(first, min(first + 10, numbers.stop))
        await asyncio.gather(*(archive.put(f"document {each}", body(each)) for each in some))


async def check(archive: Group[Any], numbers: range) -> None:
    for each in (*numbers[::READ_STEP], *numbers[-20:]):
        assert await archive.get(f"document {each}") == body(each)


def command(domain: Domain, *words: str) -> Any:
    said = [*HOLDFAST, *words, "--dir", str(domain.directory), "--output", "json"]
    done = subprocess.run(said, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
    return msgspec.json.decode(done.stdout)


def databases(domain: Domain, host: str) -> list[Path]:
    return sorted((Layout(domain.directory).host(host) / "databases").glob("*.db"))


def test_documents_survive_the_primary_and_come_to_a_new_host_by_files(domain: Domain) -> None:
    """Documents are put, the primary is killed and comes back, a fourth host joins, is killed as well, and
    leads: every document is where it was put, and the new host has them in a file that it fetched."""

    async def work(client: Client) -> None:
        archive = await client.connection.create(CLASS, name="archive")
        found = await client.wait_in_sync("archive")
        assert found.style == "active"
        (new,) = (host for host in HOSTS if host not in found.placed_on)
        await put(archive, range(DOCUMENTS))
        killed = (await client.info("archive")).primary
        os.kill(await client.pid(killed), signal.SIGKILL)
        await put(archive, range(DOCUMENTS, DOCUMENTS + 20))
        await check(archive, range(DOCUMENTS + 20))
        if new not in (await client.wait_in_sync("archive")).placed_on:
            await archive.add_member(new)  # on a slow machine the manager may have done that already
        await client.wait("archive", f"{new} is in-sync", lambda each: new in each.in_sync)
        (file,) = databases(domain, new)
        assert not file.name.endswith("-new.db"), "it was fetched, and not made there"
        assert file.stat().st_size > DOCUMENTS * BODY_BYTES // 2
        await put(archive, range(DOCUMENTS + 20, DOCUMENTS + 220))  # it makes a checkpoint of its own
        os.kill(await client.pid(new), signal.SIGKILL)
        await put(archive, range(DOCUMENTS + 220, DOCUMENTS + 240))
        await client.wait_in_sync("archive")
        await asyncio.to_thread(command, domain, "group", "handover", "archive", new)
        await client.wait("archive", f"{new} leads", lambda each: each.primary == new)
        await check(archive, range(DOCUMENTS + 240))
        assert await archive.count() == DOCUMENTS + 240

    run(domain, work)


def fetching(domain: Domain, host: str, after: int = 0) -> dict[str, Any] | None:
    """What that host fetches, as it told its agent lately; None if it told nothing, or only as process
    *after* or an earlier one."""
    report = domain.host(host)["report"]
    if not report or report["incarnation"] <= after:
        return None
    return (report.get("shipping") or {}).get("fetching")


async def until_found(domain: Domain, host: str, after: int) -> dict[str, Any]:
    """Wait until that host, of which process *after* was killed, has looked at what it has of the files and
    goes on."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await asyncio.to_thread(fetching, domain, host, after)
            if found and found["received_bytes"]:
                return found
            await asyncio.sleep(0.1)


async def fetched(domain: Domain, host: str, share: float) -> int:
    """Wait until that host has this *share* of what it fetches; returns how many bytes it has."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await asyncio.to_thread(fetching, domain, host)
            has = found["found_bytes"] + found["received_bytes"] if found else 0
            if found and has >= share * found["total_bytes"]:
                return has
            await asyncio.sleep(0.1)


def test_a_join_goes_on_where_either_side_was_killed(tmp_path: Path, rounds: Callable[..., int]) -> None:
    """The new host and the one that sends to it are killed in turn while the files travel. What the new host
    has on its disk when it comes back is not sent again, and in the end it has every document."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "holdfast.toml").write_text(SLOWLY)
    with Domain(tmp_path / "d", "--app", str(EXAMPLES), "--hosts", str(len(HOSTS))) as domain:
        domain.wait("every host hears every other", is_whole)

        async def work(client: Client) -> None:
            archive = await client.connection.create(CLASS, name="archive")
            placed_on = (await client.wait_in_sync("archive")).placed_on
            (new,) = (host for host in HOSTS if host not in placed_on)
            await put(archive, range(DOCUMENTS))
            await archive.add_member(new)
            kills = rounds(short=6, long=20)
            for number in range(kills):
                has = await fetched(domain, new, (number + 1) / (kills + 2))
                victim = (await client.info("archive")).primary if number % 2 else new
                before = (await asyncio.to_thread(domain.host, new))["incarnation"]
                os.kill(await client.pid(victim), signal.SIGKILL)
                if victim == new:
                    found = await until_found(domain, new, before)
                    # What was asked for and not yet synced may be asked for again.
                    assert found["found_bytes"] >= has - WINDOW_BYTES, (number, found)
            await client.wait("archive", f"{new} is in-sync", lambda each: new in each.in_sync)
            await client.wait_in_sync("archive")
            await asyncio.to_thread(command, domain, "group", "handover", "archive", new)
            await client.wait("archive", f"{new} leads", lambda each: each.primary == new)
            await check(archive, range(DOCUMENTS))
            assert await archive.count() == DOCUMENTS

        run(domain, work)


def test_a_stored_class_is_refused_where_it_cannot_be(domain: Domain) -> None:
    """A style that executes what is not final yet is refused with what would be right."""

    async def work(client: Client) -> None:
        with pytest.raises(AdminRefused, match="a group of a stored class is active"):
            await client.connection.create(CLASS, name="passive", style="warm_passive")
        with pytest.raises(AdminRefused, match="durability disk"):
            await client.connection.create(CLASS, name="volatile", durability="memory")

    run(domain, work)
