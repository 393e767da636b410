"""Groups of every style on the production host: nothing acknowledged is lost or done twice."""

from collections.abc import Callable

from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

QUICK = ("groups-timer-rings-again",)
"""Found within a few runs; `holdfast sim planted --scenario groups` searches for the others."""


def test_groups_of_every_style_survive_all_faults(rounds: Callable[..., int], jobs: int) -> None:
    """No rule of the scenario is broken, and it reaches the situations it aims at."""
    summary = run_seeds("groups", range(rounds(short=4, long=2000)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 100 * summary.seeds
    assert {"a stale read was answered", "a hand-over was asked for"} <= set(summary.sometimes)
    assert "a call from group to group: noted" in summary.sometimes
    assert {"a member waits for a parcel", "parcels were there in the end"} <= set(summary.sometimes)


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    """Each breaks one rule of the protocol; if one were not found, the test above would mean less."""
    bugs = planted_bugs("groups")
    chosen = [bug for bug in bugs if bug.name in QUICK] if rounds(short=1, long=2) == 1 else bugs
    searches = search_planted(chosen, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) >= len(QUICK)
