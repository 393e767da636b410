"""What a large object costs its callers: delays while checkpoints are taken, and failover (E5).

A warm group of three real hosts has an object of the given size and is called without pause. Its hosts take
checkpoints meanwhile, again and again. The calls during each checkpoint are compared with the calls of the
same length of time without one around it. Then the primary is killed, again and again.

The longest of thousands of calls is often one that met a disk that stalled for everyone. So a witness watches
the disk, and calls are also compared by the time they took beyond those stalls. What checkpoints do to the
disk itself shows in the witness's own syncs, during and without a checkpoint.
"""

import asyncio
import gc
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import uvloop

from holdfast.agent.startup import describe, start_agent, wait_until_alive
from holdfast.agent.status_client import signal_holder, url_of
from holdfast.bench import Progress, Result, within
from holdfast.bench.measuring.callers import Callers, quantile
from holdfast.bench.measuring.checkpoints import CheckpointWatch, Testimony, Witness, witnessing
from holdfast.bench.measuring.usage import Pair, Window, paired
from holdfast.bench.objects import CLASSES, ENTRY_BYTES, key_of
from holdfast.calling.config import CallPolicy
from holdfast.client.domain import Domain, connect
from holdfast.client.proxy import Group
from holdfast.machine import MachineClock
from holdfast.model.admin.groups import GroupInfo
from holdfast.model.errors import Unavailable
from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.node.layout import Description, Layout
from holdfast.storage.lock import holder_of

NAME: Final = "bulk"
MEMO: Final = "x" * 128
"""Makes the log grow so fast that a checkpoint is due about every fifteen seconds."""
GROW_BY: Final = 5_000
"""Accounts opened by one call: some milliseconds of work."""
GROWING_AT_ONCE: Final = 8
WAIT_S: Final = 180.0
POLL_S: Final = 0.005
LEAD_NS: Final = SECOND // 4
"""How long before it is seen a checkpoint may have delayed calls."""
TAIL_NS: Final = SECOND // 2
"""How long after it has its name it may still delay calls: an older checkpoint is removed."""
CALM_MS: Final = 50.0
CALM_S: Final = 60.0
CALM_CALLS: Final = 100
"""After this many shorter calls in a row, the backups have caught up with what made the object large."""
WARM_UP_S: Final = 5.0
"""How long the load runs before anything is measured."""
WARM: Final = 0.8
"""A host with this share of the memory that the largest host has counts as having loaded the object."""
TAIL_SHARE: Final = 0.999
DELAY_TARGET_MS: Final = 20.0
FAILOVER_TARGET_MS: Final = 300.0

_clock = MachineClock()


