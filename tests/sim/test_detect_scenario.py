"""Fault detectors under load: no healthy host is taken for gone, and none is suspected forever."""

from collections.abc import Callable

from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

QUICK = ("detect-leaves-the-sick",)
"""Found in the first run or two; `holdfast sim planted --scenario detect` searches for the others."""


def test_load_costs_no_host_its_groups_and_the_sick_get_well(rounds: Callable[..., int], jobs: int) -> None:
    """This holds whatever sleeps, is busy or reports being sick; and the scenario reaches the situations it
    aims at."""
    summary = run_seeds("detect", range(rounds(short=2, long=1000)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 100 * summary.seeds
    assert "a member that was not alive handed over" in summary.sometimes


def test_load_alone_costs_no_failover_at_all(rounds: Callable[..., int], jobs: int) -> None:
    """Processes are delayed again and again, each time for less than the stated bound, and nothing else
    happens: no group ever gets another primary, and nobody is dropped."""
    summary = run_seeds("detect", range(rounds(short=1, long=200)), profile="busy", jobs=jobs)
    assert summary.violations == []
    assert list(summary.faults) == ["load"]
    assert summary.sometimes["load alone"] == summary.seeds
    assert not any("taken for gone" in reached for reached in summary.sometimes)


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    """Each breaks one rule of detectors; if one were not found, the test above would mean less."""
    bugs = planted_bugs("detect")
    chosen = [bug for bug in bugs if bug.name in QUICK] if rounds(short=1, long=2) == 1 else bugs
    searches = search_planted(chosen, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) >= len(QUICK)
