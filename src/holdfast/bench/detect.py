"""How soon each kind of fault is detected and recovered from, and how often healthy hosts are suspected.

Every kind is compared with what is configured for it. A dead process is compared with 20 ms, since its agent
has proof at once; the other faults show only by silence, and are compared with their timeouts. The kernel's
own share of detecting a death is measured as well: a bare child is killed -9 and seen through a pidfd.
"""

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
import uvloop

from holdfast.bench import Progress, Result, number, within
from holdfast.bench.measuring.callers import quantile
from holdfast.bench.measuring.cut_host import measure_unreachable
from holdfast.bench.measuring.harm import (
    GRACE_MS,
    INTERVAL_MS,
    TIMEOUT_MS,
    Subject,
    Times,
    block,
    kill,
    say_no,
    stand,
    stop,
    subject,
)
from holdfast.bench.overload import Overload, measure_overload
from holdfast.machine import MachineClock
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import MILLISECOND

TARGET_MS: Final = 20.0
"""The target for detecting a death."""
SLACK: Final = 1.2
"""The factor by which a configured time may be exceeded."""
KILL, UNREACHABLE = "kill -9", "unreachable"

_clock = MachineClock()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault, and the time within which it must be detected."""

    configured: str
    limit_ms: float
    harm: Callable[[Subject], Awaitable[Times]] | None = None
    """None if the fault is caused elsewhere."""


KINDS: Final = {
    KILL: Kind("told by the agent", TARGET_MS, kill),
    "SIGSTOP": Kind(f"grace {GRACE_MS:.0f} ms", SLACK * GRACE_MS, stop),
    UNREACHABLE: Kind(f"grace {GRACE_MS:.0f} ms", SLACK * GRACE_MS),
    "is_alive false": Kind(f"asked every {INTERVAL_MS} ms", SLACK * INTERVAL_MS, say_no),
    "is_alive blocked": Kind(f"timeout {TIMEOUT_MS} ms", SLACK * TIMEOUT_MS, block),
    "loop blocked": Kind(f"timeout {TIMEOUT_MS} ms", SLACK * TIMEOUT_MS, stand),
}


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one kind; times in milliseconds since the harm. This is an interface: only add to it."""

    kind: str
    configured: str
    limit_ms: float
    rounds: int
    detection_ms: tuple[float, ...]
    detection_median_ms: float
    detection_p99_ms: float
    recovery_ms: tuple[float, ...]
    recovery_median_ms: float
    recovery_p99_ms: float
    met: bool
    """Whether even the slowest detection was within the limit."""

    @classmethod
    def of(cls, name: str, kind: Kind, times: Sequence[Times]) -> "Measured":
        detected, recovered = (
            [round(getattr(each, field), 2) for each in times] for field in ("detected_ms", "recovered_ms")
        )
        return cls(
            kind=name,
            configured=kind.configured,
            limit_ms=round(kind.limit_ms, 1),
            rounds=len(times),
            detection_ms=tuple(detected),
            detection_median_ms=median(detected),
            detection_p99_ms=quantile(sorted(detected), 0.99),
            recovery_ms=tuple(recovered),
            recovery_median_ms=median(recovered),
            recovery_p99_ms=quantile(sorted(recovered), 0.99),
            met=quantile(sorted(detected), 0.99) <= kind.limit_ms,
        )

    def results(self) -> list[Result]:
        """Return two results: the median and the p99 are judged separately."""
        name = f"detect: {self.kind}"
        return [
            within(f"{name}, median", self.detection_ms, unit="ms", limit=self.limit_ms),
            within(f"{name}, p99", [self.detection_p99_ms], unit="ms", limit=self.limit_ms),
        ]


