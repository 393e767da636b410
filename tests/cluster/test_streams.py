"""Streams with real processes and real datagrams: lost ones, a leader that is killed, and equal members."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from direct import DirectCaller
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run

from holdfast.cli.admin import give_at
from holdfast.client.source import Source
from holdfast.model.admin.streams import BindStream, LoseStream, StreamList, StreamLost
from holdfast.model.ids import HostId

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("streams") / "d", "--app", str(APPS)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


async def tallies(client: Client, name: str) -> dict[str, Any]:
    """What each member has of the streams."""
    info = await client.info(name)
    found: dict[str, Any] = {}
    for host in info.placed_on:
        caller = DirectCaller(host, info.group, info.epoch)
        await caller.open(await client.address(host), client.endpoint())
        answer = await caller.read("tally", stale_ms=3_600_000)
        found[host] = None if answer is None else answer.value
        caller.close()
    return found


async def equal_tallies(client: Client, name: str, holds: Callable[[Any], bool]) -> Any:
    """Wait until all members say the same, and it is so."""
    deadline = time.monotonic() + WAIT_S
    while True:
        found = await tallies(client, name)
        first = next(iter(found.values()))
        if len(found) == 3 and all(each == first for each in found.values()) and first and holds(first):
            return first
        assert time.monotonic() < deadline, f"members differ: {found}"
        await asyncio.sleep(0.1)


async def bound(client: Client, name: str, policy: str, **options: Any) -> Any:
    group = await client.connection.create(
        "tape:Tape", name=name, style="active", durability="memory", args=[policy], min_in_sync=1
    )
    await client.connection.submit(BindStream(name=f"{name}-in", group=name, **options), StreamList)
    return group


async def lose(client: Client, host: HostId, stream: str, part: float) -> None:
    await give_at(client.layout, LoseStream(name=stream, part=part), StreamLost, host=host)


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_every_message_arrives_everywhere(domain: Domain, transport: Any) -> None:
    """Without loss, each member delivers every message once, in the same order."""

    async def work(client: Client) -> None:
        name = f"whole-{transport}"
        await bound(client, name, "gap_fill")
        async with Source(client.connection, stream=f"{name}-in", group=name, transport=transport) as source:
            for number in range(40):
                await source.send_many([f"{number} {each}".encode() for each in range(50)], priority=1)
            await source.send(b"last", topic="end", priority=0)
            await source.delivered(timeout_s=WAIT_S)
        count, _, wrong, last, _ = await equal_tallies(client, name, lambda found: found[0] == 2_001)
        assert (count, wrong, last) == (2_001, 0, {f"{name}-in": 2_001})

    run(domain, work)


@pytest.mark.parametrize(("policy", "part"), [("gap_fill", 0.1), ("drop", 0.01)])
def test_a_leader_is_killed_while_datagrams_are_lost(
    domain: Domain, rounds: Callable[..., int], policy: str, part: float
) -> None:
    """Every host loses a part of the datagrams, and the leader is killed in the middle: all members end with
    the same messages in the same order, none twice; with recovery none is missing."""

    async def work(client: Client) -> None:
        name = f"lossy-{policy}"
        await bound(client, name, policy)
        info = await client.wait_in_sync(name)
        for host in info.placed_on:
            await lose(client, host, f"{name}-in", part)
        async with Source(client.connection, stream=f"{name}-in", group=name) as source:
            for number in range(rounds(short=200, long=6_000)):
                if number == rounds(short=100, long=3_000):
                    await client.kill_primary(name)
                await source.send_many([f"{number} {each}".encode() for each in range(20)], priority=1)
                await asyncio.sleep(0.01)
            await source.send(b"last", priority=0)
            sent = source.highest
            await source.delivered(timeout_s=WAIT_S)
        whole = (lambda found: found[0] == sent) if policy == "gap_fill" else (lambda found: found[0] > 0)
        count, _, wrong, last, actions = await equal_tallies(
            client, name, lambda found: found[3] == {f"{name}-in": sent} and whole(found)
        )
        assert wrong == 0
        assert actions, "loss was decided about"
        assert count <= sent

    run(domain, work)
