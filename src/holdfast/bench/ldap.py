"""The LDAP door compared with slapd and 389-ds: searches, synced modifies, bulk load, memory, CPU time.

All servers are loaded with the same persons and serve side by side; ``ldclt`` asks one after the other the
same, in short windows, so that each window of Holdfast has its peers' a few seconds beside it. The command
line is the same for all but for the port, and is part of the result.

More is measured of Holdfast alone: how long a change takes to a second master, how long one that was away for
too long takes to be filled anew, what a group beside a directory notices of its searches, and what becomes of
searches in a directory that is many times as large. Each part can be run by itself.
"""

import os
import platform
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.bench import Progress, Result, compare, within
from holdfast.bench.directories import DirectoryServer, RunningDirectory
from holdfast.bench.directories.dirsrv import DirectoryServer389
from holdfast.bench.directories.filling import Filling, measure_filling
from holdfast.bench.directories.lag import measure_lag
from holdfast.bench.directories.ldclt import (
    BASE_SEARCH,
    MODIFY,
    SEARCH_BY_UID,
    Shape,
    Throughput,
    Work,
    check_is_here,
    command,
    measure,
)
from holdfast.bench.directories.neighbours import Beside, measure_neighbours
from holdfast.bench.directories.ours import HoldfastDirectory
from holdfast.bench.directories.people import write_people
from holdfast.bench.directories.slapd import Slapd
from holdfast.bench.measuring.usage import footprint
from holdfast.bench.systems import Absent

SLAPD: Final = Slapd().name
DIRSRV: Final = DirectoryServer389().name
MEGABYTE: Final = 1 << 20
PARTS: Final = ("searches", "modifies", "memory", "lag", "filling", "beside", "grown")
"""What can be chosen. ``memory`` is the bulk load and what is resident after it; the first three are beside
peers."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One load, and how many times a peer's rate is wanted."""

    work: Work
    shape: Shape
    targets: dict[str, float]

    @property
    def name(self) -> str:
        return f"{self.work.name}, {self.shape}"


SEARCH_SHAPES: Final = (
    (Shape(1, 1), {SLAPD: 0.5, DIRSRV: 1.0}),
    (Shape(1, 32), {SLAPD: 0.7, DIRSRV: 1.0}),
    (Shape(8, 1), {DIRSRV: 1.0}),
    (Shape(8, 16), {SLAPD: 0.7, DIRSRV: 1.0}),
)
CELLS: Final = (
    *(Cell(work, shape, wanted) for work in (SEARCH_BY_UID, BASE_SEARCH) for shape, wanted in SEARCH_SHAPES),
    Cell(MODIFY, Shape(1, 1), {}),
    Cell(MODIFY, Shape(64, 1), {SLAPD: 2.0}),
)
IMPORT_TARGETS: Final = {SLAPD: 0.1}
MEMORY_TARGETS: Final = {DIRSRV: 1.0}
IMPORT: Final = "bulk load"
FRESH, AFTERWARDS = "resident, fresh", "resident, after the load"
LAG_CHANGES: Final = 300
LAG_MS: Final = 3.0
"""What half of all changes may take to the second master."""
BESIDE_TARGET: Final = 1.3
"""How many times as long the slowest calls of a group may take beside searches as beside any other work."""
GROWN: Final = Cell(SEARCH_BY_UID, Shape(8, 16), {})
GROWN_TARGET: Final = 0.7
"""How much of the rate is left at the larger size."""


class Measured(msgspec.Struct, kw_only=True):
    """One server over all rounds."""

    name: str
    configuration: str = ""
    load_s: float = 0.0
    """How long the bulk load took."""
    fresh_mb: float = 0.0
    afterwards_mb: float = 0.0
    cells: dict[str, list[Throughput | None]] = msgspec.field(default_factory=dict)
    """By the name of the load, one for each round; None for a round in which it failed."""
    absent: str = ""
    failures: list[str] = msgspec.field(default_factory=list)


class Alone(msgspec.Struct, kw_only=True):
    """What is measured of Holdfast without a peer."""

    lags_ms: list[float] = msgspec.field(default_factory=list)
    filling: Filling | None = None
    beside: list[Beside] = msgspec.field(default_factory=list)
    grown_persons: int = 0
    small: list[float] = msgspec.field(default_factory=list)
    grown: list[float] = msgspec.field(default_factory=list)
    """Searches by uid a second in the directory that is compared with the peers', and in the larger one."""
    failures: list[str] = msgspec.field(default_factory=list)


