"""Floods at the door for streams, with real processes and as many datagrams as one process can send: whatever
they are, no host ends, memory stays bounded, everything is counted, and the stream that is meant goes on."""

import asyncio
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run
from stream_tallies import equal_tallies

from holdfast.cli.admin import give_at
from holdfast.client.source import Source
from holdfast.model.admin.streams import (
    BindStream,
    InspectStreams,
    ListStreams,
    StreamInfo,
    StreamList,
    StreamsInspected,
)
from holdfast.model.ids import HostId
from holdfast.streams.datagram import From, encode_batch
from holdfast.streams.message import Message

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
FLOOD_S = 3.0
GROWTH_BYTES_MAX = 160 << 20
"""What a host may occupy more after a flood: what it holds of streams (64 MiB) and what Python gives back
late."""
PAYLOAD_BYTES = 30_000
SENT = 6_000
HOLD_BYTES = 64 << 20
FLOODER = textwrap.dedent(
    """
    import socket, sys, time
    addresses = [(each.rsplit(":", 1)[0], int(each.rsplit(":", 1)[1])) for each in sys.argv[3:]]
    kinds = [bytes.fromhex(each) for each in sys.argv[2].split(",")]
    wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    until, sent = time.monotonic() + float(sys.argv[1]), 0
    while time.monotonic() < until:
        for _ in range(100):
            for kind in kinds:
                for address in addresses:
                    wire.sendto(kind, address)
                sent += 1
    print(sent)
    """
)


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("flood") / "d", "--app", str(APPS)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def occupied(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


async def flooded(info: StreamInfo, *kinds: bytes) -> int:
    """Send these again and again to every member; returns how many each was sent."""
    addresses = [each.udp for each in info.members if each.udp]
    words = [sys.executable, "-c", FLOODER, str(FLOOD_S), ",".join(each.hex() for each in kinds), *addresses]
    done = await asyncio.to_thread(
        subprocess.run, words, capture_output=True, text=True, check=True, timeout=WAIT_S
    )
    return int(done.stdout)


async def figures(client: Client, stream: str) -> dict[HostId, StreamsInspected]:
    info = await client.info("flooded")
    order = InspectStreams(name=stream)
    return {host: await give_at(client.layout, order, StreamsInspected, host=host) for host in info.placed_on}


def counted(found: StreamsInspected) -> int:
    """How many datagrams a host has seen or has let the kernel drop."""
    counts = found.streams[0].counts
    known = ("unsealed", "key", "tag", "magic", "version", "kind", "short", "old_incarnation")
    return found.kernel_drops + sum(found.refused.values()) + sum(counts.get(each, 0) for each in known)


def batch(number: int, stream: int, incarnation: int, key: int = 0, secret: bytes | None = None) -> bytes:
    return encode_batch(From(key, stream, incarnation), [Message(number, 1, "", b"flood" * 10)], secret)


@pytest.mark.covers("LOSS-100")
def test_a_flood_is_counted_and_harms_nobody(domain: Domain) -> None:
    """Rubbish, strangers' streams, datagrams without a key and with a false one, of an earlier life, and far
    beyond what may be sent: all of it while a source goes on."""

    async def work(client: Client) -> None:
        await client.connection.create(
            "tape:Tape", name="flooded", style="active", durability="memory", args=["gap_fill"], min_in_sync=1
        )
        bind = BindStream(name="flooded-in", group="flooded", is_open=False)
        await client.connection.submit(bind, StreamList)
        hosts = (await client.wait_in_sync("flooded")).placed_on
        (info,) = (await client.connection.submit(ListStreams(name="flooded-in"), StreamList)).streams
        pids = {host: await client.pid(host) for host in hosts}
        async with Source(client.connection, stream="flooded-in", group="flooded") as source:
            await source.send_many([b"x"] * 100, priority=1)
            await source.delivered(timeout_s=WAIT_S)
            before = {host: occupied(pid) for host, pid in pids.items()}
            seen = {host: counted(each) for host, each in (await figures(client, "flooded-in")).items()}
            kinds = [
                b"rubbish",
                os.urandom(1_000),
                batch(101, info.number + 1_000, 9),
                batch(101, info.number, source.incarnation),
                batch(101, info.number, source.incarnation, 1, b"not the key of anybody here" * 2),
            ]
            flood = asyncio.create_task(flooded(info, *kinds))
            number = 0
            while not flood.done():
                await source.send_many([f"{number}".encode()] * 5, priority=1)
                number += 1
                await asyncio.sleep(0.02)
            sent = await flood
            await source.delivered(timeout_s=WAIT_S)
            highest = source.highest
        count, _, wrong, *_ = await equal_tallies(
            client, "flooded", lambda found: found[3] == {"flooded-in": highest}
        )
        assert (count, wrong) == (highest, 0)
        after = await figures(client, "flooded-in")
        for host, pid in pids.items():
            assert await client.pid(host) == pid, f"{host} has ended"
            grown = occupied(pid) - before[host]
            assert grown < GROWTH_BYTES_MAX, f"{host} has grown by {grown >> 20} MiB"
            told = counted(after[host]) - seen[host]
            assert told >= 0.99 * sent, (told, sent, after[host])
        assert sent > 5_000, "it was a flood"

    run(domain, work)


def test_messages_without_an_end_fill_no_memory(domain: Domain) -> None:
    """A source that heeds nothing sends on beyond gaps that nobody closes: what a member holds is bounded."""

    async def work(client: Client) -> None:
        (info,) = await bound_open(client)
        hosts = (await client.wait_in_sync("endless")).placed_on
        pids = {host: await client.pid(host) for host in hosts}
        before = {host: occupied(pid) for host, pid in pids.items()}
        addresses = [each.udp.rsplit(":", 1) for each in info.members if each.udp]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
            for number in range(1, SENT + 1):
                sender = From(0, info.number, 1)
                data = encode_batch(sender, [Message(10 * number, 1, "", b"x" * PAYLOAD_BYTES)], None)
                for host, port in addresses:
                    wire.sendto(data, (host, int(port)))
                if number % 50 == 0:
                    await asyncio.sleep(0.01)
        for host, pid in pids.items():
            found = await give_at(
                client.layout, InspectStreams(name="endless-in"), StreamsInspected, host=host
            )
            assert await client.pid(host) == pid
            assert occupied(pid) - before[host] < GROWTH_BYTES_MAX
            counts = found.streams[0].counts
            assert found.kernel_drops + counts["messages"] >= 0.99 * SENT
            assert found.streams[0].held * PAYLOAD_BYTES <= HOLD_BYTES
            assert counts["no_room"] > 0

    run(domain, work)


async def bound_open(client: Client) -> Any:
    await client.connection.create(
        "tape:Tape", name="endless", style="active", durability="memory", args=["gap_fill"], min_in_sync=1
    )
    bind = BindStream(name="endless-in", group="endless", is_paced=False)
    await client.connection.submit(bind, StreamList)
    return (await client.connection.submit(ListStreams(name="endless-in"), StreamList)).streams
