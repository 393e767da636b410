"""Masters of a directory whose links, disks, clocks, processes and stores fail: all end with the same,
nothing acknowledged is lost, and planted bugs are found."""

from collections.abc import Callable

import pytest

from holdfast.sim import expand, simulate
from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

BUGS = planted_bugs("directory")
QUICK = (
    "directory-keeps-the-id",
    "directory-sent-is-stored",
    "directory-trims-unmarked",
    "directory-purges-what-it-has",
    "directory-relays-nothing",
)
"""Bugs that show within a few runs; the others are searched for in the long form."""


def test_no_seed_lets_masters_differ(rounds: Callable[..., int], jobs: int) -> None:
    """Whatever happens, every master ends with what the set of acknowledged changes comes to."""
    summary = run_seeds("directory", range(rounds(short=10, long=2000)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 30 * summary.seeds
    assert len(summary.faults) >= 12, f"too few kinds of faults struck: {summary.faults}"


@pytest.mark.parametrize("profile", ["stores", "retirements"])
def test_stores_come_and_go(profile: str, rounds: Callable[..., int], jobs: int) -> None:
    """Stores are wiped, put back, copied and given up, again and again."""
    summary = run_seeds("directory", range(rounds(short=3, long=300)), profile=profile, jobs=jobs)
    assert summary.violations == []


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    wanted = BUGS if rounds(short=0, long=1) else [bug for bug in BUGS if bug.name in QUICK]
    searches = search_planted(wanted, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) >= len(QUICK)


@pytest.mark.parametrize("rule", ["G1", "G3", "G4", "G5", "G7"])
def test_every_rule_has_a_planted_bug(rule: str) -> None:
    assert rule in {bug.rule for bug in BUGS}
    assert len(BUGS) >= 12


def test_a_run_is_the_same_every_time() -> None:
    """One seed, one trace."""
    assert simulate(expand("directory", 3)).trace_hash == simulate(expand("directory", 3)).trace_hash
