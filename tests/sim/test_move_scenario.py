"""Moves of a domain between two authorities under faults: nothing is lost, and one authority serves."""

from collections.abc import Callable

from holdfast.sim import expand, simulate
from holdfast.sim.runner.planted import planted_bug, planted_bugs
from holdfast.sim.runner.runner import run_seeds, search_planted

BUGS = planted_bugs("move")
SOON = (
    "move-seal-in-memory",
    "move-stale-client",
    "move-no-grace",
    "move-unseal-undecided",
    "move-revisions-anew",
    "move-watch-goes-on",
)
"""Bugs that show within a few runs; the long test searches for all."""


def test_no_rule_is_broken_by_moves_under_faults(rounds: Callable[..., int], jobs: int) -> None:
    """One authority serves at any time and holds everything; at the end every host is there and works."""
    summary = run_seeds("move", range(rounds(short=4, long=2000)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 300 * summary.seeds


def test_a_mover_that_stops_on_the_way_is_given_up_or_taken_over(
    rounds: Callable[..., int], jobs: int
) -> None:
    """Movers pause in the middle of moves for longer than the hosts wait, then go on."""
    summary = run_seeds("move", range(rounds(short=2, long=500)), profile="movers-pause", jobs=jobs)
    assert summary.violations == []
    assert {"mover_pauses", "falls_at_step"} <= set(summary.faults)


def test_a_calm_domain_moves_to_and_fro() -> None:
    """Without faults no move is lost on the way, and no host notices more than a moment without answers."""
    outcome = simulate(expand("move", 1, "calm"))
    assert outcome.violations == ()
    assert outcome.unavailable == ()
    assert outcome.faults == {}


def test_planted_bugs_are_found(rounds: Callable[..., int], jobs: int) -> None:
    """Each breaks one part of the rule; if one were not found, the tests above would mean less."""
    bugs = BUGS if rounds(short=0, long=1) else [planted_bug(name) for name in SOON]
    searches = search_planted(bugs, jobs=jobs)
    assert [search.name for search in searches if not search.found] == []
    assert len(BUGS) >= 6
