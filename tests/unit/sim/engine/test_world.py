"""The world: events in order, random streams by name, and a run that ends when it must."""

import pytest
from sim_world import make_world, probe

from holdfast.sim import SECOND, Scenario, World, simulate
from holdfast.sim.engine import world
from holdfast.sim.engine.options import Options
from holdfast.sim.engine.trace import TEXT_MAX, Trace, describe
from holdfast.sim.runner.planted import replacing
from holdfast.sim.scenarios.register.scenario import Register


def test_events_run_by_time_and_equal_times_keep_their_order() -> None:
    world = make_world()
    seen: list[tuple[str, int]] = []
    for name, delay in (("late", 20), ("first", 10), ("second", 10), ("now", 0)):
        world.after(delay, lambda name=name: seen.append((name, world.now)))
    world.run_until(15)
    assert seen == [("now", 0), ("first", 10), ("second", 10)]
    assert world.now == 15
    world.run_until(100)
    assert seen[-1] == ("late", 20)
    assert world.events == 4


def test_streams_are_independent_of_each_other_and_differ_by_name_and_seed() -> None:
    one, other = make_world(), make_world()
    one.rng("b").random()
    assert one.rng("a").random() == other.rng("a").random()
    assert make_world().rng("a").random() != make_world().rng("b").random()
    assert make_world(seed=1).rng("a").random() != make_world(seed=2).rng("a").random()


def test_the_streams_stay_what_they_are() -> None:
    """Kept failures always mean the same run only if a name and a seed always give the same numbers."""
    assert make_world(seed=17).rng("network").randrange(10**9) == 814_303_020


def test_a_violation_ends_the_run() -> None:
    world = make_world()
    world.after(10, world.violation, "D1", "wrong")
    world.after(20, world.operation)
    world.run_until(SECOND)
    assert [(found.rule, found.message, found.at_ns) for found in world.violations] == [("D1", "wrong", 10)]
    assert world.operations == 0
    assert world.now == 10


def test_the_cheap_invariant_is_checked_after_every_event() -> None:
    world = make_world()
    checked: list[int] = []
    world.each_step = lambda: checked.append(world.now)
    for at in (1, 2, 2, 5):
        world.after(at, lambda: None)
    world.run_until(10)
    assert checked == [1, 2, 2, 5]


def test_a_run_caught_in_a_circle_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "EVENTS_MAX", 1000)
    circling = make_world()

    def again() -> None:
        circling.after(0, again)

    again()
    circling.run_until(SECOND)
    assert circling.events == 1000
    assert [violation.rule for violation in circling.violations] == ["engine"]


def test_names_are_unique() -> None:
    world = make_world()
    probe(world, "a")
    with pytest.raises(ValueError, match="two nodes named a"):
        probe(world, "a")


def test_an_exception_of_the_scenario_itself_is_a_finding() -> None:
    """A mistake in a checker must show as a failing seed that can be replayed, and not end the whole
    range."""

    def finish(scenario: Scenario, world: World) -> None:
        raise ZeroDivisionError

    with replacing(Register, "finish", finish):
        outcome = simulate(Options(scenario="register", seed=1, fault_ns=SECOND, heal_ns=SECOND))
    assert [violation.rule for violation in outcome.violations] == ["scenario"]


def test_the_trace_hash_depends_on_every_line_and_their_order() -> None:
    def hashed(*lines: str) -> str:
        trace = Trace(lambda: 0)
        for line in lines:
            trace.add(line)
        return trace.hash()

    many = [str(number) for number in range(2000)]
    assert hashed(*many) == hashed(*many)
    assert len({hashed(*many), hashed(*many[:-1]), hashed(*many[::-1]), hashed("a", "b"), hashed("ab")}) == 5


def test_a_kept_trace_has_all_lines() -> None:
    trace = Trace(lambda: 7, keep=True)
    trace.note("synced", up_to=3)
    trace.hash()
    assert trace.kept == ["7 synced {'up_to': 3}"]


def test_bulky_messages_are_told_apart_though_shortened() -> None:
    one, other = describe("x" * 5000), describe("x" * 4999 + "y")
    assert one != other
    assert len(one) < TEXT_MAX
    assert describe(bytes(5000)) != describe(bytes(4999) + b"x")
