"""A group that decides about the losses of another one's streams, with real processes: its primary is killed
while it is asked, and it stands still."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run
from stream_tallies import equal_tallies, lose

from holdfast.client.source import Source
from holdfast.model.errors import InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("deciders") / "d", "--app", str(APPS), "--hosts", "4") as made:
        made.wait("every host hears every other", is_whole)
        yield made


async def fed(client: Client, name: str, cls: str) -> str:
    """Create a group that takes a stream, half of which is lost at each of its members; returns the
    stream's name."""
    words = ("--style", "active", "--durability", "memory", "--min-in-sync", "1", "--stream", f"{name}-in")
    await asyncio.to_thread(client.domain.command, "group", "create", name, f"tape:{cls}", *words)
    await client.wait_in_sync(name)
    await lose_everywhere(client, name, 0.5)
    return f"{name}-in"


async def lose_everywhere(client: Client, name: str, part: float) -> None:
    """Lose a part of what is sent to each member; waits for hosts that have just been killed."""
    deadline = time.monotonic() + WAIT_S
    for host in (await client.info(name)).placed_on:
        while True:
            try:
                await lose(client, host, f"{name}-in", part)
                break
            except (Unavailable, OutcomeUnknown, InvalidRequest):  # it is not there, or knows no stream yet
                assert time.monotonic() < deadline, f"{host} does not return"
                await asyncio.sleep(0.1)


async def end(client: Client, source: Source, name: str) -> int:
    """Send a last message, which all members get; returns its number."""
    await lose_everywhere(client, name, 0.0)
    await source.send(b"last", priority=0)
    await source.delivered(timeout_s=WAIT_S)
    return source.highest


async def decisions(client: Client, stream: str) -> list[dict[str, Any]]:
    """The last decisions about a stream, as people see them."""
    done = await asyncio.to_thread(client.domain.command, "stream", "audit", stream, "--output", "json")
    found: list[dict[str, Any]] = msgspec.json.decode(done.stdout)["decisions"]
    return found


@pytest.mark.covers("LOSS-10", "LOSS-84")
def test_a_group_that_decides_fails_over(domain: Domain, rounds: Callable[..., int]) -> None:
    """Everything that is lost is decided by the other group, before and after its primary was killed, and
    every member has the same."""

    async def work(client: Client) -> None:
        judge = await client.connection.create("tape:Judge", name="judge", style="warm_passive")
        await client.wait_in_sync("judge")
        stream = await fed(client, "judged", "Judged")
        async with Source(client.connection, stream=stream, group="judged") as source:
            for number in range(rounds(short=30, long=600)):
                if number == rounds(short=10, long=200):
                    await client.kill_primary("judge")
                await source.send_many([f"{number} {each}".encode() for each in range(5)], priority=1)
                await asyncio.sleep(0.02)
            sent = await end(client, source, "judged")
        count, _, wrong, *_ = await equal_tallies(client, "judged", lambda tally: tally[3] == {stream: sent})
        assert wrong == 0
        assert 0 < count < sent, "what was lost at the leader is dropped, as the other group said"
        found = await decisions(client, stream)
        assert found
        shown = await asyncio.to_thread(domain.command, "stream", "show", stream)
        assert "losses are decided by group judge" in shown.stderr
        assert {(each["action"], each["by"]) for each in found} == {("drop", "group judge")}
        told = {(name, first, last) for name, first, last in await judge.asked()}
        assert {(each["stream"], each["first"], each["last"]) for each in found} <= told

    run(domain, work)


@pytest.mark.covers("LOSS-73", "LOSS-84")
def test_a_group_that_decides_stands_still(domain: Domain) -> None:
    """The default is taken in its place, and the stream goes on; when it is back, it is asked again."""

    async def work(client: Client) -> None:
        stream, name = await fed(client, "hurried", "Hurried"), "hurried"
        taken = (await client.info(name)).placed_on
        hosts = [HostId(each["id"]) for each in (await asyncio.to_thread(domain.status))["hosts"]]
        (alone,) = [each for each in hosts if each not in taken]
        mute = await client.connection.create(
            "tape:Judge", name="mute", replicas=1, minimum=1, membership="application"
        )
        (first,) = (await client.wait_in_sync("mute")).placed_on
        if first != alone:
            await mute.add_member(alone)
            await client.wait_in_sync("mute")
            await mute.remove_member(first)
            await client.wait("mute", "it has one member", lambda found: found.placed_on == (alone,))

        async def send(source: Source) -> None:
            before = {(each["first"], each["last"]) for each in await decisions(client, stream)}
            for number in range(12):
                await source.send_many([f"{number} {each}".encode() for each in range(5)], priority=1)
                await asyncio.sleep(0.02)
            await source.delivered(timeout_s=WAIT_S)
            found = [
                each
                for each in await decisions(client, stream)
                if (each["first"], each["last"]) not in before
            ]
            assert found, "something was lost"
            said.append({each["by"] for each in found})

        said: list[set[str]] = []
        async with Source(client.connection, stream=stream, group=name) as source:
            pid = await client.pid(alone)
            os.kill(pid, signal.SIGSTOP)
            try:
                await send(source)
            finally:
                os.kill(pid, signal.SIGCONT)
            assert not any(each.startswith("group ") for each in said[0]), said
            assert all(each.startswith("default: ") for each in said[0]), said
            assert await mute.asked() is not None  # it serves again
            while "group mute" not in said[-1]:
                await send(source)
                assert len(said) < 20, said
            sent = await end(client, source, name)
        await equal_tallies(client, name, lambda tally: tally[3] == {stream: sent})

    run(domain, work)
