"""The load every system gets: so many callers, each making one call after the other, for so many seconds."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.bench.usage import cpu_of

Call = Callable[[], Awaitable[object]]
"""Makes one call; done when it is acknowledged."""
LOADED_S: Final = 0.5
"""How long callers call before harm is done to the system."""


class Load(Struct, frozen=True, kw_only=True):
    """What one system did under one load."""

    in_flight: int
    calls: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_s: dict[str, float]
    """CPU time by process, the client's included."""

    @property
    def rate(self) -> float:
        return self.calls / self.seconds

    @property
    def cpu_s_per_1000(self) -> float:
        """Of all processes together."""
        return sum(self.cpu_s.values()) * 1000 / self.calls


async def drive(call: Call, *, in_flight: int, seconds: float, pids: Mapping[str, int]) -> Load:
    """Let *in_flight* callers call for so long, each at least once; every call counts that began within."""
    took_s: list[float] = []
    before = cpu_of(pids)
    began = time.perf_counter()
    until = began + seconds

    async def caller() -> None:
        ended = time.perf_counter()
        while True:
            called = ended
            await call()
            ended = time.perf_counter()
            took_s.append(ended - called)
            if ended >= until:
                return

    async with asyncio.TaskGroup() as callers:
        for _ in range(in_flight):
            callers.create_task(caller())
    elapsed = time.perf_counter() - began
    return summed(took_s, in_flight, elapsed, before, cpu_of(pids))


def summed(
    took_s: Sequence[float],
    in_flight: int,
    elapsed_s: float,
    cpu_before: Mapping[str, float],
    cpu_after: Mapping[str, float],
) -> Load:
    """The load that was measured call by call."""
    ordered = sorted(took_s)
    return Load(
        in_flight=in_flight,
        calls=len(ordered),
        seconds=elapsed_s,
        p50_ms=quantile(ordered, 0.5) * 1000,
        p99_ms=quantile(ordered, 0.99) * 1000,
        cpu_s={role: cpu_after[role] - used for role, used in cpu_before.items()},
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which *share* of the *ordered* ones lie; 0 of none."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


async def first_after(harm: Callable[[], None], call: Call, *, callers: int, within_s: float) -> float:
    """Do *harm* while *callers* call; seconds until a call that began after it is acknowledged.

    Calls that were under way do not count: their answers may have left before. Raises ``TimeoutError``.
    """
    harmed_at = float("inf")
    acknowledged: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def caller() -> None:
        while not acknowledged.done():
            called = time.perf_counter()
            await call()
            if called >= harmed_at and not acknowledged.done():
                acknowledged.set_result(time.perf_counter())

    tasks = [asyncio.create_task(caller()) for _ in range(callers)]
    try:
        await asyncio.sleep(LOADED_S)
        harm()
        harmed_at = time.perf_counter()
        # One that is not under way yet: the others may all hang on the process that is gone.
        tasks.append(asyncio.create_task(caller()))
        async with asyncio.timeout(within_s):
            return await acknowledged - harmed_at
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
