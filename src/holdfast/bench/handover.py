"""What a handover costs callers: the longest time without an answer around it, and no failed call (K5).

A warm group of three real hosts is called without pause while its primary hands over to the next host, again
and again. The longest gap around each handover is shown next to the longest gap in the same length of time
before it.
"""

import asyncio
import gc
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

import msgspec
import uvloop

from holdfast.bench import Progress, within
from holdfast.bench.measuring.callers import Callers
from holdfast.bench.measuring.usage import Window
from holdfast.bench.objects import Counter
from holdfast.bench.systems.ours import Holdfast, RunningHoldfast
from holdfast.machine import MachineClock
from holdfast.model.ids import SECOND

TARGET_MS: Final = 50.0
AROUND_NS: Final = SECOND // 2
"""How long after a handover calls may still be affected; the same length of time before it is examined
too."""
WARM_UP_S: Final = 2.0

_clock = MachineClock()


@dataclass(frozen=True, slots=True)
class Gap:
    """The longest times without an answer."""

    around_ms: float
    before_ms: float


def run_handover_bench(
    *, rounds: int = 20, callers: int = 32, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """Hand over *rounds* times while *callers* call; gaps are in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="holdfast-handover-") as directory:
        gaps, calls = uvloop.run(_measure(Path(directory), rounds, callers, progress))
    around = [gap.around_ms for gap in gaps]
    name = "handover: the longest time without an answer"
    return {
        "results": [msgspec.to_builtins(within(name, around, unit="ms", limit=TARGET_MS))],
        "failures": [f"{calls.failed} calls failed"] if calls.failed else [],
        "rounds": rounds,
        "callers": callers,
        "calls": len(calls),
        "calls_failed": calls.failed,
        "gap_ms": [round(each, 1) for each in around],
        "gap_before_ms": [round(gap.before_ms, 1) for gap in gaps],
        "median_ms": round(median(around), 1),
        "worst_ms": round(max(around), 1),
        "target_ms": TARGET_MS,
    }


async def _measure(
    directory: Path, rounds: int, callers: int, progress: Progress
) -> tuple[list[Gap], Callers]:
    async with Holdfast().running(directory) as running:
        group, add = running.group, Counter.add

        async def call(random: Random) -> None:
            await group.call(add, 1)

        calls, gaps = Callers(call), []
        gc.collect()
        gc.freeze()  # so that the collector does not scan what is loaded by now in the middle of a call
        async with calls.calling(callers):
            await asyncio.sleep(WARM_UP_S)
            for number in range(rounds):
                gaps.append(await _hand_over(running, calls))
                progress(f"hand-over {number + 1} of {rounds}: {gaps[-1].around_ms:.1f} ms")
        return gaps, calls


async def _hand_over(running: RunningHoldfast, calls: Callers) -> Gap:
    info = await running.info()
    hosts = sorted(info.in_sync)
    after = hosts[(hosts.index(info.primary) + 1) % len(hosts)]
    began = _clock.now()
    await running.group.set_primary(after)
    ended = _clock.now() + AROUND_NS
    await asyncio.sleep(2 * AROUND_NS / SECOND)
    before = Window(began - (ended - began), began)
    return Gap(calls.longest_gap_ms(Window(began, ended)), calls.longest_gap_ms(before))
