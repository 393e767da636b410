"""Calls that each await another group, all made at once: of a plain class, and of an interleaved one (E3).

On three real hosts a group of each class passes every call on to a third group, which counts. Of the plain
class one call after the other makes its way there and back; interleaved ones share frames and syncs. The
rounds of both alternate, and the median of their ratios is judged. Then two groups call each other, and one
is asked while it waits for a group that is not served (:mod:`.neighbours`).
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from holdfast.bench import Progress, Result, compare
from holdfast.bench.neighbours import circles, queries
from holdfast.bench.relaying import InterleavedRelay, Relay
from holdfast.bench.systems.ours import started_domain, url_of
from holdfast.bench.workload import Counter
from holdfast.client.domain import Domain, connect
from holdfast.client.proxy import Group

TARGET: Final = 10.0
"""Interleaved to plain."""
WARM_UP: Final = 50
"""Calls before anything is measured."""
CALLED: Final = "counter"


def run_nested_bench(
    *, rounds: int = 3, calls: int = 500, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """Make *calls* at once to each, *rounds* times; rates in calls per second."""
    with tempfile.TemporaryDirectory(prefix="holdfast-nested-") as directory:
        interleaved, plain, times, failures = uvloop.run(_measure(Path(directory), rounds, calls, progress))
    name = f"nested: {calls} calls at once that each await another group"
    result = compare(name, interleaved, plain, unit="calls/s", other_name="not interleaved", target=TARGET)
    return {
        "results": [msgspec.to_builtins(each) for each in (result, *times)],
        "failures": failures,
        "rounds": rounds,
        "calls": calls,
        "interleaved_per_s": [round(each) for each in interleaved],
        "plain_per_s": [round(each) for each in plain],
    }


async def _measure(
    directory: Path, rounds: int, calls: int, progress: Progress
) -> tuple[list[float], list[float], list[Result], list[str]]:
    async with (
        started_domain(directory, hosts=3) as (description, status),
        connect(url_of(description, status)) as domain,
    ):
        counter = await domain.create(Counter, name=CALLED)
        groups = [await _made(domain, each) for each in (InterleavedRelay, Relay)]
        for group in groups:
            await _at_once(group, WARM_UP)
        rates: tuple[list[float], list[float]] = ([], [])
        for number in range(1, rounds + 1):
            for group, found in zip(groups, rates, strict=True):
                found.append(await _at_once(group, calls))
            progress(
                f"round {number} of {rounds}: interleaved {rates[0][-1]:,.0f}/s, plain {rates[1][-1]:,.0f}/s"
            )
        made = len(groups) * (WARM_UP + rounds * calls)
        missing = abs(made - await counter.call(Counter.read))
        failures = [f"{missing} calls did not reach the other group once"] if missing else []
        circle, stalled = await circles(domain, progress)
        query, wrong = await queries(domain, description, status, progress)
        return *rates, [circle, query], [*failures, *stalled, *wrong]


async def _made(domain: Domain, cls: type[Relay]) -> Group[Relay]:
    return await domain.create(cls, name=cls.__name__.lower(), args=[CALLED])


async def _at_once(group: Group[Relay], calls: int) -> float:
    """So many a second."""
    began = time.perf_counter()
    await asyncio.gather(*(group.call(Relay.relay) for _ in range(calls)))
    return calls / (time.perf_counter() - began)
