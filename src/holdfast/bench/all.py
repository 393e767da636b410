"""Every benchmark in one run: which there are, roughly how long they take, and the overall verdict.

The times are those of an otherwise idle machine with two cores. A shared machine takes longer, as the time
next to each line of progress soon shows.
"""

import enum
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.bench import Progress
from holdfast.model.errors import HoldfastError

FAILURES: Final = (HoldfastError, OSError, ExceptionGroup)
"""The errors that a benchmark may end with; the other benchmarks still run."""

NET_SHAPES: Final = 4
LOG_BATCHES: Final = 4
SYSTEMS: Final = 8
CALL_ROWS: Final = 6
PATH_DOMAINS: Final = 4
DETECTED: Final = 6
"""The number of kinds of faults."""
HARM_S: Final = 5.0
"""The time to harm a host and to have its group whole again."""
OVERLOAD_S: Final = 60.0
"""The time in which false suspicions are looked for; `bench detect` on its own takes longer."""
SYSTEM_S: Final = 8.0
"""The time to start a system, warm it up, kill its leader and end it."""
GROUP_S: Final = 0.02
"""The time to create one of many groups and to watch it idle."""
LDAP_LOADS: Final = 10
LDAP_SERVERS: Final = 3
LDAP_CONNECT_S: Final = 1.5
"""The time until the load generator is connected, and ended."""
LDAP_SETUP_S: Final = 60.0
"""The time to make three directories and to load ten thousand persons into each."""
CLAIMED_GROUPS: Final = 1_000
KEPT_GROUPS: Final = 300
LOSS_S: Final = 60.0
"""The time to start a domain, call its groups, lose a host and replace its members."""
STEPS: Final = 4
"""The number of steps from 10 groups to 10,000."""
COORDINATOR_S: Final = 6.0
"""The time until a killed coordinator is back, and an etcd's leader too."""
DOMAIN_S: Final = 10.0
"""The time to start a domain, let its groups settle, and end it."""
HANDOVER_S: Final = 1.2
NESTED_S: Final = 5.0
"""The time of five hundred calls, one after the other, each to another group and back."""
BUSY_S: Final = 85.0
"""The time of one round beside busy threads and workers: four times twenty seconds."""
NEIGHBOURS_S: Final = 12.0
"""The time in which two groups repeatedly wait for each other, and one waits for a group that is away."""
LARGE_S: Final = 30.0
"""The time to build up a large object."""
LARGE_KILL_S: Final = 10.0
"""The time to kill a host with a large object and to have the object loaded again."""
STATE_S: Final = 90.0
"""Long enough for several checkpoints, whatever time the other benchmarks get."""


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark: ``run_NAME_bench`` of ``holdfast.bench.NAME``, with these options."""

    name: str
    options: Mapping[str, float]
    expected_s: float


class Verdict(enum.Enum):
    """The verdict on a run. A missed target is a finding, not a failure."""

    MET = "every target was met"
    MISSED = "a target was missed"
    FAILED = "something could not be measured"


@dataclass(slots=True)
class Run:
    """What was found, by the name of the benchmark, and what could not be measured."""

    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def results(self, names: Container[str] | None = None) -> list[dict[str, Any]]:
        """Return the rows of the named benchmarks, in the order of the run; of all when none are named."""
        named = [each for name, each in self.found.items() if names is None or name in names]
        return [row for each in named for row in each["results"]]

    @property
    def verdict(self) -> Verdict:
        if self.failures:
            return Verdict.FAILED
        return Verdict.MET if all(row["met"] for row in self.results()) else Verdict.MISSED


def run_through(parts: Iterable[Part], measure: Callable[[Part], dict[str, Any]], progress: Progress) -> Run:
    """Run the benchmarks one after the other.

    One that fails, or reports that Holdfast failed in it, is listed as a failure.
    """
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
    """Return all benchmarks in order. Without *rounds* and *seconds* each uses its own defaults."""
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
    ldap_rounds, ldap_s = rounds or 3, seconds or 3.0
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
        Part("busy", {"rounds": claim_rounds}, DOMAIN_S + claim_rounds * BUSY_S),
        Part("tls", {"rounds": group_rounds, "seconds": load_s}, group_rounds * 2 * (2 * load_s + SYSTEM_S)),
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
            "ldap",
            {"rounds": ldap_rounds, "seconds": ldap_s},
            LDAP_SETUP_S + ldap_rounds * LDAP_LOADS * LDAP_SERVERS * (ldap_s + LDAP_CONNECT_S),
        ),
        Part(
            "groups",
            {"rounds": group_rounds, "seconds": load_s},
            group_rounds * SYSTEMS * (2 * load_s + SYSTEM_S),
        ),
        Part("path", {"seconds": load_s}, PATH_DOMAINS * (3 * load_s + SYSTEM_S)),
        Part(
            "growth",
            {"seconds": load_s, "groups": groups},
            CALL_ROWS * (2 * load_s + SYSTEM_S) + groups * GROUP_S,
        ),
    ]
