"""The replication manager with hosts that come and go: groups keep their members, and none is put at risk."""

from collections.abc import Callable

import pytest

from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

QUICK = ("manage-restores-nothing",)
"""Found in seconds; the long form and ``holdfast sim planted`` search for the others."""


@pytest.mark.covers("FTC-135")
def test_groups_keep_as_many_members_as_are_wished_for(rounds: Callable[..., int], jobs: int) -> None:
    """This holds whichever hosts are away, drained or removed by hand, and however many hosts manage at
    once."""
    summary = run_seeds("manage", range(rounds(short=1, long=500)), profile="management", jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 100 * summary.seeds
    assert {"a group leaves", "a manager's step: place", "a manager's step: remove"} <= set(summary.sometimes)


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    """Each leaves out one rule of the manager; if one were not found, the test above would mean less."""
    bugs = planted_bugs("manage")
    assert len(bugs) >= 2
    chosen = bugs if rounds(short=0, long=1) else [bug for bug in bugs if bug.name in QUICK]
    searches = search_planted(chosen, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) == len(chosen) > 0
