"""Masters with generators under every fault: CSNs only grow, and the bugs that would break that are found."""

from collections.abc import Callable

import pytest

from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

BUGS = planted_bugs("clock")


@pytest.mark.covers("CSN-8", "CSN-19", "CSN-20", "CSN-21")
def test_csns_only_grow_under_all_faults(rounds: Callable[..., int], jobs: int) -> None:
    """No rule of the scenario is broken, and it reaches the situations it aims at."""
    summary = run_seeds("clock", range(rounds(short=30, long=3000)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 1000 * summary.seeds
    assert {"pulled_ahead", "far_ahead", "sequence_brink", "clock_jump", "power_cut"} <= set(summary.faults)
    assert {"a peer too far ahead is refused", "take: future_not_stored"} <= set(summary.sometimes)


def test_every_planted_bug_is_found(jobs: int) -> None:
    """Each breaks one rule of the clock; if one were not found, the test above would mean less."""
    searches = search_planted(BUGS, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) >= 8
