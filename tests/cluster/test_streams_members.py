"""Streams while members come and go, with real processes: one that stands still, one that is killed, one that
leaves and another that joins; and messages that only the hosts' message log still has."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run
from stream_tallies import equal_tallies, lose

from holdfast.cli.admin import give_at
from holdfast.client.source import Source
from holdfast.model.admin.streams import BindStream, InspectStreams, StreamList, StreamsInspected
from holdfast.model.ids import HostId

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
PAUSE_S = 3.0
"""Longer than a host may be silent."""


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    directory = tmp_path_factory.mktemp("streams") / "d"
    directory.mkdir()
    log = directory.parent / "messages"
    (directory / "holdfast.toml").write_text(f'[streams]\nmessage_log = "{log}"\n')
    with Domain(directory, "--app", str(APPS), "--hosts", "4") as made:
        made.wait("every host hears every other", is_whole)
        yield made


async def bound(client: Client, name: str, cls: str, policy: str, **options: Any) -> Any:
    group = await client.connection.create(
        f"tape:{cls}", name=name, style="active", durability="memory", args=[policy], min_in_sync=1, **options
    )
    await client.connection.submit(BindStream(name=f"{name}-in", group=name), StreamList)
    return group


async def counts_at(client: Client, host: HostId, stream: str) -> dict[str, int]:
    found = await give_at(client.layout, InspectStreams(name=stream), StreamsInspected, host=host)
    return found.streams[0].counts


@pytest.mark.covers("LOSS-14", "LOSS-16", "LOSS-94")
def test_lost_messages_are_had_from_the_message_log(domain: Domain) -> None:
    """The order has numbers alone, and neither other members nor the source are asked. Two of three members
    lose a third of the datagrams, and all have every message: from the log, which the third one wrote."""

    async def work(client: Client) -> None:
        await bound(client, "logged", "Logged", "gap_fill")
        info = await client.wait_in_sync("logged")
        for host in info.placed_on:
            if host != info.placed_on[-1]:
                await lose(client, host, "logged-in", 0.3)
        async with Source(client.connection, stream="logged-in", group="logged") as source:
            for number in range(60):
                await source.send_many([f"{number} {each}".encode() for each in range(20)], priority=1)
                await asyncio.sleep(0.01)
            sent = source.highest
            await source.delivered(timeout_s=WAIT_S)
        count, _, wrong, *_ = await equal_tallies(client, "logged", lambda found: found[0] == sent)
        assert (count, wrong) == (1_200, 0)
        counts = [await counts_at(client, host, "logged-in") for host in info.placed_on]
        assert sum(each["recovered"] > 0 for each in counts) == 2
        assert not any(each["unrecorded"] for each in counts)

    run(domain, work)


@pytest.mark.covers("LOSS-2", "LOSS-93")
def test_members_come_and_go_while_messages_flow(domain: Domain, rounds: Callable[..., int]) -> None:
    """A backup stands still for longer than a host may, so that it misses a part of the order and is left
    out; then one is killed and begins anew; then one leaves, and another joins. The stream goes on, and in
    the end every member has the same."""

    async def work(client: Client) -> None:
        name = "moving"
        group = await bound(client, name, "Tape", "gap_fill", membership="application")
        info = await client.wait_in_sync(name)
        hosts = [HostId(each["id"]) for each in (await asyncio.to_thread(domain.status))["hosts"]]
        (outside,) = [each for each in hosts if each not in info.placed_on]
        backups = [each for each in info.placed_on if each != info.primary]
        is_over = asyncio.Event()
        async with Source(client.connection, stream="moving-in", group=name) as source:
            feeding = asyncio.create_task(feed(source, is_over))
            pid = await client.pid(backups[0])
            os.kill(pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(PAUSE_S)
            finally:
                os.kill(pid, signal.SIGCONT)
            await client.wait(name, "all are in sync again", lambda found: len(found.in_sync) == 3)
            await client.kill(backups[1])
            await client.wait(name, "the killed one is left out", lambda found: len(found.in_sync) < 3)
            await client.wait(name, "all are in sync again", lambda found: len(found.in_sync) == 3)
            await group.remove_member(backups[0])
            await group.add_member(outside)
            await client.wait(name, "the new one is in sync", lambda found: outside in found.in_sync)
            is_over.set()
            await feeding
            await source.delivered(timeout_s=WAIT_S)
            sent = source.highest
        count, _, wrong, *_ = await equal_tallies(client, name, lambda found: found[3] == {"moving-in": sent})
        assert (count, wrong) == (sent, 0)
        assert backups[0] not in (await client.info(name)).placed_on

    run(domain, work)


async def feed(source: Source, is_over: asyncio.Event) -> None:
    number = 0
    while not is_over.is_set():
        await source.send_many([f"{number} {each}".encode() for each in range(50)], priority=1)
        number += 1
        await asyncio.sleep(0.01)
