"""What a large object costs its callers: delays while checkpoints are taken, and failover (PROTOCOL E5).

A warm group of three real hosts holds an object of the given size and is called without pause. Checkpoints
are seen from outside, by the files they leave. Each is a window; the longest call in it is held against the
longest calls of the times without a checkpoint, in the same run. Then the primary is killed, again and again.
"""

import asyncio
import os
import signal
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.bench import Progress, within
from holdfast.bench.bulk import ENTRY_BYTES, key_of
from holdfast.calling.config import CallPolicy
from holdfast.client.domain import Domain, connect
from holdfast.client.proxy import Group
from holdfast.machine import MachineClock, MachineRandom
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId
from holdfast.model.orders import GroupInfo
from holdfast.model.units import MILLISECOND, SECOND
from holdfast.node.holders import signal_holder
from holdfast.node.layout import Description, Layout
from holdfast.node.reaching import url_of
from holdfast.node.starting import describe, start_agent, wait_until_alive
from holdfast.node.store import STORE
from holdfast.storage.checkpoint import UNFINISHED, checkpoint_of
from holdfast.storage.lock import holder_of

NAME: Final = "bulk"
MEMO: Final = "x" * 16
GROW_BY: Final = 5_000
"""Accounts opened by one call: some milliseconds of work."""
GROWING_AT_ONCE: Final = 8
WAIT_S: Final = 180.0
POLL_S: Final = 0.005
LEAD_NS: Final = 3 * SECOND
"""A checkpoint may have stopped calls so long before its file is seen."""
QUIET_NS: Final = 1 * SECOND
"""Calls without a checkpoint are judged in windows of this length."""
LATE_CALLS: Final = 10_000
"""The first call after a kill is looked for among so many."""
CALM_MS: Final = 50.0
CALM_S: Final = 60.0
CALM_CALLS: Final = 100
"""So many calls in a row shorter than that: the backups have caught up with what made the object large."""
WARM: Final = 0.8
"""A host with so much of the memory that the largest has holds the object too."""
DELAY_TARGET_MS: Final = 20.0
FAILOVER_TARGET_MS: Final = 300.0

_clock = MachineClock()


