"""Schedules: drawn from the seed alone, different for different seeds, within the bounds of the scenario."""

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import pytest

from holdfast.model.errors import InvalidRequest
from holdfast.sim import SECOND, Bound, FaultEvent, FaultKind, Scenario, World, expand
from holdfast.sim.runner.profiles import AIMED, NARROW, SLOW_NETWORK, SWARM, expand_for, kinds_of
from holdfast.sim.runner.scenario import scenario_class, scenario_names
from holdfast.sim.scenarios.register.scenario import Register

SEEDS = range(200)


class Strict(Scenario):
    """A scenario that takes a few kinds, with rot on one node at most, and one power cut of all."""

    name = "strict"
    nodes = ("a", "b", "c")
    kinds = ("kill", "bit_rot", "wipe", "power_cut_all")
    own_kinds = (FaultKind("knock", lambda rng, field: {}, lambda world, event: True),)
    bounds = (
        Bound(kinds=("bit_rot", "wipe"), nodes=1),
        Bound(kinds=("power_cut_all",), per_run=1),
    )
    fault_ns: ClassVar[int] = 30 * SECOND

    def build(self, world: World) -> None: ...

    def finish(self, world: World) -> None: ...


def schedules(profile: str = SWARM) -> Iterator[tuple[FaultEvent, ...]]:
    for seed in SEEDS:
        yield expand_for(Strict, seed, profile).faults


def test_a_seed_always_expands_to_the_same_run() -> None:
    for seed in range(20):
        assert expand("register", seed) == expand("register", seed)
    assert len({str(expand("register", seed).faults) for seed in range(20)}) > 15


def test_every_kind_is_drawn_and_mixes_differ() -> None:
    """In a swarm all kinds occur over the seeds, in many different subsets."""
    subsets = [frozenset(event.kind for event in events) for events in schedules()]
    assert frozenset().union(*subsets) == {*Strict.kinds, "knock"}
    assert len(set(subsets)) > 10


def test_schedules_are_in_order_and_end_with_the_fault_phase() -> None:
    for events in schedules():
        times = [event.at_ns for event in events]
        assert times == sorted(times)
        assert all(0 < at < Strict.fault_ns for at in times)


def test_bounds_hold() -> None:
    hit = Counter[int]()
    for events in schedules():
        damaged = {event.target for event in events if event.kind in ("bit_rot", "wipe")}
        assert len(damaged) <= 1
        assert sum(event.kind == "power_cut_all" for event in events) <= 1
        hit[len(damaged)] += 1
    assert hit[1] > 50


def test_targets_are_the_scenarios_nodes() -> None:
    targets = {event.target for events in schedules() for event in events}
    assert targets == {"a", "b", "c", ""}


def test_the_default_gives_some_seeds_a_narrow_profile() -> None:
    chosen = Counter(expand("register", seed).profile for seed in SEEDS)
    assert 0.5 < chosen[SWARM] / len(SEEDS) < 0.9
    assert len(chosen) > 8


@pytest.mark.parametrize("profile", sorted(NARROW))
def test_a_narrow_profile_draws_only_its_kinds(profile: str) -> None:
    kinds = {event.kind for seed in range(30) for event in expand("register", seed, profile).faults}
    assert kinds == {kind for kind in NARROW[profile].kinds if kind in Register.kinds}


@pytest.mark.parametrize("profile", sorted(AIMED))
def test_an_aimed_profile_draws_all_its_kinds_where_they_are_and_is_drawn_by_name_only(profile: str) -> None:
    """So the schedules of the default profile do not change when a profile is added."""
    wanted = set(AIMED[profile].kinds)
    whole = [name for name in scenario_names() if wanted <= set(kinds_of(scenario_class(name)))]
    assert whole
    for scenario in whole:
        kinds = {event.kind for seed in range(30) for event in expand(scenario, seed, profile).faults}
        assert kinds == wanted
        assert profile not in {expand(scenario, seed).profile for seed in range(100)}


def test_the_conditions_of_an_aimed_profile_are_those_of_its_runs() -> None:
    assert expand("groups", 1, "pairs").network == SLOW_NETWORK
    assert expand("groups", 1, "memory").in_memory
    assert not expand("groups", 1, "pairs").in_memory


def test_calm_has_no_faults() -> None:
    options = expand("register", 3, "calm")
    assert options.faults == ()
    assert options.points == 0


@pytest.mark.parametrize(
    ("scenario", "profile"), [("absent", "default"), ("register", "absent"), ("../register", "default")]
)
def test_unknown_names_are_refused(scenario: str, profile: str) -> None:
    with pytest.raises(InvalidRequest):
        expand(scenario, 0, profile)