def run_ldap_bench(
    *,
    rounds: int = 3,
    seconds: float = 3.0,
    persons: int = 10_000,
    grown: int = 0,
    parts: Sequence[str] = (),
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Measure every server; *seconds* is the length of each window. A peer that cannot be set up is left out,
    with the reason; without the load generator nothing is measured that needs it. With *grown*, searches are
    also measured in a directory of so many persons. *parts* are some of :data:`PARTS`; none are all but
    filling, which takes minutes."""
    chosen = frozenset(parts or (each for each in PARTS if each != "filling"))
    try:
        check_is_here()
    except Absent as why:
        progress(f"not measured: {why}")
        if not chosen & {"memory", "lag", "filling"}:
            return {"results": [], "absent": str(why)}
        chosen &= {"memory", "lag", "filling"}
    cells = [each for each in CELLS if ("modifies" if each.work is MODIFY else "searches") in chosen]
    measured: list[Measured] = []
    alone = Alone(grown_persons=grown if "grown" in chosen else 0)
    if cells or "memory" in chosen or alone.grown_persons:
        measured = _measure_servers(alone, cells, "memory" in chosen, rounds, seconds, persons, progress)
    if "lag" in chosen:
        _measure_lag(alone, progress)
    if "filling" in chosen:
        _measure_filling(alone, persons, progress)
    if "beside" in chosen:
        _measure_beside(alone, rounds, seconds, progress)
    results = [
        *(judged(measured, persons, is_loaded="memory" in chosen) if measured else ()),
        *_told_alone(alone),
    ]
    return {
        "results": [msgspec.to_builtins(each) for each in results],
        "servers": [msgspec.to_builtins(each) for each in measured],
        "commands": [" ".join(command(each.work, each.shape, persons, "PORT")) for each in cells],
        "failures": [
            *([measured[0].absent] if measured and measured[0].absent else []),
            *(measured[0].failures if measured else ()),
            *alone.failures,
        ],
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load_average": os.getloadavg(),
        },
    }


def _measure_servers(
    alone: Alone,
    cells: Sequence[Cell],
    has_peers: bool,
    rounds: int,
    seconds: float,
    persons: int,
    progress: Progress,
) -> list[Measured]:
    """Load every server and put the loads on all in turn; of Holdfast alone if nothing is compared."""
    servers: tuple[DirectoryServer, ...] = (HoldfastDirectory(), Slapd(), DirectoryServer389())
    if not cells and not has_peers:
        servers = servers[:1]
    measured = [Measured(name=each.name) for each in servers]
    with tempfile.TemporaryDirectory(prefix="holdfast-ldap-") as made, ExitStack() as stack:
        directory = Path(made)
        directory.chmod(0o755)  # 389-ds reads the persons as a user of its own
        ldif = directory / "people.ldif"
        write_people(ldif, persons)
        running = [
            _start(stack, server, found, directory, ldif, progress)
            for server, found in zip(servers, measured, strict=True)
        ]
        for number in range(1, rounds + 1):
            for cell in cells:
                for where, found in zip(running, measured, strict=True):
                    if where is not None:
                        _round(cell, found, where, persons, seconds)
                progress(f"round {number} of {rounds}: {_told(cell, measured)}")
        for where, found in zip(running, measured, strict=True):
            if where is not None:
                found.afterwards_mb = footprint(where.pid).resident_bytes / MEGABYTE
        if alone.grown_persons and running[0] is not None:
            _measure_grown(alone, running[0], directory, persons, rounds, seconds, progress)
    return measured


def _start(
    stack: ExitStack,
    server: DirectoryServer,
    found: Measured,
    directory: Path,
    ldif: Path,
    progress: Progress,
) -> RunningDirectory | None:
    """Load a server and have it serve until the stack ends; None if it cannot."""
    own = directory / server.name
    own.mkdir(mode=0o755)
    try:
        stack.callback(_remove, server, own, progress)
        found.load_s = server.load(own, ldif)
        where = stack.enter_context(server.running(own))
    except Absent as why:
        found.absent = str(why)
        progress(f"{server.name} IS NOT MEASURED: {why}")
        return None
    found.configuration = server.configuration
    found.fresh_mb = footprint(where.pid).resident_bytes / MEGABYTE
    progress(f"{server.name}: loaded in {found.load_s:.2f} s, {found.fresh_mb:.0f} MB resident")
    return where


def _remove(server: DirectoryServer, own: Path, progress: Progress) -> None:
    try:
        server.remove(own)
    except Absent as why:
        progress(f"{server.name} left something behind: {why}")


def _round(cell: Cell, found: Measured, where: RunningDirectory, persons: int, seconds: float) -> None:
    samples = found.cells.setdefault(cell.name, [])
    try:
        samples.append(
            measure(cell.work, cell.shape, persons=persons, port=where.port, pid=where.pid, seconds=seconds)
        )
    except Absent as why:
        samples.append(None)
        found.failures.append(f"{found.name}, {cell.name}: {why}")


def _told(cell: Cell, measured: Sequence[Measured]) -> str:
    said = []
    for each in measured:
        last = each.cells.get(cell.name, [None])[-1]
        said.append(f"{each.name} {last.rate:,.0f}/s" if last is not None else f"{each.name} -")
    return f"{cell.name}: {', '.join(said)}"


# --- of Holdfast alone


def _measure_lag(alone: Alone, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-lag-") as made:
        try:
            alone.lags_ms = sorted(measure_lag(Path(made) / "masters", LAG_CHANGES))
        except Absent as why:
            alone.failures.append(f"replication lag: {why}")
            return
    progress(f"lag of a change: {alone.lags_ms[len(alone.lags_ms) // 2]:.2f} ms (median)")


def _measure_filling(alone: Alone, persons: int, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-filling-") as made:
        try:
            alone.filling = measure_filling(Path(made), persons, progress)
        except Absent as why:
            alone.failures.append(f"a master that is filled anew: {why}")


def _measure_beside(alone: Alone, rounds: int, seconds: float, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-beside-") as made:
        try:
            alone.beside = measure_neighbours(Path(made), rounds=rounds, seconds=seconds, progress=progress)
        except Absent as why:
            alone.failures.append(f"a group beside a directory: {why}")


def _measure_grown(
    alone: Alone,
    small: RunningDirectory,
    directory: Path,
    persons: int,
    rounds: int,
    seconds: float,
    progress: Progress,
) -> None:
    """Search by uid in the small directory and in the large one, in turn."""
    server, own, ldif = HoldfastDirectory(), directory / "grown", directory / "grown.ldif"
    own.mkdir(mode=0o755)
    write_people(ldif, alone.grown_persons)
    try:
        took_s = server.load(own, ldif)
        progress(f"{alone.grown_persons:,} persons: loaded in {took_s:.0f} s")
        with server.running(own) as large:
            for _ in range(rounds):
                for where, count, rates in (
                    (small, persons, alone.small),
                    (large, alone.grown_persons, alone.grown),
                ):
                    asked = measure(
                        GROWN.work,
                        GROWN.shape,
                        persons=count,
                        port=where.port,
                        pid=where.pid,
                        seconds=seconds,
                    )
                    rates.append(asked.rate)
                progress(f"{GROWN.name}: {alone.small[-1]:,.0f}/s, grown {alone.grown[-1]:,.0f}/s")
    except Absent as why:
        alone.failures.append(f"{alone.grown_persons:,} persons: {why}")


def _told_alone(alone: Alone) -> list[Result]:
    results = []
    if alone.lags_ms:
        results.append(
            within("lag of a change to a second master, median", alone.lags_ms, unit="ms", limit=LAG_MS)
        )
    if alone.filling is not None:
        found = alone.filling
        name = f"a master of {found.persons:,} filled anew (3 x cp and fsync, + 1 s)"
        results.append(within(name, [found.took_s], unit="s", limit=found.limit_s))
    if alone.beside:
        results.append(
            compare(
                "p99 of a group's calls beside 8 × 16 searches",
                [each.searches_p99_ms for each in alone.beside],
                [each.strangers_p99_ms for each in alone.beside],
                unit="ms",
                other_name="strangers",
                target=BESIDE_TARGET,
                is_at_most=True,
            )
        )
    if alone.grown:
        results.append(
            compare(
                f"{GROWN.name}, {alone.grown_persons:,} persons",
                alone.grown,
                alone.small[: len(alone.grown)],
                unit="/s",
                other_name="the smaller directory",
                target=GROWN_TARGET,
            )
        )
    return results


# --- what it comes to


def judged(measured: Sequence[Measured], persons: int, *, is_loaded: bool = True) -> list[Result]:
    """Holdfast beside each peer: rates and CPU time of each load; if *is_loaded* is wanted, the bulk load and
    memory."""
    ours, *peers = measured
    results = []
    for cell in CELLS:
        results += [row for peer in peers for row in _beside(cell, ours, peer)]
    for peer in peers:
        if not is_loaded or ours.absent or peer.absent:
            continue
        results.append(
            compare(
                f"{IMPORT} of {persons:,}",
                [persons / ours.load_s],
                [persons / peer.load_s],
                unit="entries/s",
                other_name=peer.name,
                target=IMPORT_TARGETS.get(peer.name),
            )
        )
        for name, mine, other in (
            (FRESH, ours.fresh_mb, peer.fresh_mb),
            (AFTERWARDS, ours.afterwards_mb, peer.afterwards_mb),
        ):
            results.append(
                compare(
                    f"{name}, {persons:,} persons",
                    [mine],
                    [other],
                    unit="MB",
                    other_name=peer.name,
                    target=MEMORY_TARGETS.get(peer.name),
                    is_at_most=True,
                )
            )
    return results


def _beside(cell: Cell, ours: Measured, peer: Measured) -> list[Result]:
    pairs = [
        (mine, other)
        for mine, other in zip(ours.cells.get(cell.name, ()), peer.cells.get(cell.name, ()), strict=False)
        if mine is not None and other is not None
    ]
    if not pairs:
        return []
    return [
        compare(
            cell.name,
            [mine.rate for mine, _ in pairs],
            [other.rate for _, other in pairs],
            unit="/s",
            other_name=peer.name,
            target=cell.targets.get(peer.name),
        ),
        compare(
            f"{cell.name}: CPU per 1,000",
            [mine.cpu_s_per_1000 for mine, _ in pairs],
            [other.cpu_s_per_1000 for _, other in pairs],
            unit="s",
            other_name=peer.name,
            target=None,
            is_at_most=True,
        ),
    ]
