"""Simulated timers: where the options say so they fire slightly early, never before they were set."""

from itertools import pairwise

from msgspec import structs
from sim_world import make_world, probe

from holdfast.model.ids import MICROSECOND, MILLISECOND, SECOND
from holdfast.sim import ClockOptions, Options, expand, simulate
from holdfast.sim.engine.clocks import LEAST_NS
from holdfast.sim.engine.options import TIMERS_EARLY_NS

COUNT = 200


def fired_at(delay_ns: int, *, early_ns: int, seed: int = 1) -> list[int]:
    """Return when each of many timers fired that were set for *delay_ns* at the beginning."""
    world = make_world(seed=seed, timers_early_ns=early_ns)
    core = probe(world, clock=ClockOptions()).core
    for _ in range(COUNT):
        core.timers.set(delay_ns, "tick")
    world.run_until(SECOND)
    return [at for _, at in core.ticks]


def test_they_are_exact_unless_the_run_says_otherwise() -> None:
    """A failure kept before timers could be early still means the same run."""
    assert Options(scenario="register", seed=1).timers_early_ns == 0
    assert fired_at(20 * MILLISECOND, early_ns=0) == [20 * MILLISECOND] * COUNT


def test_they_fire_early_within_the_bound_and_each_by_its_own_amount() -> None:
    fired = fired_at(20 * MILLISECOND, early_ns=TIMERS_EARLY_NS)
    earliness = [20 * MILLISECOND - at for at in fired]
    assert len(set(earliness)) == COUNT
    assert 0 <= min(earliness) < TIMERS_EARLY_NS // 10
    assert TIMERS_EARLY_NS * 9 // 10 < max(earliness) < TIMERS_EARLY_NS
    assert fired == fired_at(20 * MILLISECOND, early_ns=TIMERS_EARLY_NS)
    assert fired != fired_at(20 * MILLISECOND, early_ns=TIMERS_EARLY_NS, seed=2)


def test_none_fires_before_it_was_set_and_a_short_one_takes_a_turn_of_the_loop() -> None:
    assert min(fired_at(MILLISECOND, early_ns=TIMERS_EARLY_NS)) == LEAST_NS
    assert fired_at(30 * MICROSECOND, early_ns=TIMERS_EARLY_NS) == [30 * MICROSECOND] * COUNT
    assert fired_at(0, early_ns=TIMERS_EARLY_NS) == [0] * COUNT


def test_who_sets_one_again_for_what_is_left_gets_there_in_a_few_turns() -> None:
    """Early timers must not put a correct core into an endless loop."""
    world = make_world(timers_early_ns=TIMERS_EARLY_NS)
    node = probe(world, clock=ClockOptions())
    core = node.core
    looks = [0]

    def look(_: object) -> None:
        looks.append(world.now)
        if world.now < 20 * MILLISECOND:
            timers.set(20 * MILLISECOND - world.now, "look")

    timers = core.ports.timers(look)
    look("begin")
    world.run_until(SECOND)
    assert looks[-1] == 20 * MILLISECOND
    assert 3 <= len(looks) <= 3 + TIMERS_EARLY_NS // LEAST_NS
    assert all(before <= after for before, after in pairwise(looks))


def test_a_machine_that_slept_owes_its_timers_no_more_than_before() -> None:
    """Timers do not count the sleep, and are early after it by what was drawn when they were set."""
    world = make_world(timers_early_ns=TIMERS_EARLY_NS)
    node = probe(world, clock=ClockOptions())
    node.core.timers.set(20 * MILLISECOND, "tick")
    world.run_until(5 * MILLISECOND)
    node.suspend()
    world.run_until(SECOND)
    node.resume()
    world.run_until(2 * SECOND)
    [(_, at)] = node.core.ticks
    awake_ns = at - (SECOND - 5 * MILLISECOND)
    assert 20 * MILLISECOND - TIMERS_EARLY_NS < awake_ns <= 20 * MILLISECOND


def test_seeds_draw_both_kinds_of_loops() -> None:
    """Timers of uvloop are early, those of asyncio's own loop are not."""
    drawn = {expand("register", seed).timers_early_ns for seed in range(30)}
    assert drawn == {0, TIMERS_EARLY_NS}


def test_the_option_reaches_the_timers_of_a_run() -> None:
    options = structs.replace(expand("register", 1, "calm"), timers_early_ns=TIMERS_EARLY_NS)
    exact = structs.replace(options, timers_early_ns=0)
    assert simulate(options).trace_hash != simulate(exact).trace_hash
