"""Calls that each await another group, and what groups that wait for each other cost their callers (E3).

On three real hosts a group of a plain class and one of an interleaved class pass every call on to a third
group, which counts; all calls are made at once. With the plain class, calls go there and back one after the
other; interleaved calls share frames and syncs. The rounds of both alternate, and the median of their ratios
is judged.

Two more parts measure times. Two groups call each other at the same moment: each call stands in line behind
the operation that waits for it, until one of them is refused (PROTOCOL E10). And a group's operation waits
for a group whose host has stopped: queries are answered meanwhile from the state before the operation.
"""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from holdfast.bench import Progress, Result, compare, within
from holdfast.bench.measuring.access import StartedDomain, client_of, layout_of
from holdfast.bench.measuring.callers import quantile
from holdfast.bench.objects import Counter, InterleavedRelay, Neighbour, Relay
from holdfast.bench.systems.ours import started_domain
from holdfast.client.domain import Domain, connect
from holdfast.client.proxy import Group
from holdfast.model.admin.groups import GroupInfo
from holdfast.model.errors import Unavailable
from holdfast.node.messages import DomainStatus

CIRCLE_MS: Final = 100.0
"""The limit from two simultaneous calls to the answers of both."""
QUERY_MS: Final = 50.0
"""The limit for the slowest query in a hundred."""
CIRCLES: Final = 50
CIRCLES_S: Final = 15.0
"""The time after which no more circles are started."""
ATTEMPTS_MAX: Final = 400
"""The most attempts: two calls may just miss each other."""
QUERIES: Final = 500
PAUSE_S: Final = 0.002
"""The pause between two queries: one caller is measured, not load."""
WAIT_S: Final = 10.0
"""The wait for a neighbour that is away; longer than the queries take."""
SETTLE_S: Final = 30.0
POLL_S: Final = 0.02


async def circles(domain: Domain, progress: Progress) -> tuple[Result, list[str]]:
    """Let two groups call each other at once until enough circles were broken.

    Return the result and what went wrong.
    """
    names = ("left", "right")
    both = [await domain.create(Neighbour, name=name) for name in names]
    for name in names:
        await _until(domain, name, lambda found: len(found.in_sync) == len(found.placed_on))
    took_ms: list[float] = []
    stalled = 0
    until = time.monotonic() + CIRCLES_S
    for _ in range(ATTEMPTS_MAX):
        if len(took_ms) >= CIRCLES or time.monotonic() >= until:
            break
        began = time.perf_counter()
        ended = await asyncio.gather(
            *(
                group.call(Neighbour.visit, whom, WAIT_S)
                for group, whom in zip(both, names[::-1], strict=True)
            )
        )
        if "circle" in ended:
            took_ms.append((time.perf_counter() - began) * 1e3)
        stalled += "away" in ended
    name = "nested: two groups call each other, until both are answered"
    failures = [f"{stalled} calls of groups that call each other waited in vain"] if stalled else []
    if not took_ms:
        return within(name, [CIRCLES_S * 1e3], unit="ms", limit=CIRCLE_MS), [
            *failures,
            "no circle came about",
        ]
    found = within(name, took_ms, unit="ms", limit=CIRCLE_MS)
    progress(f"{len(took_ms)} circles, refused after {found.ours:.0f} ms")
    return found, failures


async def queries(
    domain: Domain, description: StartedDomain, status: DomainStatus, progress: Progress
) -> tuple[Result, list[str]]:
    """Query a group whose operation waits for a group that is not served.

    Return the result and what went wrong.
    """
    asker = await domain.create(Neighbour, name="asker")
    found = await _until(domain, "asker", lambda each: len(each.in_sync) == len(each.placed_on))
    away = next(host for host in status.hosts if host.id != found.primary)
    async with connect(
        f"holdfast://{away.address}/{description.domain}", dir=layout_of(description).directory
    ) as there:
        await there.create(Neighbour, name="away", replicas=1)
    placed = await _until(domain, "away", lambda each: bool(each.in_sync))
    assert placed.primary == away.id
    assert away.pid is not None
    assert await asker.call(Neighbour.visit, "away", WAIT_S) == "met"
    with _stopped(away.pid):
        # The asker has lost a backup with that host and continues without it: only then is it in its normal
        # state.
        await _until(domain, "asker", lambda each: away.id not in each.in_sync)
        waiting = asyncio.ensure_future(asker.call(Neighbour.visit, "away", WAIT_S))
        await asyncio.sleep(0.1)
        took_ms, wrong = await _asked(asker)
        failures = ["the operation did not wait while it was asked"] if waiting.done() else []
    await waiting
    if wrong:
        failures.append(f"{wrong} queries saw an operation that had not ended")
    slow_ms = quantile(sorted(took_ms), 0.99)
    name = f"nested: p99 of {QUERIES} queries while an operation waits for a group not served"
    progress(f"queries meanwhile: p99 {slow_ms:.1f} ms")
    return within(name, [slow_ms], unit="ms", limit=QUERY_MS), failures


async def _asked(group: Group[Neighbour]) -> tuple[list[float], int]:
    """Return how long each query took, and how many saw what they should not."""
    took_ms, wrong = [], 0
    for _ in range(QUERIES):
        began = time.perf_counter()
        wrong += await group.call(Neighbour.times_met) != 1
        took_ms.append((time.perf_counter() - began) * 1e3)
        await asyncio.sleep(PAUSE_S)
    return took_ms, wrong


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def _until(domain: Domain, name: str, holds: Callable[[GroupInfo], bool]) -> GroupInfo:
    async with asyncio.timeout(SETTLE_S):
        while True:
            try:
                found = next((each for each in await domain.groups() if each.name == name), None)
            except Unavailable:  # the stopped host was just asked
                found = None
            if found is not None and holds(found):
                return found
            await asyncio.sleep(POLL_S)


TARGET: Final = 10.0
"""The target ratio of interleaved to plain."""
WARM_UP: Final = 50
"""Calls before anything is measured."""
CALLED: Final = "counter"


def run_nested_bench(
    *, rounds: int = 3, calls: int = 500, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """Make *calls* at once to each group, *rounds* times; rates are in calls per second."""
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
        client_of(description, status) as domain,
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
    """Make that many calls at once, and return the calls per second."""
    began = time.perf_counter()
    await asyncio.gather(*(group.call(Relay.relay) for _ in range(calls)))
    return calls / (time.perf_counter() - began)
