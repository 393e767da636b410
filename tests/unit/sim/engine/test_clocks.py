"""Simulated clocks: always monotonic, and inaccurate exactly as told."""

from sim_world import make_world, probe

from holdfast.sim import SECOND, ClockOptions
from holdfast.sim.engine.clocks import WALL_START

HOUR = 3600 * SECOND
EXACT = ClockOptions()


def test_an_exact_clock_shows_the_worlds_time() -> None:
    world = make_world()
    clock = probe(world, clock=EXACT).clock
    world.run_until(5 * SECOND)
    assert clock.now() == 5 * SECOND
    assert clock.wall() == WALL_START + 5 * SECOND


def test_offset_and_boot_time() -> None:
    world = make_world()
    clock = probe(world, clock=ClockOptions(wall_offset_ns=-HOUR, booted_ns=7 * SECOND)).clock
    world.run_until(SECOND)
    assert clock.now() == 8 * SECOND
    assert clock.wall() == WALL_START + SECOND - HOUR


def test_a_jump_moves_only_the_wall_clock() -> None:
    clock = probe(make_world(), clock=EXACT).clock
    clock.jump_wall(-2 * HOUR)
    assert clock.now() == 0
    assert clock.wall() == WALL_START - 2 * HOUR


def test_a_rate_counts_from_when_it_was_set_and_never_steps() -> None:
    world = make_world()
    clock = probe(world, clock=EXACT).clock
    world.run_until(10 * SECOND)
    clock.set_rate(2000)
    assert clock.now() == 10 * SECOND
    world.run_until(20 * SECOND)
    assert clock.now() == 20 * SECOND + 20_000_000
    clock.set_rate(-1_000_000)
    world.run_until(30 * SECOND)
    assert clock.now() == 20 * SECOND + 20_000_000


def test_timers_count_by_the_local_clock() -> None:
    """At twice the rate a timer of two seconds fires after one."""
    world = make_world()
    node = probe(world, clock=ClockOptions(rate_ppm=1_000_000))
    node.core.timers.set(2 * SECOND, "tick")
    world.run_until(10 * SECOND)
    assert node.core.ticks == [("tick", SECOND)]


def test_a_timer_never_fires_before_its_time_on_the_local_clock() -> None:
    for ppm in (-2000, -1, 1, 1999):
        world = make_world()
        node = probe(world, clock=ClockOptions(rate_ppm=ppm))
        node.core.timers.set(123_456_789, "tick")
        while not node.core.ticks:
            world.run_until(world.now + 1_000_000)
        world.now = node.core.ticks[0][1]
        assert node.clock.now() >= 123_456_789


def test_a_power_cut_restarts_the_monotonic_clock_and_keeps_the_wall_clock() -> None:
    world = make_world()
    node = probe(world, clock=ClockOptions(booted_ns=HOUR))
    world.run_until(SECOND)
    node.power_cut()
    assert node.clock.now() == 0
    assert node.clock.wall() == WALL_START + SECOND
    node.start()
    node.kill()
    world.run_until(2 * SECOND)
    assert node.clock.now() == SECOND


def test_a_suspended_machine_counts_the_time_but_its_timers_do_not() -> None:
    world = make_world()
    node = probe(world, clock=EXACT)
    node.core.timers.set(3 * SECOND, "tick")
    world.run_until(SECOND)
    node.suspend()
    world.run_until(11 * SECOND)
    node.resume()
    assert node.clock.now() == 11 * SECOND
    world.run_until(20 * SECOND)
    assert node.core.ticks == [("tick", 13 * SECOND)]


def test_ordinary_clocks_differ_a_little_and_by_seed() -> None:
    worlds = [make_world(seed=seed) for seed in range(5)]
    walls = [probe(world).clock.wall() - WALL_START for world in worlds]
    assert len(set(walls)) == 5
    assert all(abs(wall) <= 50_000_000 for wall in walls)
