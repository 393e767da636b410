"""The load that the benchmarks put on a system.

:func:`drive` lets a number of callers make one call after the other, for some seconds; every system gets this
load. :class:`Callers` call without pause, and record when each call began and ended. :class:`Attendance` is
one caller for each of many groups, at a steady pace, while something is done to their hosts: so all groups
are called, and the machine has time for what is measured. :func:`make_groups` creates many groups, some at a
time at each host, and repeats each request until it succeeds.
"""

import asyncio
import time
from array import array
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, Final

from msgspec import Struct

from holdfast.bench import Progress
from holdfast.bench.measuring.access import StartedDomain, layout_of
from holdfast.bench.measuring.usage import Window, cpu_of
from holdfast.client.admin_client import order
from holdfast.client.proxy import Group
from holdfast.machine import MachineClock, MachineRandom
from holdfast.model.admin.groups import CreateGroup
from holdfast.model.errors import HoldfastError, OutcomeUnknown, Unavailable
from holdfast.model.ids import MILLISECOND
from holdfast.net import Address, ConnectionSettings, PeerIdentity, Role

LoadCall = Callable[[], Awaitable[object]]
"""Makes one call; done when the call is acknowledged."""
LOADED_S: Final = 0.5
"""How long callers call before the system is harmed."""


class Load(Struct, frozen=True, kw_only=True):
    """The results of one system under one load."""

    in_flight: int
    calls: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_s: dict[str, float]
    """CPU time by process, including the client's."""

    @property
    def rate(self) -> float:
        return self.calls / self.seconds

    @property
    def cpu_s_per_1000(self) -> float:
        """The CPU time of all processes together."""
        return sum(self.cpu_s.values()) * 1000 / self.calls


async def drive(call: LoadCall, *, in_flight: int, seconds: float, pids: Mapping[str, int]) -> Load:
    """Let *in_flight* callers call for that long, each at least once.

    Every call that began in that time counts.
    """
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
    """Summarise a load that was measured call by call."""
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
    """Return the value below which *share* of the *ordered* values lie; 0 if there are none."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


async def first_after(harm: Callable[[], None], call: LoadCall, *, callers: int, within_s: float) -> float:
    """Call *harm* while *callers* call; return the seconds until a call that began after it is acknowledged.

    Calls that were in progress do not count: their answers may have been sent before. Raises
    ``TimeoutError``.
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
        # A caller without a call in progress: the others may all wait for the process that is gone.
        tasks.append(asyncio.create_task(caller()))
        async with asyncio.timeout(within_s):
            return await acknowledged - harmed_at
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


Call = Callable[[Random], Awaitable[object]]
"""Makes one call, with the caller's own random generator; done when the call is acknowledged."""

_clock = MachineClock()


class Callers:
    """Callers of *call*, each of which makes one call after the other.

    Times are kept as plain integers: with hundreds of thousands of objects, the garbage collector would delay
    the very calls that are measured.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._began = array("q")
        self._ended = array("q")
        """In ascending order, because they are recorded as the calls end."""
        self._is_running = True
        self.failed = 0

    def __len__(self) -> int:
        """Return the number of acknowledged calls."""
        return len(self._ended)

    @asynccontextmanager
    async def calling(self, callers: int) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._call_always(number)) for number in range(callers)]
        try:
            yield
        finally:
            self._is_running = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _call_always(self, number: int) -> None:
        random = MachineRandom().stream(f"caller {number}")
        while self._is_running:
            began = _clock.now()
            try:
                await self._call(random)
            except HoldfastError:
                self.failed += 1
                continue
            self._began.append(began)
            self._ended.append(_clock.now())

    def took_ms(self, windows: Iterable[Window]) -> list[float]:
        """Return how long the calls in progress in any of *windows* took, shortest first."""
        return sorted(each.length_ns / MILLISECOND for each in self.under_way(windows))

    def under_way(self, windows: Iterable[Window]) -> Iterator[Window]:
        """Yield the calls that were in progress in any of *windows*, each from its beginning to its end."""
        wanted = tuple(windows)
        for began, ended in zip(self._began, self._ended, strict=True):
            if any(began < each.end_ns and ended > each.start_ns for each in wanted):
                yield Window(began, ended)

    def answered_again_ns(self, since_ns: int) -> int | None:
        """Return when the first call begun after *since_ns* was answered, by whichever member served."""
        first = bisect_right(self._ended, since_ns)
        late = zip(self._began[first:], self._ended[first:], strict=True)
        return next((ended for began, ended in late if began > since_ns), None)

    def longest_gap_ms(self, window: Window) -> float:
        """Return the longest time in *window* in which no call was answered."""
        first, last = (bisect_right(self._ended, each) for each in (window.start_ns, window.end_ns))
        times = [window.start_ns, *self._ended[first:last], window.end_ns]
        return max(later - earlier for earlier, later in pairwise(times)) / MILLISECOND


class Tally:
    """The object that each group replicates."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count


