"""Files between hosts whose disks, processes and network fail: what counts is whole, and planted bugs are
found."""

from collections.abc import Callable

import pytest

from holdfast.sim import expand, simulate
from holdfast.sim.runner.planted import planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

BUGS = planted_bugs("shipping")
SLOW = ("shipping-trusts-half-made-files",)
"""Bugs that take tens of runs to show: these are searched for in the long form only."""


def test_no_seed_breaks_a_shipment(rounds: Callable[..., int], jobs: int) -> None:
    """Whatever happens, a manifest that counts has whole files, and every host gets the newest in the end."""
    summary = run_seeds("shipping", range(rounds(short=16, long=1000)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 50 * summary.seeds
    assert len(summary.faults) >= 12, f"too few kinds of faults struck: {summary.faults}"


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    wanted = BUGS if rounds(short=0, long=1) else [bug for bug in BUGS if bug.name not in SLOW]
    searches = search_planted(wanted, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(searches) >= 7


@pytest.mark.parametrize("rule", ["W5", "W6"])
def test_every_rule_has_a_planted_bug(rule: str) -> None:
    assert rule in {bug.rule for bug in BUGS}


def test_a_run_is_the_same_every_time() -> None:
    """One seed, one trace."""
    assert simulate(expand("shipping", 3)).trace_hash == simulate(expand("shipping", 3)).trace_hash
