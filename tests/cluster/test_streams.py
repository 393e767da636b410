"""Streams with real processes and real datagrams: lost ones, a leader that is killed, and equal members."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run
from stream_tallies import equal_tallies, lose

from holdfast.cli.admin import give_at
from holdfast.client.destination import Destination
from holdfast.client.source import Source
from holdfast.execution.outputs import Output
from holdfast.model.admin.streams import (
    InspectStreams,
    ListStreams,
    StreamList,
    StreamsInspected,
)
from means import missing

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
EXAMPLE = EXAMPLES / "stream-source" / "sender.c"


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("streams") / "d", "--app", str(APPS)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


async def bound(client: Client, name: str, policy: str) -> Any:
    return await client.connection.create(
        "tape:Tape",
        name=name,
        style="active",
        durability="memory",
        args=[policy],
        min_in_sync=1,
        streams=[f"{name}-in"],
    )


@pytest.mark.covers("LOSS-7")
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_every_message_arrives_everywhere(domain: Domain, transport: Any) -> None:
    """Without loss, each member gets every message and delivers it once, in the same order."""

    async def work(client: Client) -> None:
        name = f"whole-{transport}"
        await bound(client, name, "gap_fill")
        async with Source(client.connection, stream=f"{name}-in", group=name, transport=transport) as source:
            for number in range(40):
                await source.send_many([f"{number} {each}".encode() for each in range(50)], priority=1)
            await source.send(b"last", topic="end", priority=0)
            await source.delivered(timeout_s=WAIT_S)
        count, _, wrong, last, *_ = await equal_tallies(client, name, lambda found: found[0] == 2_001)
        assert (count, wrong, last) == (2_001, 0, {f"{name}-in": 2_001})
        received = []
        for host in (await client.info(name)).placed_on:
            order = InspectStreams(name=f"{name}-in")
            found = await give_at(client.layout, order, StreamsInspected, host=host)
            received.append(found.streams[0].counts.get("messages", 0))
        # What a member's connection was too late for came to it with the order.
        assert max(received) == 2_001
        assert transport == "tcp" or min(received) == 2_001

    run(domain, work)


@pytest.mark.covers("LOSS-13", "LOSS-16", "LOSS-106", "LOSS-107")
@pytest.mark.parametrize(("policy", "part", "outputs"), [("gap_fill", 0.1, "tcp"), ("drop", 0.05, "udp")])
def test_a_leader_is_killed_while_datagrams_are_lost(
    domain: Domain, rounds: Callable[..., int], policy: str, part: float, outputs: Any
) -> None:
    """Every host loses a part of the datagrams, and the leader is killed in the middle: all members end with
    the same messages in the same order, none twice; with recovery none is missing. A destination has every
    output once."""

    async def work(client: Client) -> None:
        name = f"lossy-{policy}"
        stream = f"{name}-in"
        await bound(client, name, policy)
        info = await client.wait_in_sync(name)
        for host in info.placed_on:
            await lose(client, host, stream, part)
        taken: list[int] = []
        async with Destination(client.connection, group=name, transport=outputs) as destination:
            taking = asyncio.create_task(take(destination, taken))
            async with Source(client.connection, stream=stream, group=name) as source:
                for number in range(rounds(short=120, long=6_000)):
                    if number == rounds(short=60, long=3_000):
                        await client.kill_primary(name)
                    await source.send_many([f"{number} {each}".encode() for each in range(20)], priority=1)
                    await asyncio.sleep(0.01)
                await source.send(b"last", priority=0)
                sent = source.highest
                await source.delivered(timeout_s=WAIT_S)
            count, _, wrong, _, actions, emitted = await equal_tallies(
                client, name, lambda found: found[3] == {stream: sent}
            )
            assert wrong == 0
            assert actions, "loss was decided about"
            assert count == sent if policy == "gap_fill" else 0 < count <= sent
            async with asyncio.timeout(WAIT_S):
                while len(taken) < emitted:
                    await asyncio.sleep(0.05)
            taking.cancel()
        assert taken == sorted(set(taken))
        assert len(taken) == emitted

    run(domain, work)


def test_a_group_whose_class_takes_no_messages_has_no_stream(domain: Domain) -> None:
    """Or a source of it would wait for ever."""

    async def work(client: Client) -> None:
        await client.connection.create("swayed:Swayed", name="deaf", args=["/"], style="active")
        done = await asyncio.to_thread(domain.told, "stream", "bind", "unheard", "--group", "deaf")
        assert done.returncode != 0
        assert "swayed:Swayed takes no streams; give it on_message" in " ".join(done.stderr.split())
        listed = await give_at(client.layout, ListStreams(), StreamList)
        assert "unheard" not in {each.name for each in listed.streams}

    run(domain, work)


async def take(destination: Destination, taken: list[int]) -> None:
    """Note the number in each output, and fail on a gap."""
    async for each in destination:
        assert isinstance(each, Output), each
        taken.append(int(each.payload))


def test_a_source_in_another_language(domain: Domain, tmp_path: Path) -> None:
    """A stream is bound by the command line and sealed; a program in C sends to it with a key, and others
    are refused. People see what was lost, and what became of it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        missing("a C compiler")
    sender = tmp_path / "sender"
    subprocess.run([compiler, "-O2", "-o", sender, EXAMPLE], check=True, timeout=60)

    async def work(client: Client) -> None:
        await client.connection.create(
            "tape:Tape", name="c", style="active", durability="memory", args=["drop"], min_in_sync=1
        )

        def cli(*words: str) -> Any:
            done = domain.command(*words, "--output", "json")
            return msgspec.json.decode(done.stdout)

        made = await asyncio.to_thread(cli, "stream", "bind", "c-in", "--group", "c", "--sealed")
        assert (made["group_name"], made["is_open"]) == ("c", False)
        key = (await asyncio.to_thread(domain.command, "stream", "key", "c-in", "feed")).stdout.strip()
        members = [each["udp"] for each in made["members"]]
        to = ["-s", str(made["number"]), *members]
        lines = "".join(f"{number % 2} t{number % 3} line {number}\n" for number in range(300))

        def send(incarnation: int, *options: str, text: str = lines) -> None:
            words = [sender, "-i", str(incarnation), *options, *to]
            subprocess.run(words, input=text.encode(), check=True, timeout=30)

        await asyncio.to_thread(send, 1)
        await asyncio.to_thread(send, 2, "-k", key)
        found = await equal_tallies(client, "c", lambda tally: tally[3] == {"c-in": 300})
        assert found[0] == 300
        hosts = [each["host"] for each in made["members"]]
        await asyncio.to_thread(domain.command, "chaos", "stream-loss", hosts[0], "c-in", "100%")
        for host in hosts[1:]:
            await lose(client, host, "c-in", 1.0)
        await asyncio.to_thread(send, 3, "-k", key)
        for host in hosts:
            await lose(client, host, "c-in", 0.0)
        await asyncio.to_thread(send, 4, "-k", key, text="0 - x\n")
        shown = await asyncio.to_thread(cli, "stream", "show", "c-in")
        counts = [each["streams"][0]["counts"] for each in shown["members"]]
        assert all(each["unsealed"] >= 2 and each["injected"] >= 2 for each in counts)
        assert sum(each["is_leader"] for each in shown["members"]) == 1
        (listed,) = (await client.connection.submit(ListStreams(name="c-in", group="c"), StreamList)).streams
        assert listed.sources == ("feed",)

    run(domain, work)
