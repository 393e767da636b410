"""What many runs showed, added up. The fields of :class:`Summary` are an interface: only add."""

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.model.errors import InvalidRequest
from holdfast.sim.options import Options
from holdfast.sim.simulation import Outcome
from holdfast.sim.world import Violation

FAILURES: Final = Path(".holdfast-sim") / "failures"
"""Where failing runs are kept, below the working directory."""
VERSION: Final = 1


class Found(Struct, frozen=True, kw_only=True):
    """One violation, and how to see it again."""

    seed: int
    rule: str
    message: str
    at_ns: int
    replay: str


class Summary(Struct, frozen=True, kw_only=True):
    """A range of seeds of one scenario."""

    scenario: str
    profile: str
    seeds: int
    faults: dict[str, int]
    operations: int
    violations: list[Found]
    violation_count: int
    unavailable: int
    unavailable_reasons: dict[str, int]
    events: int
    events_per_cpu_second: int
    cpu_seconds: float
    simulated_seconds: float
    sometimes: dict[str, int]
    trace_hash: str


class Failure(Struct, frozen=True, kw_only=True):
    """A failing run, kept for ever: what it was, and the smallest form it was shrunk to."""

    version: int = VERSION
    violation: Violation
    options: Options
    """The shrunk run; this is what is replayed."""
    original: Options
    shrink_runs: int = 0


def summarize(
    scenario: str,
    profile: str,
    outcomes: Iterable[Outcome],
    *,
    cpu_ns: int,
    replays: dict[int, str],
) -> Summary:
    """Add up *outcomes*, given in the order of their seeds; *replays* says how to see a failing one again."""
    faults: Counter[str] = Counter()
    sometimes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    found: list[Found] = []
    digest = blake2b(digest_size=16)
    seeds = operations = events = simulated_ns = unavailable = 0
    for outcome in outcomes:
        seeds += 1
        operations += outcome.operations
        events += outcome.events
        simulated_ns += outcome.simulated_ns
        unavailable += bool(outcome.unavailable)
        faults.update(outcome.faults)
        sometimes.update(outcome.sometimes)
        reasons.update(outcome.unavailable)
        digest.update(f"{outcome.seed} {outcome.trace_hash}\n".encode())
        found.extend(_found(outcome, violation, replays) for violation in outcome.violations)
    return Summary(
        scenario=scenario,
        profile=profile,
        seeds=seeds,
        faults=dict(sorted(faults.items())),
        operations=operations,
        violations=found,
        violation_count=len(found),
        unavailable=unavailable,
        unavailable_reasons=dict(sorted(reasons.items())),
        events=events,
        events_per_cpu_second=events * 1_000_000_000 // max(cpu_ns, 1),
        cpu_seconds=round(cpu_ns / 1e9, 3),
        simulated_seconds=round(simulated_ns / 1e9, 3),
        sometimes=dict(sorted(sometimes.items())),
        trace_hash=digest.hexdigest(),
    )


def merge(summaries: Sequence[Summary]) -> Summary:
    """Several ranges of one scenario as one; there must be at least one."""

    def added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
        total: Counter[str] = Counter()
        for count in counts:
            total.update(count)
        return dict(sorted(total.items()))

    first = summaries[0]
    events = sum(summary.events for summary in summaries)
    cpu_seconds = sum(summary.cpu_seconds for summary in summaries)
    found = [found for summary in summaries for found in summary.violations]
    hashes = "".join(summary.trace_hash for summary in summaries)
    return Summary(
        scenario=first.scenario,
        profile=first.profile,
        seeds=sum(summary.seeds for summary in summaries),
        faults=added(summary.faults for summary in summaries),
        operations=sum(summary.operations for summary in summaries),
        violations=found,
        violation_count=len(found),
        unavailable=sum(summary.unavailable for summary in summaries),
        unavailable_reasons=added(summary.unavailable_reasons for summary in summaries),
        events=events,
        events_per_cpu_second=int(events / cpu_seconds) if cpu_seconds else 0,
        cpu_seconds=round(cpu_seconds, 3),
        simulated_seconds=round(sum(summary.simulated_seconds for summary in summaries), 3),
        sometimes=added(summary.sometimes for summary in summaries),
        trace_hash=blake2b(hashes.encode(), digest_size=16).hexdigest(),
    )


def _found(outcome: Outcome, violation: Violation, replays: dict[int, str]) -> Found:
    return Found(
        seed=outcome.seed,
        rule=violation.rule,
        message=violation.message,
        at_ns=violation.at_ns,
        replay=replays[outcome.seed],
    )


def save_failure(failure: Failure, directory: Path) -> Path:
    """Keep *failure* under a name made of its scenario, bug and seed."""
    directory.mkdir(parents=True, exist_ok=True)
    original = failure.original
    parts = (original.scenario, original.planted or "", original.profile, str(original.seed))
    path = directory / ("-".join(part for part in parts if part) + ".json")
    path.write_bytes(msgspec.json.format(msgspec.json.encode(failure), indent=1))
    return path


def load_failure(path: Path) -> Failure:
    try:
        failure = msgspec.json.decode(path.read_bytes(), type=Failure)
    except OSError as error:
        raise InvalidRequest(f"{path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"{path}: not a kept failure: {error}") from error
    if failure.version != VERSION:
        raise InvalidRequest(f"{path}: version {failure.version}; this program reads version {VERSION}")
    return failure
