"""Our own side of `holdfast bench streams`: groups of three members in memory, fed by sources."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.bench.measuring.access import StartedDomain, admin_in
from holdfast.bench.systems.corosync import Delivered, cpu_s
from holdfast.bench.systems.meter import SENT, TIMED
from holdfast.client.admin_client import Given, give
from holdfast.client.domain import Domain
from holdfast.client.source import Source
from holdfast.model.admin.groups import Order
from holdfast.model.admin.streams import (
    BindStream,
    InspectStreams,
    LoseStream,
    StreamFigures,
    StreamList,
    StreamLost,
    StreamsInspected,
)
from holdfast.net import Address
from holdfast.node.messages import DomainStatus
from holdfast.streams.sending import LOOPBACK_BYTES, SourceConfig

MEMBERS: Final = 3
BATCH: Final = 100
"""Records in a message of corosync; Holdfast fills datagrams of the same size."""
SENDERS: Final = 3
BEFORE_S: Final = 2.0
"""How long messages flow before a member is suspended."""
SETTLE_S: Final = 120.0
WARM: Final = 2_000
POLL_S: Final = 0.01
LOOK_S: Final = 0.02
"""How often a member that is suspended is asked whether it is back."""
LOSE_S: Final = 0.002
"""How long a member hears nothing of a stream: less than it waits before it asks for what is missing."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of load."""

    bytes: int
    is_batched: bool

    def __str__(self) -> str:
        return f"{self.bytes} bytes, {'batched' if self.is_batched else 'one in a datagram'}"

    @property
    def batch(self) -> int:
        return BATCH if self.is_batched else 1

    @property
    def datagram_bytes(self) -> int:
        """So long that it has a batch, or one message."""
        room = BATCH * (self.bytes + 16) if self.is_batched else 512 + self.bytes
        return max(512, min(room, LOOPBACK_BYTES))


