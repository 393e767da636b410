"""The replication manager among hosts that come and go: groups keep their members, and none is risked."""

from collections.abc import Callable

import pytest

from holdfast.sim.planted import planted_bugs
from holdfast.sim.runner import run_seeds, search_planted


@pytest.mark.covers("FTC-135")
def test_groups_keep_as_many_members_as_are_wished_for(rounds: Callable[..., int]) -> None:
    """Whoever is away, emptied or taken out by hand, and however many hosts manage at once."""
    summary = run_seeds("manage", range(rounds(short=1, long=500)), profile="management", jobs=2)
    assert summary.violations == []
    assert summary.operations > 100 * summary.seeds
    assert {"a group leaves", "a manager's step: place", "a manager's step: remove"} <= set(summary.sometimes)


def test_planted_bugs_are_found(rounds: Callable[..., int]) -> None:
    """Each leaves out one rule of the manager; were one not found, the test above would mean less."""
    if rounds(short=1, long=2) == 1:
        pytest.skip("the long form alone; or `holdfast sim planted --scenario manage`")
    searches = search_planted(planted_bugs("manage"), jobs=2)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) >= 2