@dataclass(frozen=True, slots=True)
class Waits:
    """How long calls took in some period of time."""

    calls: int
    longest_ms: tuple[float, ...]
    """The longest call of each group."""

    @property
    def worst_ms(self) -> float:
        return max(self.longest_ms, default=0.0)


CLASS: Final = f"{Tally.__module__}:{Tally.__qualname__}"
NO_WAITS: Final = Waits(0, ())


class Attendance:
    """Callers of *groups* of :class:`Tally`, each of which makes a call every *every_s*."""

    def __init__(self, groups: Sequence[Group[Any]], every_s: float) -> None:
        self._groups = groups
        self._every_s = every_s
        self._is_over = False
        self._calls = 0
        self._longest_ns = [0] * len(groups)
        self.failures: list[str] = []
        """Calls that ended without an answer, or with a wrong one."""

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        """Call the groups within the context; at its end every call has ended and counts."""
        tasks = [asyncio.create_task(self._call_always(number)) for number in range(len(self._groups))]
        try:
            yield
        finally:
            self._is_over = True
            await asyncio.gather(*tasks)

    def take_waits(self) -> Waits:
        """Return the waits of the calls that ended since the last time this was called."""
        longest = tuple(each / MILLISECOND for each in self._longest_ns)
        found = Waits(self._calls, longest)
        self._calls, self._longest_ns = 0, [0] * len(self._groups)
        return found

    async def _call_always(self, number: int) -> None:
        # The callers do not start all at once, but spread over one interval.
        await asyncio.sleep(self._every_s * number / len(self._groups))
        acknowledged = 0
        while not self._is_over:
            began = _clock.now()
            try:
                count = await self._groups[number].call("add")
                acknowledged += 1
                if count != acknowledged:
                    self.failures.append(f"group {number} answered {count} to call {acknowledged}")
                    return
            except HoldfastError as error:
                self.failures.append(f"group {number}, call {acknowledged + 1}: {error!r}")
                return
            took = _clock.now() - began
            self._calls += 1
            self._longest_ns[number] = max(self._longest_ns[number], took)
            await asyncio.sleep(self._every_s)


AT_A_TIME: Final = 16
"""Groups that one host creates at a time: creating one is mostly waiting for the authority's disk."""
ORDERS_MAX: Final = 30
"""How often the creation of a group is requested before it is given up."""
PAUSE_S: Final = 1.0
TOLD_EVERY: Final = 500


async def make_groups(
    wanted: Iterable[CreateGroup],
    description: StartedDomain,
    addresses: Sequence[Address],
    progress: Progress,
) -> float:
    """Let the hosts at *addresses* create the groups *wanted*, each host its share.

    Each host is then primary of its share. Returns how many seconds that took. A request must carry a nonce,
    because it may have to be repeated.
    """
    began = time.perf_counter()
    endpoint = ConnectionSettings(
        PeerIdentity(description.domain, Role.CLIENT, "bench"),
        credentials=layout_of(description).secret(description.domain),
    )
    waiting = enumerate(wanted, start=1)
    async with asyncio.TaskGroup() as makers:
        for address in addresses:
            for _ in range(AT_A_TIME):
                makers.create_task(_make_some(waiting, address, endpoint, progress))
    return time.perf_counter() - began


async def _make_some(
    waiting: Iterator[tuple[int, CreateGroup]],
    address: Address,
    endpoint: ConnectionSettings,
    progress: Progress,
) -> None:
    for number, wanted in waiting:
        await _insist(address, endpoint, wanted)
        if number % TOLD_EVERY == 0:
            progress(f"{number:,} groups made")


async def _insist(address: Address, endpoint: ConnectionSettings, wanted: CreateGroup) -> None:
    for _ in range(ORDERS_MAX - 1):
        try:
            await order([address], endpoint, wanted)
            return
        except (OutcomeUnknown, Unavailable):
            await asyncio.sleep(PAUSE_S)
    await order([address], endpoint, wanted)