def run_detect_bench(
    *,
    rounds: int = 20,
    overload_seconds: float = 600.0,
    kinds: Sequence[str] = (),
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Measure these *kinds* of faults, or all, *rounds* times each.

    Then measure false suspicions for *overload_seconds*.
    """
    wanted = _wanted(kinds)
    measured: list[Measured] = []
    skipped: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-detect-") as directory:
        root = Path(directory)
        here = {name: kind for name, kind in wanted.items() if kind.harm is not None}
        if here:
            (root / "here").mkdir()
            measured += uvloop.run(_measure(root / "here", here, rounds, progress))
        if UNREACHABLE in wanted:
            (root / "apart").mkdir()
            try:
                times = measure_unreachable(root / "apart", rounds, progress)
                measured.append(Measured.of(UNREACHABLE, wanted[UNREACHABLE], times))
            except Unavailable as error:
                skipped[UNREACHABLE] = str(error)
                progress(f"SKIPPED: {UNREACHABLE}: {error}")
        (root / "overload").mkdir()
        overload = None
        if overload_seconds > 0:
            progress(f"overload: {overload_seconds:.0f} s")
            overload = uvloop.run(measure_overload(root / "overload", overload_seconds, progress))
    return _found(measured, skipped, overload)


def _wanted(kinds: Sequence[str]) -> dict[str, Kind]:
    unknown = [each for each in kinds if each not in KINDS]
    if unknown:
        raise InvalidRequest(f"no fault {unknown[0]!r}; there are: {', '.join(KINDS)}")
    return {name: kind for name, kind in KINDS.items() if not kinds or name in kinds}


async def _measure(
    directory: Path, kinds: dict[str, Kind], rounds: int, progress: Progress
) -> list[Measured]:
    found = []
    async with subject(directory) as made:
        for name, kind in kinds.items():
            assert kind.harm is not None
            times: list[Times] = []
            for done in range(rounds):
                times.append(await kind.harm(made))
                last = times[-1]
                progress(
                    f"{name} {done + 1} of {rounds}: known after {last.detected_ms:.1f} ms, "
                    f"served again after {last.recovered_ms:.1f} ms"
                )
            found.append(Measured.of(name, kind, times))
    return found


def _found(measured: list[Measured], skipped: dict[str, str], overload: Overload | None) -> dict[str, Any]:
    results = [result for each in measured for result in each.results()]
    found: dict[str, Any] = {
        "results": msgspec.to_builtins(results),
        "kinds": msgspec.to_builtins(measured),
        "skipped": skipped,
        "overload": None,
    }
    if overload is not None:
        per_hour = round(overload.suspicions_per_hour, 2)
        met = overload.wrong_failovers == 0
        found["overload"] = {**msgspec.to_builtins(overload), "suspicions_per_hour": per_hour, "met": met}
    for each in measured:
        if each.kind == KILL:
            found |= _of_deaths(each)
    return found


def _of_deaths(killed: Measured) -> dict[str, Any]:
    """Return the fields that scripts read before other kinds were measured."""
    kernel = [_bare_death_ms() for _ in range(killed.rounds)]
    return {
        "name": "detect: kill -9, until the last of the other hosts is told",
        "rounds": killed.rounds,
        "detection_ms": list(killed.detection_ms),
        "median_ms": killed.detection_median_ms,
        "worst_ms": max(killed.detection_ms),
        "kernel_median_ms": round(median(kernel), 2),
        "ratio": round(killed.detection_median_ms / median(kernel), 2),
        "target_ms": TARGET_MS,
        "met": killed.detection_median_ms <= TARGET_MS,
    }


def _bare_death_ms() -> float:
    """Return the time from the kill -9 of an idle child until its parent knows."""
    with subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=-1
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        pidfd = os.pidfd_open(child.pid)
        killed_at = _clock.now()
        child.kill()
        select.select([pidfd], [], [])
        elapsed = _clock.now() - killed_at
        os.close(pidfd)
    return elapsed / MILLISECOND


COLUMNS: Final = ("fault", "configured", "known, median", "p99", "limit", "served again, median", "p99", "")


def kind_row(each: Measured) -> tuple[str, ...]:
    """Return one kind as a row for people."""
    times = (each.detection_median_ms, each.detection_p99_ms, each.limit_ms)
    known, known_late, limit = (f"{number(value)} ms" for value in times)
    served, served_late = (f"{number(value)} ms" for value in (each.recovery_median_ms, each.recovery_p99_ms))
    verdict = "met" if each.met else "MISSED"
    return (each.kind, each.configured, known, known_late, f"≤ {limit}", served, served_late, verdict)
