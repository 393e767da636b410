"""Streams over real datagrams of which a part is lost, at the leader or at its backups, with a leader killed
in the middle: members end equal, with every message, and a destination has every output once."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run
from stream_tallies import equal_tallies, lose

from holdfast.cli.admin import give_at
from holdfast.client.destination import Destination
from holdfast.client.source import Source
from holdfast.execution.outputs import Output
from holdfast.model.admin.streams import BindStream, InspectStreams, StreamList, StreamsInspected
from holdfast.model.errors import Unavailable

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
PAUSE_S = 0.02
BATCH = 20
"""Messages that are sent at once, mostly as one datagram."""


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("streams") / "d", "--app", str(APPS)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


@dataclass
class Fed:
    """One group that is fed by a source while datagrams are lost at its leader, or at its backups."""

    client: Client
    name: str
    cls: str
    where: str
    part: float
    sent: int = 0
    taken: list[int] = field(default_factory=list)

    @property
    def stream(self) -> str:
        return f"{self.name}-in"

    async def create(self) -> None:
        connection = self.client.connection
        await connection.create(
            f"tape:{self.cls}",
            name=self.name,
            style="active",
            durability="memory",
            args=["gap_fill"],
            min_in_sync=1,
        )
        await connection.submit(BindStream(name=self.stream, group=self.name), StreamList)
        await self.lose()

    async def lose(self) -> None:
        """Lose datagrams where this group's are to be lost, once every member is there, and nowhere else."""
        deadline = time.monotonic() + WAIT_S
        while True:
            info = await self.client.wait_in_sync(self.name)
            try:
                for host in info.placed_on:
                    is_here = (host == info.primary) == (self.where == "leader")
                    await lose(self.client, host, self.stream, self.part if is_here else 0.0)
                return
            except Unavailable:  # a host was killed, and its agent has not noticed yet
                assert time.monotonic() < deadline
                await asyncio.sleep(0.1)

    async def feed(self, seconds: float) -> None:
        """Send for so long, while a destination takes the outputs; then wait for all of them, and compare."""
        connection = self.client.connection
        async with Destination(connection, group=self.name) as destination:
            taking = asyncio.create_task(self._take(destination))
            async with Source(connection, stream=self.stream, group=self.name) as source:
                end = time.monotonic() + seconds
                number = 0
                while time.monotonic() < end:
                    number += 1
                    await source.send_many([f"{number} {each}".encode() for each in range(BATCH)], priority=1)
                    await asyncio.sleep(PAUSE_S)
                await source.send(b"last", priority=0)
                self.sent = source.highest
                await source.delivered(timeout_s=WAIT_S)
            found = await equal_tallies(
                self.client, self.name, lambda tally: tally[3] == {self.stream: self.sent}
            )
            count, _, wrong, _, _, emitted = found
            assert (count, wrong) == (self.sent, 0), found
            deadline = time.monotonic() + WAIT_S
            while len(self.taken) < emitted and not taking.done():
                assert time.monotonic() < deadline, (len(self.taken), emitted)
                await asyncio.sleep(0.05)
            if taking.done():
                taking.result()
            taking.cancel()
            assert self.taken == list(range(50, self.sent + 1, 50))
            assert len(self.taken) == emitted

    async def _take(self, destination: Destination) -> None:
        async for each in destination:
            assert isinstance(each, Output), each
            self.taken.append(int(each.payload))

    async def count(self) -> dict[str, dict[str, int]]:
        """The counts of each member."""
        info = await self.client.wait_in_sync(self.name)
        found = {}
        for host in info.placed_on:
            shown = await give_at(
                self.client.layout, InspectStreams(name=self.stream), StreamsInspected, host=host
            )
            found[str(host)] = shown.streams[0].counts
        return found


@pytest.mark.covers("LOSS-13", "LOSS-106", "LOSS-107")
@pytest.mark.parametrize("part", [0.0, 0.001, 0.01, 0.1])
def test_datagrams_are_lost_at_the_leader_and_at_backups_and_leaders_are_killed(
    domain: Domain, rounds: Callable[..., int], part: float
) -> None:
    """Two groups lose this part of their datagrams: one at its leader, whose order carries the messages, and
    one at its backups, whose order carries numbers alone. Each has its leader killed in the middle. Nothing
    is missing anywhere in the end, nothing came twice, and each output was taken once."""
    seconds = rounds(short=3, long=60)

    async def work(client: Client) -> None:
        suffix = f"{part:g}".replace(".", "-")
        groups = [
            Fed(client, f"at-leader-{suffix}", "Tape", "leader", part),
            Fed(client, f"at-backups-{suffix}", "Bare", "backups", part),
        ]
        for each in groups:
            await each.create()
        feeding = [asyncio.create_task(each.feed(seconds)) for each in groups]
        await asyncio.sleep(seconds / 2)
        killed: set[str] = set()
        for each in groups:
            primary = (await client.info(each.name)).primary
            if primary not in killed:
                killed.add(primary)
                await client.kill(primary)
                await client.wait(each.name, "another leads", lambda info, was=primary: info.primary != was)
                for other in groups:
                    await other.lose()
        await asyncio.gather(*feeding)
        for each in groups:
            print(each.name, each.sent, len(each.taken), await each.count())

    run(domain, work)
