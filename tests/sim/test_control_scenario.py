"""The control plane under every fault (IM C, D)."""

from collections.abc import Callable

import pytest

from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

QUICK = ("control-told-before-posted", "control-joins-while-open", "control-hole-accepted")
"""Found within a few runs; `holdfast sim planted --scenario control` searches for the others."""


@pytest.mark.covers("IM-13", "IM-14", "IM-18", "IM-35", "IM-129")
def test_no_change_is_lost_or_appears_under_all_faults(rounds: Callable[..., int], jobs: int) -> None:
    """What was accepted is there; what failed is not; an open outcome can be asked for; contexts are
    equal."""
    summary = run_seeds("control", range(rounds(short=10, long=2000)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 100 * summary.seeds
    assert {"a coordinator was elected", "a death was proved"} <= set(summary.sometimes)


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    """Each breaks one rule; if one were not found, the test above would mean less."""
    bugs = planted_bugs("control")
    chosen = [bug for bug in bugs if bug.name in QUICK] if rounds(short=1, long=2) == 1 else bugs
    searches = search_planted(chosen, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