def run_state_bench(
    *,
    megabytes: int = 100,
    callers: int = 32,
    seconds: float = 90.0,
    rounds: int = 5,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Call an object of *megabytes* for *seconds*, then kill its primary *rounds* times."""
    with tempfile.TemporaryDirectory(prefix="holdfast-state-") as directory:
        layout = Layout(Path(directory) / "domain")
        description = describe(layout, hosts=3, etcd=(), allowed_classes=CLASSES)
        agent = start_agent(layout, with_parent=True)

        async def measure() -> dict[str, Any]:
            await wait_until_alive(layout, description, agent, within_s=WAIT_S, progress=lambda _: None)
            policy = CallPolicy(duration_ns=round(WAIT_S * SECOND))
            async with connect(
                await url_of(layout, description), dir=layout.directory, policy=policy
            ) as domain:
                with witnessing(Path(directory)) as testimony:
                    bench = _Bench(layout, description, domain, testimony, progress)
                    return await bench.run(megabytes, callers, seconds, rounds)

        try:
            return uvloop.run(measure())
        finally:
            agent.terminate()
            agent.wait()


@dataclass(frozen=True, slots=True)
class Delay:
    """The calls during a checkpoint compared with those of as many seconds without one."""

    longest_ms: float
    longest_without_ms: float
    tail_ms: float
    """99.9 % of the calls were shorter."""
    tail_without_ms: float
    moving_ms: float
    """The longest call, not counting the time in which the disk stalled for everyone."""
    moving_without_ms: float
    disk_ms: float
    """The longest stall of the disk."""
    disk_without_ms: float

    @classmethod
    def of(cls, pair: Pair, callers: Callers, witness: Witness) -> "Delay":
        during, quiet = callers.took_ms([pair.during]), callers.took_ms(pair.quiet)

        def moving_ms(windows: Sequence[Window]) -> float:
            calls = callers.under_way(windows)
            took = [each.length_ns - witness.stalled_ns(each) for each in calls]
            return max(took, default=0) / MILLISECOND

        return cls(
            moving_ms=moving_ms([pair.during]),
            moving_without_ms=moving_ms(pair.quiet),
            disk_ms=witness.longest_ns([pair.during]) / MILLISECOND,
            disk_without_ms=witness.longest_ns(pair.quiet) / MILLISECOND,
            longest_ms=max(during, default=0.0),
            longest_without_ms=max(quiet, default=0.0),
            tail_ms=quantile(during, TAIL_SHARE),
            tail_without_ms=quantile(quiet, TAIL_SHARE),
        )

    @property
    def added_ms(self) -> float:
        return self.longest_ms - self.longest_without_ms

    @property
    def added_moving_ms(self) -> float:
        return self.moving_ms - self.moving_without_ms

    @property
    def added_to_tail_ms(self) -> float:
        return self.tail_ms - self.tail_without_ms


class _Bench:
    def __init__(
        self,
        layout: Layout,
        description: Description,
        domain: Domain,
        testimony: Testimony,
        progress: Progress,
    ) -> None:
        self._layout = layout
        self._description = description
        self._domain = domain
        self._testimony = testimony
        self._progress = progress

    async def run(self, megabytes: int, callers: int, seconds: float, rounds: int) -> dict[str, Any]:
        accounts = max(megabytes * 1_000_000 // ENTRY_BYTES, 1)
        group = await self._domain.create("holdfast.bench.objects:Bulk", name=NAME, style="warm_passive")
        await self._grow(group, accounts)
        await self._calm_down(group)
        gc.collect()
        gc.freeze()  # so that the collector does not scan what is loaded by now in the middle of a call

        async def call(random: Random) -> None:
            await group.add(key_of(random.randrange(accounts)), 1, MEMO)

        calls, watch = Callers(call), CheckpointWatch(self._layout, self._description)
        watching = asyncio.create_task(watch.always())
        async with calls.calling(callers):
            await asyncio.sleep(WARM_UP_S)
            measured = await self._watch_load(seconds, calls, watch)
            checkpoints, pairs = list(watch.finished), _pairs(watch, measured.start_ns)
            memory_mb = self._memory_mb()
            failovers = [await self._fail_over(calls, number, rounds) for number in range(rounds)]
        watching.cancel()
        witness = self._testimony.read()
        delays = [Delay.of(pair, calls, witness) for pair in pairs]
        if not delays:
            raise Unavailable(f"no checkpoint was begun and finished in {seconds:g} s")
        return {
            "results": [msgspec.to_builtins(each) for each in _judged(delays, failovers)],
            "megabytes": megabytes,
            "callers": callers,
            "calls": len(calls),
            "calls_failed": calls.failed,
            "checkpoints": len(checkpoints),
            "checkpoint_ms": [round(each.length_ns / MILLISECOND) for each in checkpoints],
            "longest_call_ms": [round(each.longest_ms, 1) for each in delays],
            "longest_call_without_ms": [round(each.longest_without_ms, 1) for each in delays],
            "p99_9_ms": [round(each.tail_ms, 1) for each in delays],
            "p99_9_without_ms": [round(each.tail_without_ms, 1) for each in delays],
            "longest_call_beyond_disk_ms": [round(each.moving_ms, 1) for each in delays],
            "longest_call_beyond_disk_without_ms": [round(each.moving_without_ms, 1) for each in delays],
            "longest_disk_stall_ms": [round(each.disk_ms, 1) for each in delays],
            "longest_disk_stall_without_ms": [round(each.disk_without_ms, 1) for each in delays],
            "delay_worst_ms": round(max(each.added_ms for each in delays), 1),
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
        """Wait until calls take their usual time; but not forever, as some machines are never calm."""
        calm, until = 0, _clock.now() + round(CALM_S * SECOND)
        while calm < CALM_CALLS and _clock.now() < until:
            began = _clock.now()
            await group.add(key_of(0), 1, MEMO)
            calm = calm + 1 if (_clock.now() - began) / MILLISECOND < CALM_MS else 0

    async def _watch_load(self, seconds: float, calls: Callers, watch: CheckpointWatch) -> Window:
        """Watch the load for that many seconds.

        If no checkpoint has finished by then, wait longer until one has.
        """
        began, second = _clock.now(), 0
        while second < seconds or (second < seconds + WAIT_S and not _pairs(watch, began)):
            second += 1
            before = len(calls)
            await asyncio.sleep(1.0)
            if second % 5 == 0:
                rate = len(calls) - before
                self._progress(f"under load: {second} s, {rate} calls/s, {len(watch.finished)} checkpoints")
        return Window(began, _clock.now())

    async def _fail_over(self, calls: Callers, number: int, rounds: int) -> float:
        info = await self._wait_until_warm()
        await asyncio.sleep(1.0)
        killed_at = _clock.now()
        signal_holder(self._layout.host(info.primary), signal.SIGKILL)
        answered_at = None
        async with asyncio.timeout(WAIT_S):
            while answered_at is None:
                await asyncio.sleep(POLL_S)
                answered_at = calls.answered_again_ns(killed_at)
        took_ms = (answered_at - killed_at) / MILLISECOND
        self._progress(f"kill {number + 1} of {rounds}: {took_ms:.0f} ms without an answer")
        return took_ms

    async def _wait_until_warm(self) -> GroupInfo:
        """Wait until every member is in sync and, as its host's memory shows, has loaded the object again."""
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
        """Return the memory that each host uses; by default the most that it ever used."""
        found = []
        for host in self._description.hosts:
            holder = holder_of(self._layout.host(host))
            if holder is not None:
                status = Path(f"/proc/{holder.pid}/status").read_text(encoding="ascii")
                (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith(which)]
                found.append(int(peak) // 1024)
        return found


def _pairs(watch: CheckpointWatch, began_ns: int) -> list[Pair]:
    """Return the checkpoints so far, each with the time without one that it is compared with."""
    now = _clock.now()
    return paired(map(_felt, watch.activity(now)), Window(began_ns, now))


def _felt(checkpoint: Window) -> Window:
    """Return the time in which a checkpoint may affect calls."""
    return Window(checkpoint.start_ns - LEAD_NS, checkpoint.end_ns + TAIL_NS)


def _judged(delays: Sequence[Delay], failovers: Sequence[float]) -> list[Result]:
    longest = [each.added_ms for each in delays]
    moving = [each.added_moving_ms for each in delays]
    tail = [each.added_to_tail_ms for each in delays]
    results = [
        within("state: added by a checkpoint to the longest call", longest, unit="ms", limit=DELAY_TARGET_MS),
        within("state: the same, beyond what the disk stood", moving, unit="ms", limit=DELAY_TARGET_MS),
        within("state: added by a checkpoint to p99.9", tail, unit="ms", limit=DELAY_TARGET_MS),
    ]
    if failovers:
        name = "state: kill -9 of the primary, until calls are answered again"
        results.append(within(name, failovers, unit="ms", limit=FAILOVER_TARGET_MS))
    return results
