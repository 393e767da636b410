"""Groups of every style on the production housing: nothing acknowledged is lost or done twice."""

from collections.abc import Callable

from holdfast.sim.runner import run_seeds


def test_groups_of_every_style_survive_all_faults(rounds: Callable[..., int]) -> None:
    """No rule of the scenario is broken; what it means to meet, it meets."""
    summary = run_seeds("groups", range(rounds(short=6, long=2000)), jobs=2)
    assert summary.violations == []
    assert summary.operations > 100 * summary.seeds
    assert {"a stale read was answered", "settled: it never runs", "a hand-over was asked for"} <= set(
        summary.sometimes
    )
