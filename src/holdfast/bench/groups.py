"""Groups compared with other replicated systems, in the same run on the same machine.

In every round each system is started anew, warmed up, measured with one caller and with a thousand calls in
flight, and loses its leader to kill -9; then the next system follows. So Holdfast and each peer form pairs, a
few seconds apart, and the median of the pairs' ratios is judged. Client and members all run on one machine:
the comparison is of what a call costs in CPU time and syncs, not of a network.
"""

import logging
import os
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
import uvloop

from holdfast.bench import Progress, Result, compare, within
from holdfast.bench.report import FAIL_OVER, FAIL_OVER_MS_MAX, MANY, MEASURES, TARGETS, Measure, Sample
from holdfast.bench.systems import Absent, Durability, System
from holdfast.bench.systems.etcd import Etcd
from holdfast.bench.systems.grpc import CallFailed
from holdfast.bench.systems.ours import Holdfast
from holdfast.bench.systems.pysyncobj import PySyncObj
from holdfast.bench.systems.redis import Redis
from holdfast.model.errors import HoldfastError

WARM_UP_S: Final = 0.5
FAILURES: Final = (HoldfastError, CallFailed, OSError, ExceptionGroup)
"""The errors that a system may fail with in a round; the other systems still run."""
DURABILITIES: Final[tuple[Durability, ...]] = ("disk", "memory")
OURS: Final = Holdfast().name
SYSTEMS: Final[tuple[System, ...]] = (
    Holdfast("disk"),
    Etcd("disk"),
    Redis("disk"),
    Holdfast("memory"),
    PySyncObj(),
    PySyncObj(is_tuned=False),
    Etcd("memory"),
    Redis("memory"),
)
"""The systems in the order of every round: a peer follows Holdfast at the same durability."""


class Measured(msgspec.Struct, kw_only=True):
    """The results of one system over all rounds."""

    name: str
    durability: Durability
    configuration: str
    samples: list[Sample | None]
    """One sample for each round; None for a round in which the system failed."""
    absent: str = ""
    """Why the system was not measured."""
    failures: list[str] = msgspec.field(default_factory=list)
    """What went wrong in the rounds without a sample."""


def run_groups_bench(
    *, rounds: int = 5, seconds: float = 2.0, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """Measure every system; *seconds* is the time of each load in each round.

    A peer that fails in a round is left out of it; a failure of Holdfast is listed among the *failures*.
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    measured = uvloop.run(_measure(rounds, seconds, progress))
    return {
        "results": [msgspec.to_builtins(result) for result in judged(measured)],
        "systems": [msgspec.to_builtins(each) for each in measured],
        "failures": [said for each in measured if each.name == OURS for said in each.failures],
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load_average": os.getloadavg(),
        },
    }


async def _measure(rounds: int, seconds: float, progress: Progress) -> list[Measured]:
    measured = [
        Measured(name=each.name, durability=each.durability, configuration="", samples=[]) for each in SYSTEMS
    ]
    for number in range(1, rounds + 1):
        for system, found in zip(SYSTEMS, measured, strict=True):
            if found.absent:
                continue
            try:
                sample = await _sample(system, seconds)
            except Absent as why:
                found.absent = str(why)
                progress(f"{system.name} is not measured: {why}")
                continue
            except FAILURES as error:
                found.samples.append(None)
                found.failures.append(f"{system.name} ({system.durability}), round {number}: {error!r}")
                progress(f"failed: {found.failures[-1]}")
                continue
            found.configuration = system.configuration
            found.samples.append(sample)
            progress(f"round {number} of {rounds}: {_told(system, sample)}")
    return measured


async def _sample(system: System, seconds: float) -> Sample:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        async with system.running(Path(directory)) as running:
            await running.load(in_flight=1, seconds=WARM_UP_S)
            one = await running.load(in_flight=1, seconds=seconds)
            await running.load(in_flight=MANY, seconds=WARM_UP_S)
            many = await running.load(in_flight=MANY, seconds=seconds)
            fail_over_s = await running.fail_over()
    return Sample(
        one=one, many=many, fail_over_ms=None if fail_over_s is None else round(fail_over_s * 1000, 2)
    )


def _told(system: System, sample: Sample) -> str:
    fail_over = "" if sample.fail_over_ms is None else f", failover {sample.fail_over_ms:,.0f} ms"
    rates = f"{sample.one.rate:,.0f}/s one by one, {sample.many.rate:,.0f}/s with {MANY:,} in flight"
    return f"{system.name} ({system.durability}): {rates}{fail_over}"


def judged(measured: Sequence[Measured]) -> list[Result]:
    """Compare Holdfast with every peer of the same durability, measure by measure."""
    results = []
    for durability in DURABILITIES:
        ours, *peers = [each for each in measured if each.durability == durability]
        for measure in MEASURES:
            results += [
                result for peer in peers if (result := _beside(ours, peer, measure, durability)) is not None
            ]
            own = [value for value in _values(ours, measure) if value is not None]
            if measure is FAIL_OVER and own:
                name = f"{durability}: {measure.name}"
                results.append(within(name, own, unit=measure.unit, limit=FAIL_OVER_MS_MAX))
    return results


def _beside(ours: Measured, peer: Measured, measure: Measure, durability: Durability) -> Result | None:
    rounds = zip(_values(ours, measure), _values(peer, measure), strict=False)
    pairs = [(own, other) for own, other in rounds if own is not None and other is not None]
    if not pairs:
        return None
    target = next(
        (
            each.ratio
            for each in TARGETS
            if each.measure is measure and each.durability == durability and each.peer == peer.name
        ),
        None,
    )
    return compare(
        f"{durability}: {measure.name}",
        [own for own, _ in pairs],
        [other for _, other in pairs],
        unit=measure.unit,
        other_name=peer.name,
        target=target,
        is_at_most=measure.is_less_better,
    )


def _values(system: Measured, measure: Measure) -> list[float | None]:
    """Return the values of one measure, round by round."""
    return [None if sample is None else measure.of(sample) for sample in system.samples]
