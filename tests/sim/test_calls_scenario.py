"""Clients under failovers, lost frames and late replies: every call ends once, with its true outcome."""

from collections.abc import Callable

import pytest

from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted


@pytest.mark.covers("FTC-73", "FTC-87", "FTC-88", "FTC-89", "FTC-92", "FTC-97")
def test_every_call_ends_once_under_all_faults(rounds: Callable[..., int], jobs: int) -> None:
    """No rule of the scenario is broken, and it reaches the situations it aims at."""
    summary = run_seeds("calls", range(rounds(short=14, long=1500)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 300 * summary.seeds
    assert {
        "a connection ended",
        "a follower was told where the group is served",
        "a newer reference was adopted",
        "a repetition got the first reply",
        "a request knew of a newer view",
        "a stale read was answered",
        "calls survived their primary",
        "not executed: unavailable",
        "outcome unknown: append",
        "outcome unknown: lane",
        "settled: it never runs",
    } <= set(summary.sometimes)


def test_every_planted_bug_is_found(jobs: int) -> None:
    """Each breaks one rule of calling; if one were not found, the test above would mean less."""
    searches = search_planted(planted_bugs("calls"), jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) >= 12