def run_state_bench(
    *,
    megabytes: int = 100,
    callers: int = 32,
    seconds: float = 60.0,
    rounds: int = 5,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Call an object of *megabytes* for *seconds*, then kill its primary *rounds* times."""
    with tempfile.TemporaryDirectory(prefix="holdfast-state-") as directory:
        layout = Layout(Path(directory) / "domain")
        description = describe(layout, hosts=3, etcd=())
        agent = start_agent(layout, with_parent=True)

        async def measure() -> dict[str, Any]:
            await wait_until_alive(layout, description, agent, within_s=WAIT_S, progress=lambda _: None)
            policy = CallPolicy(duration_ns=round(WAIT_S * SECOND))
            async with connect(await url_of(layout, description), policy=policy) as domain:
                bench = _Bench(layout, description, domain, progress)
                return await bench.run(megabytes, callers, seconds, rounds)

        try:
            return asyncio.run(measure())
        finally:
            agent.terminate()
            agent.wait()


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, by the machine's clock."""

    start_ns: int
    end_ns: int


@dataclass(slots=True)
class Load:
    """Callers that call without pause; when each call began and ended."""

    group: Group[Any]
    accounts: int
    calls: list[Window] = field(default_factory=list)
    failed: int = 0
    is_running: bool = True

    @contextmanager
    def of(self, callers: int) -> Iterator[None]:
        tasks = [asyncio.create_task(self._call_always(number)) for number in range(callers)]
        try:
            yield
        finally:
            self.is_running = False
            for task in tasks:
                task.cancel()

    async def _call_always(self, number: int) -> None:
        random = MachineRandom().stream(f"caller {number}")
        while self.is_running:
            began = _clock.now()
            try:
                await self.group.add(key_of(random.randrange(self.accounts)), 1, MEMO)
            except HoldfastError:
                self.failed += 1
                continue
            self.calls.append(Window(began, _clock.now()))

    def longest_ms(self, window: Window) -> float:
        """The longest call that was under way in *window*."""
        touching = (
            each.end_ns - each.start_ns
            for each in self.calls
            if each.start_ns < window.end_ns and each.end_ns > window.start_ns
        )
        return max(touching, default=0) / MILLISECOND

    def answered_again_ns(self, since_ns: int) -> int | None:
        """When the first call was answered that began after *since_ns*: by whoever served then."""
        late = self.calls[-LATE_CALLS:]
        return min((each.end_ns for each in late if each.start_ns > since_ns), default=None)


class Watch:
    """Sees checkpoints by their files: from the first sight of one being written to its final name."""

    def __init__(self, layout: Layout, description: Description) -> None:
        self._stores = {host: layout.host(host) / STORE for host in description.hosts}
        self._begun: dict[tuple[HostId, int], int] = {}
        self._known: dict[tuple[HostId, int], None] = {}
        self.finished: list[Window] = []

    async def always(self) -> None:
        for host, position, _ in self._look():
            self._known[host, position] = None
        while True:
            for host, position, is_aside in self._look():
                self._note(host, position, is_aside)
            await asyncio.sleep(POLL_S)

    def _look(self) -> list[tuple[HostId, int, bool]]:
        found = []
        for host, store in self._stores.items():
            for name in os.listdir(store):
                which = checkpoint_of(name)
                if which is not None:
                    found.append((host, int(which[1]), name.endswith(UNFINISHED)))
        return found

    def _note(self, host: HostId, position: int, is_aside: bool) -> None:
        key = (host, position)
        if is_aside:
            self._begun.setdefault(key, _clock.now())
        elif key not in self._known:
            self._known[key] = None
            self.finished.append(Window(self._begun.pop(key, _clock.now()), _clock.now()))


class _Bench:
    def __init__(self, layout: Layout, description: Description, domain: Domain, progress: Progress) -> None:
        self._layout = layout
        self._description = description
        self._domain = domain
        self._progress = progress

    async def run(self, megabytes: int, callers: int, seconds: float, rounds: int) -> dict[str, Any]:
        accounts = max(megabytes * 1_000_000 // ENTRY_BYTES, 1)
        group = await self._domain.create("holdfast.bench.bulk:Bulk", name=NAME, style="warm_passive")
        await self._grow(group, accounts)
        await self._calm_down(group)
        watch, load = Watch(self._layout, self._description), Load(group, accounts)
        watching = asyncio.create_task(watch.always())
        began = _clock.now()
        with load.of(callers):
            await self._watch_load(seconds, load, watch)
            measured = Window(began, _clock.now())
            checkpoints = list(watch.finished)
            memory_mb = self._memory_mb()
            failovers = [await self._fail_over(load, number, rounds) for number in range(rounds)]
        watching.cancel()
        during, quiet = _windows(checkpoints, measured)
        delays = [load.longest_ms(each) for each in during]
        ordinary = [load.longest_ms(each) for each in quiet]
        usual = statistics.median(ordinary) if ordinary else 0.0
        return {
            "results": [msgspec.to_builtins(each) for each in _judged(delays, usual, failovers)],
            "megabytes": megabytes,
            "callers": callers,
            "calls": len(load.calls),
            "calls_failed": load.failed,
            "checkpoints": len(checkpoints),
            "checkpoint_ms": [round((each.end_ns - each.start_ns) / MILLISECOND) for each in checkpoints],
            "longest_call_ms": [round(each, 1) for each in delays],
            "longest_call_without_ms": [round(each, 1) for each in ordinary],
            "delay_worst_ms": round(max(delays, default=0.0) - usual, 1),
            "failover_ms": [round(each, 1) for each in failovers],
            "host_memory_peak_mb": memory_mb,
        }

    async def _grow(self, group: Group[Any], accounts: int) -> None:
        starts = list(range(0, accounts, GROW_BY))
        for index in range(0, len(starts), GROWING_AT_ONCE):
            some = starts[index : index + GROWING_AT_ONCE]
            await asyncio.gather(*(group.grow(first, min(GROW_BY, accounts - first)) for first in some))
            before, after = (count * 10 // len(starts) for count in (index, index + len(some)))
            if after > before:
                self._progress(f"growing: {after * 10}%")

    async def _calm_down(self, group: Group[Any]) -> None:
        """Wait until calls take what they usually take; but not for ever, on a machine that has no calm."""
        calm, until = 0, _clock.now() + round(CALM_S * SECOND)
        while calm < CALM_CALLS and _clock.now() < until:
            began = _clock.now()
            await group.add(key_of(0), 1, MEMO)
            calm = calm + 1 if (_clock.now() - began) / MILLISECOND < CALM_MS else 0

    async def _watch_load(self, seconds: float, load: Load, watch: Watch) -> None:
        for second in range(round(seconds)):
            before = len(load.calls)
            await asyncio.sleep(1.0)
            if second % 5 == 4:
                rate = len(load.calls) - before
                self._progress(
                    f"under load: {second + 1} s, {rate} calls/s, {len(watch.finished)} checkpoints"
                )

    async def _fail_over(self, load: Load, number: int, rounds: int) -> float:
        info = await self._wait_until_warm()
        await asyncio.sleep(1.0)
        killed_at = _clock.now()
        signal_holder(self._layout.host(info.primary), signal.SIGKILL)
        answered_at = None
        async with asyncio.timeout(WAIT_S):
            while answered_at is None:
                await asyncio.sleep(POLL_S)
                answered_at = load.answered_again_ns(killed_at)
        took_ms = (answered_at - killed_at) / MILLISECOND
        self._progress(f"kill {number + 1} of {rounds}: {took_ms:.0f} ms without an answer")
        return took_ms

    async def _wait_until_warm(self) -> GroupInfo:
        """Every member is in sync and, as its host's memory shows, has loaded the object again."""
        async with asyncio.timeout(WAIT_S):
            while True:
                info = await self._info()
                memory_mb = self._memory_mb("VmRSS")
                are_in_sync = len(info.in_sync) == len(memory_mb) == len(self._description.hosts)
                if are_in_sync and min(memory_mb) >= WARM * max(memory_mb):
                    return info
                await asyncio.sleep(0.1)

    async def _info(self) -> GroupInfo:
        return next(each for each in await self._domain.groups() if each.name == NAME)

    def _memory_mb(self, which: str = "VmHWM") -> list[int]:
        """What each host takes of the machine's memory; by default the most that it ever took."""
        found = []
        for host in self._description.hosts:
            holder = holder_of(self._layout.host(host))
            if holder is not None:
                status = Path(f"/proc/{holder.pid}/status").read_text(encoding="ascii")
                (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith(which)]
                found.append(int(peak) // 1024)
        return found


def _windows(checkpoints: list[Window], measured: Window) -> tuple[list[Window], list[Window]]:
    """The times in which a checkpoint was taken by any host, and windows of the time between them."""
    during: list[Window] = []
    for each in sorted(checkpoints, key=lambda window: window.start_ns):
        start = each.start_ns - LEAD_NS
        if during and start <= during[-1].end_ns:
            during[-1] = Window(during[-1].start_ns, max(during[-1].end_ns, each.end_ns))
        else:
            during.append(Window(start, each.end_ns))
    quiet, at = [], measured.start_ns
    for each in (*during, Window(measured.end_ns, measured.end_ns)):
        while at + QUIET_NS <= each.start_ns:
            quiet.append(Window(at, at + QUIET_NS))
            at += QUIET_NS
        at = max(at, each.end_ns)
    return during, quiet


def _judged(delays: list[float], usual: float, failovers: list[float]) -> list[Any]:
    results = []
    if delays:
        name = "state: what a checkpoint adds to the longest call"
        added = [max(each - usual, 0.0) for each in delays]
        results.append(within(name, added, unit="ms", limit=DELAY_TARGET_MS))
    if failovers:
        name = "state: kill -9 of the primary, until calls are answered again"
        results.append(within(name, failovers, unit="ms", limit=FAILOVER_TARGET_MS))
    return results
