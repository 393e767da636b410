"""The embedded authority and its hosts under every fault: no rule is broken, and broken rules are found."""

from collections.abc import Callable

import pytest

from holdfast.sim import expand, simulate
from holdfast.sim.runner.planted import planted_bug, planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

BUGS = planted_bugs("authority")
SOON = (
    "authority-leases-forgotten",
    "authority-no-sync",
    "authority-answers-before-commit",
    "authority-unbind-anybody",
    "authority-incarnation-reused",
    "authority-strangers-welcome",
    "authority-initial-left-open",
    "authority-join-while-open",
)
"""Bugs that show within a few runs; the long test searches for all."""


@pytest.mark.covers("IM-34", "IM-35")
def test_no_rule_is_broken_under_all_faults(rounds: Callable[..., int], jobs: int) -> None:
    """Every committed revision obeys rules A, V and T; what clients were told is true; all nodes make
    progress again."""
    summary = run_seeds("authority", range(rounds(short=30, long=2000)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 300 * summary.seeds
    assert {"power_cut", "kill_inside", "sync_fail", "disk_full", "storm"} <= set(summary.faults)


def test_a_calm_run_has_nothing_to_hide() -> None:
    """Without faults every request is done. Only an answer that another overtook, or the one in a thousand
    that is lost, leaves a doubt, and that is settled."""
    outcome = simulate(expand("authority", 1, "calm"))
    assert outcome.violations == ()
    assert outcome.unavailable == ()
    assert outcome.faults == {}
    assert outcome.operations > 300


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    """Each breaks one rule; if one were not found, the tests above would mean less."""
    bugs = BUGS if rounds(short=0, long=1) else [planted_bug(name) for name in SOON]
    searches = search_planted(bugs, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []


def test_enough_bugs_are_planted() -> None:
    """There is at least one bug for each rule of the authority that can be broken in one place."""
    rules = {bug.rule for bug in BUGS}
    assert {"A1", "A3", "A4", "A5", "A6", "A7", "V2", "V5", "N-2", "N-3", "IM-34"} <= rules
