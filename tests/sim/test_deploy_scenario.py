"""Versions of an application rolled forward and back under faults: what was answered never changes."""

from collections.abc import Callable

from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

QUICK = ("deploy-replayed-by-other-code", "deploy-old-code-goes-on")
"""Found within a few runs; `holdfast sim planted --scenario deploy` searches for the others."""


def test_what_was_answered_is_never_done_by_other_code(rounds: Callable[..., int], jobs: int) -> None:
    """No rule of the scenario is broken; groups are upgraded, and old code runs."""
    summary = run_seeds("deploy", range(rounds(short=3, long=1000)), profile="deploys", jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 50 * summary.seeds
    assert {"a group was upgraded", "old code was at work"} <= set(summary.sometimes)


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    """Each leaves out a part of the rule; if one were not found, the test above would mean less."""
    bugs = planted_bugs("deploy")
    chosen = [bug for bug in bugs if bug.name in QUICK] if rounds(short=1, long=2) == 1 else bugs
    searches = search_planted(chosen, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) >= len(QUICK)
