"""Streams compared with corosync's closed process groups, in the same run on the same machine.

Both have three members. A source sends small messages, one in a datagram or many, and the time is taken until
every member has delivered all of them to a function of the application: Python here, C there. In each round
Holdfast and corosync follow each other; the second client of corosync, which unpacks each record and calls a
function with it, is the one to compare with. Holdfast is measured at 1 % loss too, with DROP and with
RECOVER, each beside its own lossless run.
"""

import asyncio
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
import uvloop

from holdfast.bench import Progress, Result, compare
from holdfast.bench.measuring.access import StartedDomain, admin_in, client_of
from holdfast.bench.systems import Absent
from holdfast.bench.systems.corosync import Corosync, Delivered, cpu_s, running
from holdfast.bench.systems.ours import started_domain
from holdfast.client.admin_client import Given, give
from holdfast.client.domain import Domain
from holdfast.client.source import Source
from holdfast.model.admin.groups import Order
from holdfast.model.admin.streams import (
    BindStream,
    InspectStreams,
    LoseStream,
    StreamList,
    StreamLost,
    StreamsInspected,
)
from holdfast.net import Address
from holdfast.node.messages import DomainStatus
from holdfast.streams.sending import LOOPBACK_BYTES, SourceConfig

SIZES: Final = (64, 1_024)
METER: Final = Path(__file__).parent / "systems" / "meter.py"
"""The class that is fed."""
BATCH: Final = 100
"""Records in a message of corosync; Holdfast fills datagrams of the same size."""
MEMBERS: Final = 3
SETTLE_S: Final = 120.0
WARM: Final = 2_000
LOSS: Final = 0.01
TARGET_BATCHED: Final = 0.6
TARGET_SINGLE: Final = 1.5
TARGET_DROP: Final = 0.95


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of load."""

    bytes: int
    is_batched: bool

    def __str__(self) -> str:
        return f"{self.bytes} bytes, {'batched' if self.is_batched else 'one in a datagram'}"


SHAPES: Final = tuple(Shape(size, is_batched) for size in SIZES for is_batched in (True, False))


def run_streams_bench(
    *, rounds: int = 3, messages: int = 100_000, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """Measure both; *messages* are sent in each batched run, a tenth one by one."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    return uvloop.run(_measure(rounds, messages, progress))


async def _measure(rounds: int, messages: int, progress: Progress) -> dict[str, Any]:
    ours: dict[Shape, list[Delivered]] = {each: [] for each in SHAPES}
    theirs: dict[Shape, list[Delivered]] = {each: [] for each in SHAPES}
    counting: dict[Shape, list[Delivered]] = {each: [] for each in SHAPES}
    lossy: dict[str, list[Delivered]] = {"drop": [], "recover": []}
    absent = ""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        shutil.copy(METER, name)
        async with (
            started_domain(Path(name), hosts=MEMBERS) as (domain, status),
            client_of(domain, status) as client,
        ):
            meter = await Metered.made(domain, status, client)
            for number in range(1, rounds + 1):
                for shape in SHAPES:
                    count = messages if shape.is_batched else messages // 10
                    ours[shape].append(await meter.run(shape, count))
                    progress(f"round {number}: Holdfast, {shape}: {ours[shape][-1].rate:,.0f}/s")
                    if not absent:
                        absent = await _peer(Path(name), shape, count, theirs[shape], counting[shape])
                        if not absent:
                            progress(f"round {number}: corosync, {shape}: {theirs[shape][-1].rate:,.0f}/s")
                for policy, found in lossy.items():
                    found.append(await meter.run(SHAPES[0], messages, policy=policy, loss=LOSS))
                    progress(f"round {number}: 1 % lost, {policy}: {found[-1].rate:,.0f}/s")
    results = _judged(ours, theirs, lossy, is_alone=bool(absent))
    return {
        "results": [msgspec.to_builtins(each) for each in results],
        "ours": {str(shape): found for shape, found in ours.items()},
        "corosync": {str(shape): found for shape, found in theirs.items()},
        "corosync, counting only": {str(shape): found for shape, found in counting.items()},
        "loss": lossy,
        "absent": absent,
        "machine": {"cpus": os.cpu_count(), "load_average": os.getloadavg()},
    }


async def _peer(
    directory: Path, shape: Shape, count: int, unpacking: list[Delivered], counting: list[Delivered]
) -> str:
    """Measure corosync; why it is not there, if it is not."""
    try:
        async with running(directory) as peer:
            for unpacks, found in ((True, unpacking), (False, counting)):
                found.append(await _peer_run(peer, shape, count, unpacks=unpacks))
    except (Absent, OSError, TimeoutError) as error:
        return str(error) or repr(error)
    return ""


