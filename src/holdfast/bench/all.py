"""Every benchmark in one run: which there are, about how long they take, and what it all came to.

The times are those of an otherwise idle machine with two cores; on one that is shared it takes longer, which
the time beside each line of progress shows soon enough.
"""

import enum
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.bench import Progress
from holdfast.model.errors import HoldfastError

FAILURES: Final = (HoldfastError, OSError, ExceptionGroup)
"""What a benchmark may end with; the others go on."""

NET_SHAPES: Final = 4
LOG_BATCHES: Final = 4
SYSTEMS: Final = 8
CALL_ROWS: Final = 6
DETECTED: Final = 6
"""Kinds of faults."""
HARM_S: Final = 5.0
"""A host is harmed, and its group is whole again."""
OVERLOAD_S: Final = 60.0
"""What false suspicions are looked for in; alone, `bench detect` takes longer."""
SYSTEM_S: Final = 8.0
"""A system is started, warmed up, robbed of its leader and ended."""
GROUP_S: Final = 0.02
"""One of many groups is made, and is idle."""
CLAIMED_GROUPS: Final = 1_000
KEPT_GROUPS: Final = 300
LOSS_S: Final = 60.0
"""A domain is started and its groups are called; a host of it is lost, and made up for."""
STEPS: Final = 4
"""From 10 groups to 10,000."""
COORDINATOR_S: Final = 6.0
"""A coordinator is killed and is back, and so is an etcd's leader."""
DOMAIN_S: Final = 10.0
"""A domain is started, its groups settle, and it is ended."""
HANDOVER_S: Final = 1.2
NESTED_S: Final = 5.0
"""Five hundred calls, one after the other, each to another group and back."""
NEIGHBOURS_S: Final = 12.0
"""Two groups wait for each other, again and again, and one for a group that is away."""
LARGE_S: Final = 30.0
"""A large object comes to be."""
LARGE_KILL_S: Final = 10.0
"""A host with a large object is killed, and has loaded it again."""
STATE_S: Final = 90.0
"""Long enough for several checkpoints, whatever the others get."""


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark: ``run_NAME_bench`` of ``holdfast.bench.NAME``, with these options."""

    name: str
    options: Mapping[str, float]
    expected_s: float


class Verdict(enum.Enum):
    """What a run came to. A target that is missed is a finding, and not to be taken for a failure."""

    MET = "every target was met"
    MISSED = "a target was missed"
    FAILED = "something could not be measured"


@dataclass(slots=True)
class Run:
    """What was found, by the name of the benchmark, and what could not be."""

    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def results(self, names: Container[str] | None = None) -> list[dict[str, Any]]:
        """The rows of these benchmarks, in the order of the run; of all when none are named."""
        named = [each for name, each in self.found.items() if names is None or name in names]
        return [row for each in named for row in each["results"]]

    @property
    def verdict(self) -> Verdict:
        if self.failures:
            return Verdict.FAILED
        return Verdict.MET if all(row["met"] for row in self.results()) else Verdict.MISSED


def run_through(parts: Iterable[Part], measure: Callable[[Part], dict[str, Any]], progress: Progress) -> Run:
    """Measure one after the other. One that fails, or says that ours failed in it, is among the failures."""
    run = Run()
    for part in parts:
        try:
            run.found[part.name] = found = measure(part)
            run.failures += found.get("failures", [])
        except FAILURES as error:
            run.failures.append(f"{part.name}: {error!r}")
            progress(f"failed: {run.failures[-1]}")
    return run


def agenda(*, rounds: int | None, seconds: float | None, groups: int) -> list[Part]:
    """All of them, in their order. *rounds* and *seconds* are each one's own when not given."""
    net_rounds, net_s = rounds or 9, seconds or 0.4
    log_rounds, log_s = rounds or 5, seconds or 1.0
    detect_rounds, overload_s = rounds or 20, min(seconds or OVERLOAD_S, OVERLOAD_S)
    group_rounds, load_s = rounds or 5, seconds or 2.0
    handover_rounds, state_rounds, claim_rounds = rounds or 20, rounds or 5, rounds or 3
    claimed = min(groups, CLAIMED_GROUPS)
    claims = {"rounds": claim_rounds, "groups": claimed}
    claims_s = claim_rounds * (DOMAIN_S + claimed * GROUP_S)
    kept, loss_rounds = min(groups, KEPT_GROUPS), rounds or 1
    losses = {"rounds": loss_rounds, "groups": kept}
    losses_s = loss_rounds * (LOSS_S + kept * GROUP_S)
    grown_s = claim_rounds * STEPS * COORDINATOR_S
    return [
        Part("net", {"rounds": net_rounds, "seconds": net_s}, NET_SHAPES * net_rounds * 2 * net_s),
        Part("log", {"rounds": log_rounds, "seconds": log_s}, LOG_BATCHES * log_rounds * 2 * log_s),
        Part(
            "detect",
            {"rounds": detect_rounds, "overload_seconds": overload_s},
            DETECTED * detect_rounds * HARM_S + overload_s,
        ),
        Part("handover", {"rounds": handover_rounds}, handover_rounds * HANDOVER_S),
        Part("nested", {"rounds": claim_rounds}, DOMAIN_S + claim_rounds * NESTED_S + NEIGHBOURS_S),
        Part("claims", claims, claims_s),
        Part("claims_on_etcd", claims, claims_s),
        Part("strength", losses, losses_s),
        Part("strength_on_etcd", losses, losses_s),
        Part("control", {"rounds": claim_rounds, "groups": groups}, grown_s + groups * GROUP_S),
        Part("control_on_etcd", claims, grown_s + claimed * GROUP_S),
        Part(
            "state",
            {"rounds": state_rounds, "seconds": STATE_S},
            LARGE_S + STATE_S + state_rounds * LARGE_KILL_S,
        ),
        Part(
            "groups",
            {"rounds": group_rounds, "seconds": load_s},
            group_rounds * SYSTEMS * (2 * load_s + SYSTEM_S),
        ),
        Part(
            "growth",
            {"seconds": load_s, "groups": groups},
            CALL_ROWS * (2 * load_s + SYSTEM_S) + groups * GROUP_S,
        ),
    ]