class Metered:
    """Groups of three members, each with streams of its own."""

    def __init__(self, domain: StartedDomain, status: DomainStatus, client: Domain) -> None:
        self._domain = domain
        self._client = client
        self._pids = [host.pid for host in status.hosts if host.pid is not None]
        self.hosts = [Address.parse(str(host.address)) for host in status.hosts]

    async def make(self, name: str, *, cls: str = "Meter", policy: str = "drop", streams: int = 1) -> None:
        """Make a group and bind streams to it: ``name``, ``name-2`` and so on."""
        await self._client.create(
            f"meter:{cls}", name=name, style="active", durability="memory", min_in_sync=1, args=[policy]
        )
        async with asyncio.timeout(SETTLE_S):
            while not any(
                each.name == name and len(each.in_sync) == MEMBERS for each in await self._client.groups()
            ):
                await asyncio.sleep(0.1)
        for stream in streams_of(name, streams):
            await self._client.submit(BindStream(name=stream, group=name, levels=2), StreamList)

    async def ask(self, host: Address, order: Order, kind: type[Given]) -> Given:
        return await give([host], admin_in(self._domain), order, kind)

    async def lose(self, stream: str, part: float, hosts: Sequence[Address] = ()) -> None:
        """Have hosts, or all of them, lose a part of the datagrams of a stream."""
        for host in hosts or self.hosts:
            await self.ask(host, LoseStream(name=stream, part=part), StreamLost)

    async def inspected(self, host: Address, stream: str, query: str = "") -> StreamsInspected:
        return await self.ask(host, InspectStreams(name=stream, query=query), StreamsInspected)

    async def figures(self, host: Address, stream: str) -> StreamFigures:
        return (await self.inspected(host, stream)).streams[0]

    # --- as fast as it goes

    async def run(
        self, shape: Shape, count: int, *, group: str = "drop", loss: float = 0.0, senders: int = 1
    ) -> Delivered:
        """Have each sender send *count* messages, and wait until every member has delivered or passed over
        all of them."""
        streams = streams_of(group, senders)
        for stream in streams:
            await self.lose(stream, loss)
        sources = [self._source(stream, shape) for stream in streams]
        try:
            for source in sources:
                await source.__aenter__()
                await source.send_many([b"x" * shape.bytes] * WARM, priority=1)
                await source.delivered(timeout_s=SETTLE_S)
            spent = self._spent()
            began = time.monotonic()
            await asyncio.gather(*(self._send(source, shape, count) for source in sources))
            for stream, source in zip(streams, sources, strict=True):
                await self._everywhere(stream, source)
            took_s = time.monotonic() - began
            spent = self._spent() - spent
        finally:
            for source in sources:
                await source.close()
        total = count * senders
        return Delivered(rate=total / took_s, per_cpu_s=MEMBERS * total / max(spent, 1e-6))

    def _source(self, stream: str, shape: Shape) -> Source:
        return Source(self._client, stream=stream, config=SourceConfig(datagram_bytes=shape.datagram_bytes))

    def _spent(self) -> float:
        return sum(map(cpu_s, self._pids)) + time.process_time()

    async def _send(self, source: Source, shape: Shape, count: int) -> None:
        payload = b"x" * shape.bytes
        if shape.is_batched:
            for _ in range(count // 1_000):
                await source.send_many([payload] * 1_000, priority=1)
        else:
            for _ in range(count):
                await source.send(payload, priority=1)
                source.flush()
        await source.delivered(timeout_s=SETTLE_S)

    async def _everywhere(self, stream: str, source: Source) -> None:
        async with asyncio.timeout(SETTLE_S):
            for host in self.hosts:
                while True:
                    found = await self.figures(host, stream)
                    if found.incarnation == source.incarnation and found.delivered >= source.highest:
                        break
                    await asyncio.sleep(POLL_S)

    # --- at a rate

    async def timed(self, shape: Shape, rate: float, for_s: float, *, group: str = "drop") -> Delivered:
        """Send *rate* messages a second for some time; how long each took until it was delivered at the
        member where that takes longest. A message counts as sent when it was due."""
        for host in self.hosts:
            await self.inspected(host, group, "percentiles")
        batch, pad = shape.batch, b"x" * (shape.bytes - SENT.size)
        async with self._source(group, shape) as source:
            await source.send_many([b"x" * shape.bytes] * WARM, priority=1)
            await source.delivered(timeout_s=SETTLE_S)
            began = time.monotonic()
            count = int(rate * for_s) // batch
            for number in range(count):
                due = began + number * batch / rate
                while time.monotonic() < due:
                    _sleep_until(due)
                    await asyncio.sleep(0)
                stamped = [SENT.pack(due) + pad] * batch
                await source.send_many(stamped, topic=TIMED, priority=1)
            await source.delivered(timeout_s=SETTLE_S)
            await self._everywhere(group, source)
            took_s = time.monotonic() - began
        told = [(await self.inspected(host, group, "percentiles")).answer for host in self.hosts]
        found = [each["percentiles"] for each in told]
        return Delivered(
            rate=count * batch / took_s,
            per_cpu_s=0.0,
            p50_us=1e6 * max(each[0] for each in found),
            p99_us=1e6 * max(each[1] for each in found),
        )

    # --- a member that suspends itself

    async def suspended(self, rate: float) -> tuple[float, float, float]:
        """Have a backup lose a message while *rate* messages a second flow: how long it is without its
        object or behind, and how many messages per second the leader delivers before and meanwhile. With a
        rate of 0 nothing else flows. The loss is over before the object is given up: what came after the
        state that it takes is not lost as well, which would be another loss."""
        stream, shape = "heavy", Shape(64, is_batched=True)
        (backup, *_) = [each for each in self.hosts if not (await self.inspected(each, stream)).is_leader]
        (leader,) = [each for each in self.hosts if (await self.inspected(each, stream)).is_leader]
        async with self._source(stream, shape) as source:
            await source.send_many([b"x" * 64] * WARM, priority=1)
            await source.delivered(timeout_s=SETTLE_S)
            flowing, before_per_s = None, 0.0
            try:
                if rate:
                    flowing = asyncio.create_task(self._flow(source, shape, rate))
                    began, before = time.monotonic(), (await self.figures(leader, stream)).delivered
                    await asyncio.sleep(BEFORE_S)
                    gone_on = (await self.figures(leader, stream)).delivered - before
                    before_per_s = gone_on / (time.monotonic() - began)
                await self._lose_some(stream, source, backup)
                async with asyncio.timeout(SETTLE_S):
                    while (await self.inspected(backup, stream)).is_active:
                        await asyncio.sleep(POLL_S)
                    began, before = time.monotonic(), (await self.figures(leader, stream)).delivered
                    await self._caught_up(backup, leader, stream)
                took_s = time.monotonic() - began
                gone_on = (await self.figures(leader, stream)).delivered - before
            finally:
                if flowing is not None:
                    flowing.cancel()
                    await asyncio.gather(flowing, return_exceptions=True)
        return took_s, before_per_s, gone_on / took_s

    async def _lose_some(self, stream: str, source: Source, backup: Address) -> None:
        """Have a member lose a few datagrams."""
        await self.lose(stream, 1.0, [backup])
        await source.send_many([b"x" * 64] * BATCH, priority=1)
        source.flush()
        await asyncio.sleep(LOSE_S)
        await self.lose(stream, 0.0, [backup])

    async def _caught_up(self, backup: Address, leader: Address, stream: str) -> None:
        """Wait until a member is as far as the leader was a moment ago: one that has its object back and
        gives it up again, since it lacks what came meanwhile, is not back. Only the backup is asked until
        then, and seldom: whoever answers takes time from the members."""
        while True:
            await asyncio.sleep(LOOK_S)
            found = await self.inspected(backup, stream)
            wanted = (await self.figures(leader, stream)).delivered if found.is_active else 0
            while found.is_active:
                if found.streams[0].delivered >= wanted:
                    return
                await asyncio.sleep(POLL_S)
                found = await self.inspected(backup, stream)

    async def _flow(self, source: Source, shape: Shape, rate: float) -> None:
        began, sent, payload = time.monotonic(), 0, b"x" * shape.bytes
        while True:
            due = int((time.monotonic() - began) * rate) - sent
            if due >= BATCH:
                await source.send_many([payload] * due, priority=1)
                sent += due
            await asyncio.sleep(0.002)


def _sleep_until(due: float) -> None:
    """Wait as exactly as the peer's client does, which is asleep meanwhile: a loop's timers are a millisecond
    apart, and a source that asks for the time until it is due takes a processor from the members."""
    time.sleep(max(0.0, due - time.monotonic()))


def streams_of(group: str, count: int) -> list[str]:
    return [group, *(f"{group}-{number}" for number in range(2, count + 1))]
