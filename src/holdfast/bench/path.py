"""What a call costs in each process on its way, counted: Python calls, encodings, system calls, syncs.

A domain of three hosts is called by one caller and with a thousand calls in flight, on disk and in memory.
What the processes do anyway (heartbeats, leases) is counted while nobody calls, for as long as the load
lasts, and taken off. The counts hold on a busy machine, so that tests bound them (``tests/perf``); the rates
of these runs say nothing, because every process runs under a profiler.

System calls are counted by strace, where it is installed: all of them, and among them the turns of a loop
(waits for events), the writes, the reads, the wake-ups of threads, and the syncs.
"""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop
from msgspec import Struct

from holdfast.bench import Progress, number
from holdfast.bench.measuring.call_counts import KINDS, PYTHON, counted, read_counts
from holdfast.bench.report import MANY
from holdfast.bench.systems import Durability
from holdfast.bench.systems.ours import Holdfast, RunningHoldfast

WARM_UP_S: Final = 0.5
ROLES: Final = ("client", "primary", "backup")
SYSTEM: Final = "system calls"
SORTS: Final[Mapping[str, frozenset[str]]] = {
    "turns": frozenset({"epoll_wait", "epoll_pwait", "epoll_pwait2"}),
    "writes": frozenset({"write", "writev", "sendto", "sendmsg", "sendmmsg"}),
    "reads": frozenset({"read", "readv", "recvfrom", "recvmsg", "recvmmsg"}),
    "wake-ups": frozenset({"futex"}),
    "syncs": frozenset({"fsync", "fdatasync", "pwritev2", "sync_file_range"}),
}
STRACE_S: Final = 5.0
"""How long strace may take to begin and to end."""


LOADS: Final = {1: "one caller", MANY: f"{MANY:,} in flight"}
"""By how many calls are in flight."""
DURABILITIES: Final[tuple[Durability, ...]] = ("disk", "memory")


class Row(Struct, frozen=True, kw_only=True):
    """What one call takes in the process of one role; of the backups, the one that takes more."""

    load: str
    role: str
    per_call: dict[str, float]


PerCall = dict[int, dict[str, dict[str, float]]]
"""By how many calls are in flight, by role and by kind."""


def run_path_bench(*, seconds: float = 2.0, progress: Progress = lambda _: None) -> dict[str, Any]:
    """Count each load for *seconds*."""
    rows: list[Row] = []
    for durability in DURABILITIES:
        progress(f"{durability}: Python")
        counts = uvloop.run(python_calls(durability, seconds))
        system: PerCall = {}
        if shutil.which("strace"):
            progress(f"{durability}: system calls")
            system = uvloop.run(_system_calls(durability, seconds))
        rows += [
            Row(
                load=f"{durability}, {load}",
                role=role,
                per_call=counts[many][role] | system.get(many, {}).get(role, {}),
            )
            for many, load in LOADS.items()
            for role in ROLES
        ]
    return {
        "results": [],
        "rows": [msgspec.to_builtins(row) for row in rows],
        "absent": "" if shutil.which("strace") else "system calls: strace is not installed",
    }


COLUMNS: Final = ("load", "process", *KINDS, SYSTEM, *SORTS)


def cells(row: Row) -> tuple[str, ...]:
    """Return *row* as a row of the table, per call."""
    found = [row.per_call.get(kind) for kind in (*KINDS, SYSTEM, *SORTS)]
    return (row.load, row.role, *("-" if each is None else number(each) for each in found))


async def python_calls(durability: Durability, seconds: float) -> PerCall:
    """What one call takes of Python."""
    with tempfile.TemporaryDirectory(prefix="holdfast-path-") as directory:
        counts = Path(directory) / "counts"
        counts.mkdir()
        with counted(counts):
            async with Holdfast(durability).running(Path(directory)) as running:
                return await _per_call(running, seconds, _CountedProcesses(counts, running.pids))


async def _system_calls(durability: Durability, seconds: float) -> PerCall:
    with tempfile.TemporaryDirectory(prefix="holdfast-path-") as directory:
        async with Holdfast(durability).running(Path(directory)) as running:
            return await _per_call(running, seconds, _Straced(Path(directory), running.pids))


Totals = dict[str, dict[str, int]]
"""By process and kind."""


class _CountedProcesses:
    def __init__(self, directory: Path, pids: Mapping[str, int]) -> None:
        self._directory = directory
        self._pids = pids

    @asynccontextmanager
    async def during(self, totals: Totals) -> AsyncIterator[None]:
        """Add to *totals* what is counted in the context."""
        before = {name: read_counts(self._directory, pid) for name, pid in self._pids.items()}
        yield
        for name, pid in self._pids.items():
            after = read_counts(self._directory, pid)
            totals[name] = {kind: after[kind] - before[name][kind] for kind in after}


class _Straced:
    def __init__(self, directory: Path, pids: Mapping[str, int]) -> None:
        self._directory = directory
        self._pids = pids

    @asynccontextmanager
    async def during(self, totals: Totals) -> AsyncIterator[None]:
        """Add to *totals* what is counted in the context."""
        tracers = {
            name: await asyncio.create_subprocess_exec(
                *("strace", "-f", "-c", "-U", "calls,name", "-o", str(self._directory / f"{name}.strace")),
                *("-p", str(pid)),
                stdin=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            for name, pid in self._pids.items()
        }
        for tracer in tracers.values():
            assert tracer.stderr is not None
            await asyncio.wait_for(tracer.stderr.readline(), STRACE_S)  # "Process N attached"
        yield
        for name, tracer in tracers.items():
            tracer.send_signal(signal.SIGINT)
            await asyncio.wait_for(tracer.communicate(), STRACE_S)
            totals[name] = system_calls((self._directory / f"{name}.strace").read_text().splitlines())


def system_calls(lines: Sequence[str]) -> dict[str, int]:
    """What strace's summary says, by sort."""
    found = {SYSTEM: 0} | dict.fromkeys(SORTS, 0)
    for line in lines:
        count, _, name = line.strip().partition(" ")
        name = name.strip()
        if not count.isdigit() or name == "total":
            continue
        found[SYSTEM] += int(count)
        for sort, names in SORTS.items():
            if name in names:
                found[sort] += int(count)
    return found


async def _per_call(
    running: RunningHoldfast, seconds: float, counter: _CountedProcesses | _Straced
) -> PerCall:
    await running.load(in_flight=MANY, seconds=WARM_UP_S)
    idle: Totals = {}
    async with counter.during(idle):
        await asyncio.sleep(seconds)
    found: PerCall = {}
    for many in LOADS:
        loaded: Totals = {}
        async with counter.during(loaded):
            load = await running.load(in_flight=many, seconds=seconds)
        share = load.seconds / seconds
        per_call = {
            name: {kind: max(0.0, (kinds[kind] - share * idle[name][kind]) / load.calls) for kind in kinds}
            for name, kinds in loaded.items()
        }
        primary = str((await running.info()).primary)
        backups = [per_call[name] for name in per_call if name not in ("client", primary)]
        heavier = max(backups, key=lambda each: each.get(PYTHON, each.get(SYSTEM, 0.0)))
        found[many] = {"client": per_call["client"], "primary": per_call[primary], "backup": heavier}
    return found
