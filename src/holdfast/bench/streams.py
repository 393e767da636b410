"""Streams compared with corosync's closed process groups, in the same run on the same machine.

Both have three members. A source sends small messages, one in a datagram or many, and the time is taken until
every member has delivered all of them to a function of the application: Python here, C there. In each round
Holdfast and corosync follow each other; the second client of corosync, which unpacks each record and calls a
function with it, is the one to compare with. Then three senders send at once; and one sends half of what
corosync can take, for the time from sending a message until it is delivered at the last member.

Holdfast alone is measured at 1 % loss, with DROP and with RECOVER, each beside its own lossless run; and with
a member that suspends itself and takes 100 MB of state, beside the same without any load. Each of these parts
can be run by itself.
"""

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
import uvloop

from holdfast.bench import Progress, Result, compare
from holdfast.bench.measuring.access import client_of
from holdfast.bench.systems import Absent
from holdfast.bench.systems.corosync import Corosync, Delivered, running
from holdfast.bench.systems.ours import started_domain
from holdfast.bench.systems.stream_meter import MEMBERS, SENDERS, Metered, Shape

SIZES: Final = (64, 1_024)
METER: Final = Path(__file__).parent / "systems" / "meter.py"
"""The classes that are fed."""
LOSS: Final = 0.01
TIMED_S: Final = 2.0
"""How long messages are sent at a rate, to see how long they take."""
LOAD: Final = 0.6
"""The part of the highest rate at which a member suspends itself."""
TARGET_BATCHED: Final = 0.6
TARGET_SINGLE: Final = 1.5
TARGET_DROP: Final = 0.95
TARGET_P50: Final = 3.0
TARGET_BACK: Final = 1.5
TARGET_MEANWHILE: Final = 0.9
SHAPES: Final = tuple(Shape(size, is_batched) for size in SIZES for is_batched in (True, False))
BATCHED, SINGLE = SHAPES[:2]
POLICIES: Final = ("drop", "recover")
PARTS: Final = ("rates", "senders", "latency", "loss", "suspended")
PEER: Final = "corosync CPG"


@dataclass
class Measured:
    """What all rounds have come to."""

    ours: dict[str, list[Delivered]] = field(default_factory=dict)
    theirs: dict[str, list[Delivered]] = field(default_factory=dict)
    counting: dict[str, list[Delivered]] = field(default_factory=dict)
    whole: list[Delivered] = field(default_factory=list)
    """The lossless runs that those with loss are compared with."""
    lossy: dict[str, list[Delivered]] = field(default_factory=dict)
    back_s: list[tuple[float, float]] = field(default_factory=list)
    """How long a suspended member took: under load, and idle."""
    meanwhile: list[tuple[float, float]] = field(default_factory=list)
    """What was delivered per second meanwhile, and before."""
    absent: str = ""
    """Why corosync was not measured; empty if it was."""