async def _peer_run(peer: Corosync, shape: Shape, count: int, *, unpacks: bool) -> Delivered:
    batch = BATCH if shape.is_batched else 1
    group = f"g{time.monotonic_ns()}"
    return await peer.run(group, records=count, record_bytes=shape.bytes, batch=batch, unpacks=unpacks)


def _judged(
    ours: dict[Shape, list[Delivered]],
    theirs: dict[Shape, list[Delivered]],
    lossy: dict[str, list[Delivered]],
    *,
    is_alone: bool,
) -> list[Result]:
    made: list[Result] = []
    for shape in SHAPES if not is_alone else ():
        target = TARGET_BATCHED if shape.is_batched else TARGET_SINGLE
        pairs = (_rates(ours[shape]), _rates(theirs[shape]))
        made.append(compare(str(shape), *pairs, unit="messages/s", other_name="corosync CPG", target=target))
    whole = _rates(ours[SHAPES[0]])
    for policy, found in lossy.items():
        bound = TARGET_DROP if policy == "drop" else None
        made.append(
            compare(
                f"1 % lost, {policy}",
                _rates(found),
                whole,
                unit="messages/s",
                other_name="without loss",
                target=bound,
            )
        )
    return made


def _rates(found: Sequence[Delivered]) -> list[float]:
    return [each.rate for each in found]


class Metered:
    """Groups of three members in memory, each with a stream."""

    def __init__(self, domain: StartedDomain, status: DomainStatus, client: Domain) -> None:
        self._domain = domain
        self._client = client
        self._pids = [host.pid for host in status.hosts if host.pid is not None]
        self._hosts = [Address.parse(str(host.address)) for host in status.hosts]

    @classmethod
    async def made(cls, domain: StartedDomain, status: DomainStatus, client: Domain) -> "Metered":
        for policy in ("drop", "recover"):
            await client.create(
                "meter:Meter", name=policy, style="active", durability="memory", min_in_sync=1, args=[policy]
            )
            async with asyncio.timeout(SETTLE_S):
                while not any(
                    each.name == policy and len(each.in_sync) == MEMBERS for each in await client.groups()
                ):
                    await asyncio.sleep(0.1)
            await client.submit(BindStream(name=policy, group=policy, levels=2), StreamList)
        return cls(domain, status, client)

    async def _ask(self, host: Address, order: Order, kind: type[Given]) -> Given:
        return await give([host], admin_in(self._domain), order, kind)

    async def run(self, shape: Shape, count: int, *, policy: str = "drop", loss: float = 0.0) -> Delivered:
        """Send *count* messages, and wait until every member has delivered or passed over all of them."""
        for host in self._hosts:
            await self._ask(host, LoseStream(name=policy, part=loss), StreamLost)
        size = min(BATCH * (shape.bytes + 16), LOOPBACK_BYTES) if shape.is_batched else 512 + shape.bytes
        payload = b"x" * shape.bytes
        async with Source(
            self._client, stream=policy, config=SourceConfig(datagram_bytes=max(512, size))
        ) as source:
            await source.send_many([payload] * WARM, priority=1)
            await source.delivered(timeout_s=SETTLE_S)
            spent = sum(map(cpu_s, self._pids)) + time.process_time()
            began = time.monotonic()
            if shape.is_batched:
                chunk = [payload] * 1_000
                for _ in range(count // 1_000):
                    await source.send_many(chunk, priority=1)
            else:
                for _ in range(count):
                    await source.send(payload, priority=1)
                    source.flush()
            await source.delivered(timeout_s=SETTLE_S)
            await self._everywhere(policy, source.highest, source.incarnation)
            took_s = time.monotonic() - began
            spent = sum(map(cpu_s, self._pids)) + time.process_time() - spent
        return Delivered(
            rate=count / took_s, per_cpu_s=MEMBERS * count / max(spent, 1e-6), p50_us=0.0, p99_us=0.0
        )

    async def _everywhere(self, stream: str, number: int, incarnation: int) -> None:
        order = InspectStreams(name=stream)
        async with asyncio.timeout(SETTLE_S):
            for host in self._hosts:
                while True:
                    found = await self._ask(host, order, StreamsInspected)
                    figures = found.streams[0]
                    if figures.incarnation == incarnation and figures.delivered >= number:
                        break
                    await asyncio.sleep(0.01)
