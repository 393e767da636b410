"""The combined results of many runs. The fields of :class:`Summary` are an interface: only add to them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.model.errors import InvalidRequest
from holdfast.sim.engine.options import Options
from holdfast.sim.engine.world import Violation
from holdfast.sim.runner.simulation import Outcome

FAILURES: Final = Path(".holdfast-sim") / "failures"
"""The directory for failing runs, below the working directory."""
VERSION: Final = 1


class Found(Struct, frozen=True, kw_only=True):
    """One violation, and how to replay it."""

    seed: int
    rule: str
    message: str
    at_ns: int
    replay: str


class Summary(Struct, frozen=True, kw_only=True):
    """The results of a range of seeds of one scenario."""

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
    """A failing run, kept permanently: the original, and the smallest form it was shrunk to."""

    version: int = VERSION
    violation: Violation
    options: Options
    """The shrunk run, which is the one that is replayed."""
    original: Options
    shrink_runs: int = 0


class Tally:
    """Adds up the runs of one scenario as they finish; keeps only the failing runs in full."""

    def __init__(self, scenario: str, profile: str) -> None:
        self._scenario = scenario
        self._profile = profile
        self._faults: Counter[str] = Counter()
        self._sometimes: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._hashes: dict[int, str] = {}
        self._operations = self._events = self._simulated_ns = self._unavailable = 0
        self.failing: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self._hashes[outcome.seed] = outcome.trace_hash
        self._operations += outcome.operations
        self._events += outcome.events
        self._simulated_ns += outcome.simulated_ns
        self._unavailable += bool(outcome.unavailable)
        self._faults.update(outcome.faults)
        self._sometimes.update(outcome.sometimes)
        self._reasons.update(outcome.unavailable)
        if outcome.violations:
            self.failing.append(outcome)

    @property
    def seeds(self) -> int:
        return len(self._hashes)

    def summary(self, *, cpu_ns: int, replays: dict[int, str]) -> Summary:
        """Return the totals; *replays* gives, for each failing seed, the command that replays it."""
        found = [
            Found(
                seed=outcome.seed,
                rule=violation.rule,
                message=violation.message,
                at_ns=violation.at_ns,
                replay=replays[outcome.seed],
            )
            for outcome in sorted(self.failing, key=lambda outcome: outcome.seed)
            for violation in outcome.violations
        ]
        return Summary(
            scenario=self._scenario,
            profile=self._profile,
            seeds=self.seeds,
            faults=dict(sorted(self._faults.items())),
            operations=self._operations,
            violations=found,
            violation_count=len(found),
            unavailable=self._unavailable,
            unavailable_reasons=dict(sorted(self._reasons.items())),
            events=self._events,
            events_per_cpu_second=self._events * 1_000_000_000 // max(cpu_ns, 1),
            cpu_seconds=round(cpu_ns / 1e9, 3),
            simulated_seconds=round(self._simulated_ns / 1e9, 3),
            sometimes=dict(sorted(self._sometimes.items())),
            trace_hash=_digest(f"{seed} {digest}" for seed, digest in sorted(self._hashes.items())),
        )


def merge(summaries: Sequence[Summary]) -> Summary:
    """Combine the summaries of several ranges of one scenario; there must be at least one."""

    def added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
        total: Counter[str] = Counter()
        for count in counts:
            total.update(count)
        return dict(sorted(total.items()))

    first = summaries[0]
    events = sum(summary.events for summary in summaries)
    cpu_seconds = sum(summary.cpu_seconds for summary in summaries)
    found = [found for summary in summaries for found in summary.violations]
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
        trace_hash=_digest(summary.trace_hash for summary in summaries),
    )


def _digest(lines: Iterable[str]) -> str:
    digest = blake2b(digest_size=16)
    for line in lines:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def save_failure(failure: Failure, directory: Path) -> Path:
    """Save *failure* in a file named after its scenario, bug and seed."""
    original = failure.original
    parts = (original.scenario, original.planted or "", original.profile, str(original.seed))
    path = directory / ("-".join(part for part in parts if part) + ".json")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(failure), indent=1))
    except OSError as error:
        raise InvalidRequest(f"{path}: {error.strerror}") from error
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