def run_streams_bench(
    *,
    rounds: int = 3,
    messages: int = 100_000,
    parts: Sequence[str] = PARTS,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Measure both; *messages* are sent in each batched run, a tenth one by one."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    return uvloop.run(_measure(rounds, messages, frozenset(parts), progress))


async def _measure(rounds: int, messages: int, parts: Container[str], progress: Progress) -> dict[str, Any]:
    found = Measured()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        shutil.copy(METER, name)
        async with (
            started_domain(Path(name), hosts=MEMBERS) as (domain, status),
            client_of(domain, status) as client,
        ):
            meter = Metered(domain, status, client)
            for policy in POLICIES:
                await meter.make(policy, policy=policy, streams=SENDERS)
            await meter.make("heavy", cls="Heavy")
            for number in range(1, rounds + 1):
                say = partial(_said, progress, number)
                await _round(found, meter, Path(name), messages, parts, say)
    results = judged(found)
    return {
        "results": [msgspec.to_builtins(each) for each in results],
        "ours": found.ours,
        "corosync": found.theirs,
        "corosync, counting only": found.counting,
        "loss": found.lossy,
        "suspended": {"back_s": found.back_s, "delivered_per_s": found.meanwhile},
        "absent": found.absent,
        "machine": {"cpus": os.cpu_count(), "load_average": os.getloadavg()},
    }


def _said(progress: Progress, number: int, what: str) -> None:
    progress(f"round {number}: {what}")


async def _round(
    found: Measured,
    meter: Metered,
    directory: Path,
    messages: int,
    parts: Container[str],
    progress: Progress,
) -> None:
    if "rates" in parts:
        for shape in SHAPES:
            await _side_by_side(found, meter, directory, shape, messages, progress)
    if "senders" in parts:
        for shape in (BATCHED, SINGLE):
            await _side_by_side(found, meter, directory, shape, messages, progress, senders=SENDERS)
    if "latency" in parts:
        for shape in (BATCHED, SINGLE):
            await _timed(found, meter, directory, shape, messages, progress)
    if "loss" in parts:
        _note_whole(found, await meter.run(BATCHED, messages), progress)
        for policy in POLICIES:
            taken = await meter.run(BATCHED, messages, group=policy, loss=LOSS)
            _note(found.lossy, policy, taken, lambda said: progress(f"1 % lost: {said}"))
            await meter.lose(policy, 0.0)
    if "suspended" in parts:
        await _suspended(found, meter, messages, progress)


async def _side_by_side(
    found: Measured,
    meter: Metered,
    directory: Path,
    shape: Shape,
    messages: int,
    progress: Progress,
    *,
    senders: int = 1,
) -> None:
    """Measure us, then corosync, as fast as it goes."""
    count = (messages if shape.is_batched else messages // 10) // senders
    what = str(shape) if senders == 1 else f"{shape}, three senders"
    _note(found.ours, what, await meter.run(shape, count, senders=senders), progress)
    await _peer(found, directory, what, shape, count, progress, senders=senders)


async def _timed(
    found: Measured, meter: Metered, directory: Path, shape: Shape, messages: int, progress: Progress
) -> None:
    """Measure both at half the rate that corosync can take."""
    if str(shape) not in found.theirs:
        count = messages if shape.is_batched else messages // 10
        await _peer(found, directory, str(shape), shape, count, progress)
    if found.absent:
        return
    rate = found.theirs[str(shape)][-1].rate / 2
    what = f"{shape}, at half of corosync's rate"
    _note(found.ours, what, await meter.timed(shape, rate, TIMED_S), progress)
    count = int(rate * TIMED_S) // shape.batch * shape.batch
    await _peer(found, directory, what, shape, count, progress, rate=round(rate / shape.batch))


def _note_whole(found: Measured, one: Delivered, progress: Progress) -> None:
    found.whole.append(one)
    progress(f"nothing lost: {one.rate:,.0f}/s")


def _note(taken: dict[str, list[Delivered]], what: str, one: Delivered, progress: Progress) -> None:
    taken.setdefault(what, []).append(one)
    times = f", p50 {one.p50_us:,.0f} us, p99 {one.p99_us:,.0f} us" if one.p50_us else ""
    progress(f"{what}: {one.rate:,.0f}/s{times}")


async def _suspended(found: Measured, meter: Metered, messages: int, progress: Progress) -> None:
    idle_s, *_ = await meter.suspended(0.0)
    if not found.whole:
        _note_whole(found, await meter.run(BATCHED, messages), progress)
    rate = LOAD * found.whole[-1].rate
    back_s, before, meanwhile = await meter.suspended(rate)
    found.back_s.append((back_s, idle_s))
    found.meanwhile.append((meanwhile, before))
    progress(f"suspended: back in {back_s:.2f} s, idle {idle_s:.2f} s; {meanwhile:,.0f}/s of {before:,.0f}/s")


async def _peer(
    found: Measured,
    directory: Path,
    what: str,
    shape: Shape,
    count: int,
    progress: Progress,
    *,
    senders: int = 1,
    rate: int = 0,
) -> None:
    """Measure corosync, unless it is not there."""
    if found.absent:
        return
    try:
        async with running(directory) as peer:
            for unpacks, taken in ((True, found.theirs), (False, found.counting)):
                if not unpacks and (rate or senders > 1):
                    continue
                one = await _peer_run(peer, shape, count, unpacks=unpacks, senders=senders, rate=rate)
                _note(taken, what, one, lambda said: progress(f"corosync, {said}"))
    except (Absent, OSError, TimeoutError) as error:
        found.absent = str(error) or repr(error)


async def _peer_run(
    peer: Corosync, shape: Shape, count: int, *, unpacks: bool, senders: int, rate: int
) -> Delivered:
    return await peer.run(
        f"g{time.monotonic_ns()}",
        records=count,
        record_bytes=shape.bytes,
        batch=shape.batch,
        unpacks=unpacks,
        senders=senders,
        rate=rate,
    )


def judged(found: Measured) -> list[Result]:
    """What was measured, beside its peer and its target."""
    made: list[Result] = []
    for what, ours in found.ours.items() if not found.absent else ():
        theirs = found.theirs[what]
        if ours[0].p50_us:
            for name, of, target in (("p50", _p50, TARGET_P50), ("p99", _p99, None)):
                made.append(
                    compare(
                        f"{what}: {name}",
                        [of(each) for each in ours],
                        [of(each) for each in theirs],
                        unit="us",
                        other_name=PEER,
                        target=target,
                        is_at_most=True,
                    )
                )
            continue
        target = TARGET_BATCHED if "batched" in what else TARGET_SINGLE
        rates = (_rates(ours), _rates(theirs))
        made.append(compare(what, *rates, unit="messages/s", other_name=PEER, target=target))
        costs, cost = (_per_cpu_s(ours), _per_cpu_s(theirs)), f"{what}: deliveries per CPU second"
        made.append(compare(cost, *costs, unit="messages/s", other_name=PEER, target=None))
        if counting := found.counting.get(what):
            counted = f"{what}: beside the client that only counts"
            rates = (_rates(ours), _rates(counting))
            made.append(compare(counted, *rates, unit="messages/s", other_name=PEER, target=None))
    whole = _rates(found.whole)
    for policy, lossy in found.lossy.items():
        made.append(
            compare(
                f"1 % lost, {policy}",
                _rates(lossy),
                whole,
                unit="messages/s",
                other_name="without loss",
                target=TARGET_DROP if policy == "drop" else None,
            )
        )
    if not found.back_s:
        return made
    back = [each for each, _ in found.back_s], [each for _, each in found.back_s]
    made.append(
        compare(
            "suspended with 100 MB, until it is back",
            *back,
            unit="s",
            other_name="without load",
            target=TARGET_BACK,
            is_at_most=True,
        )
    )
    rates = [each for each, _ in found.meanwhile], [each for _, each in found.meanwhile]
    made.append(
        compare(
            "delivered meanwhile",
            *rates,
            unit="messages/s",
            other_name="before",
            target=TARGET_MEANWHILE,
        )
    )
    return made


def _rates(found: Sequence[Delivered]) -> list[float]:
    return [each.rate for each in found]


def _per_cpu_s(found: Sequence[Delivered]) -> list[float]:
    return [each.per_cpu_s for each in found]


def _p50(one: Delivered) -> float:
    return max(one.p50_us, 1.0)


def _p99(one: Delivered) -> float:
    return max(one.p99_us, 1.0)
