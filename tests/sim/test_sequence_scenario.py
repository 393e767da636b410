"""Replicated groups under every fault: nothing acknowledged is lost, and bugs in every rule are found."""

from collections.abc import Callable

from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

QUICK = ("sequence-resumes-its-role", "sequence-too-few-commit", "sequence-doubtful-claims")
"""Found within a few runs; `holdfast sim planted --scenario sequence` searches for the others."""


def test_groups_survive_all_faults(rounds: Callable[..., int], jobs: int) -> None:
    """No rule of the scenario is broken, and it reaches the situations it aims at."""
    summary = run_seeds("sequence", range(rounds(short=4, long=2000)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 300 * summary.seeds
    assert {"a primary serves", "the primary changed", "a learner was let in"} <= set(summary.sometimes)
    assert {"a read under leases", "a hand-over was asked for"} <= set(summary.sometimes)
    assert "a member was answered by another" in summary.sometimes


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    """Each breaks one rule of the protocol; if one were not found, the test above would mean less."""
    bugs = planted_bugs("sequence")
    chosen = [bug for bug in bugs if bug.name in QUICK] if rounds(short=1, long=2) == 1 else bugs
    searches = search_planted(chosen, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) >= len(QUICK)


def test_without_faults_nobody_is_dropped() -> None:
    """Leases, silence and windows are wide enough for a domain in which only handovers happen."""
    summary = run_seeds("sequence", (0, 4), profile="calm", jobs=1)
    assert summary.violations == []
    assert "a backup was dropped" not in summary.sometimes
