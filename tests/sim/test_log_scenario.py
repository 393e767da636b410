"""The log on a disk that fails in every known way: nothing acknowledged is lost, and planted bugs are
found."""

from collections.abc import Callable

import pytest

from holdfast.sim import expand, simulate
from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

BUGS = planted_bugs("log")
RULES = ("D1", "D2", "D3", "D4", "S2", "S5", "V5")
SWIFT = (
    "log-acknowledges-before-sync",
    "log-covers-what-came-later",
    "log-retries-failed-sync",
    "log-marks-what-is-written",
    "log-renames-unsynced-checkpoints",
    "log-prunes-without-copying",
    "log-takes-any-record",
    "log-ignores-opening-numbers",
)
"""Bugs that show within a few runs: these are searched for every time, all of them in the long form."""


def test_no_seed_breaks_the_log(rounds: Callable[..., int], jobs: int) -> None:
    """Whatever happens to the disk and the process, the log keeps its promises and makes progress
    afterwards."""
    summary = run_seeds("log", range(rounds(short=12, long=500)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 1000 * summary.seeds
    assert len(summary.faults) >= 12, f"too few kinds of faults struck: {summary.faults}"


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    """A log that breaks a rule of the protocol is caught, so a silent checker means something."""
    wanted = BUGS if rounds(short=0, long=1) else [bug for bug in BUGS if bug.name in SWIFT]
    searches = search_planted(wanted, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) >= len(SWIFT)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_planted_bug(rule: str) -> None:
    assert rule in {bug.rule for bug in BUGS}


def test_a_run_is_the_same_every_time() -> None:
    """One seed, one trace."""
    assert simulate(expand("log", 3)).trace_hash == simulate(expand("log", 3)).trace_hash
