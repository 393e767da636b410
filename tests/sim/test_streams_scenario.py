"""Streams under loss on the production host: one order everywhere, whatever is lost and whoever leads."""

from collections.abc import Callable

import pytest

from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

QUICK = ("streams-range-backwards",)
"""Found within a run or two; `holdfast sim planted --scenario streams` searches for the others."""


@pytest.mark.covers("LOSS-106", "LOSS-107", "LOSS-108")
def test_all_members_deliver_the_same_whatever_is_lost(rounds: Callable[..., int], jobs: int) -> None:
    """No rule of the scenario is broken, and it reaches the situations it aims at."""
    summary = run_seeds("streams", range(rounds(short=12, long=2000)), jobs=jobs)
    assert summary.violations == []
    assert "an application was asked: answered" in summary.sometimes


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    """Each breaks one rule of the protocol; if one were not found, the test above would mean less."""
    bugs = planted_bugs("streams")
    assert len(bugs) >= 12
    chosen = [bug for bug in bugs if bug.name in QUICK] if rounds(short=1, long=2) == 1 else bugs
    searches = search_planted(chosen, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) >= len(QUICK)
