"""Simulated nodes: incarnations, fencing, pauses, and how the end of a core is judged."""

from functools import partial
from typing import Any

from sim_world import Probe, make_world, probe

from holdfast.model.errors import BrokenInvariant, Corruption, DiskFailed
from holdfast.sim import MILLISECOND, SECOND, ClockOptions, NodePorts


def test_each_start_builds_a_new_core_with_the_next_incarnation() -> None:
    world = make_world()
    node = probe(world)
    first = node.core
    assert (node.incarnation, node.alive) == (1, True)
    assert node.kill()
    assert not node.kill()
    assert node.core is None
    node.restart(MILLISECOND)
    world.run_until(SECOND)
    assert node.incarnation == 2
    assert node.core is not first
    assert node.core.ports.incarnation == 2


def test_timers_fire_once_in_order_unless_cancelled() -> None:
    world = make_world()
    core = probe(world).core
    core.timers.set(20 * MILLISECOND, "second")
    gone = core.timers.set(15 * MILLISECOND, "cancelled")
    core.timers.set(10 * MILLISECOND, "first")
    core.timers.cancel(gone)
    world.run_until(SECOND)
    core.timers.cancel(gone)
    assert [tag for tag, _ in core.ticks] == ["first", "second"]


def test_timers_of_a_dead_incarnation_do_not_fire() -> None:
    world = make_world()
    node = probe(world)
    old = node.core
    old.timers.set(MILLISECOND, "stale")
    node.kill()
    node.start()
    old.timers.set(MILLISECOND, "staler")
    world.run_until(SECOND)
    assert old.ticks == []
    assert node.core.ticks == []


def test_a_node_that_wakes_may_read_messages_after_all_that_was_due() -> None:
    """Nothing determines whether its loop first handles the messages that its kernel kept or its own
    timers."""
    for is_reading_last, expected in ((False, ["message", "timer"]), (True, ["timer", "message"])):
        world = make_world()
        happened: list[str] = []
        node = world.add_node("a", partial(_Told, happened=happened))
        node.core.timers.set(20 * MILLISECOND, "timer")
        node.pause()
        node.receive("b", "message")
        world.run_until(SECOND)
        node.resume(is_reading_last=is_reading_last)
        world.run_until(SECOND)
        assert happened == expected


def test_a_heart_hears_while_the_loop_stands_and_not_while_the_process_is_paused() -> None:
    """Messages to a paused process are handled by its loop later, and the core passes them to the heart
    (R4)."""
    world = make_world()
    happened: list[str] = []
    node = world.add_node("a", partial(_Told, happened=happened))
    assert node.hang()
    node.receive("b", "beat")
    node.receive("b", "message")
    assert happened == ["heard"]
    assert node.go_on()
    assert not node.go_on()
    world.run_until(SECOND)
    assert happened == ["heard", "message"]
    node.pause()
    node.receive("b", "beat")
    assert happened == ["heard", "message"]
    node.resume()
    world.run_until(2 * SECOND)
    assert happened == ["heard", "message", "beat"]


class _Told:
    """A core that records what happens to it, and has a heart."""

    def __init__(self, ports: NodePorts, happened: list[str]) -> None:
        self.timers = ports.timers(happened.append)
        self._happened = happened

    def on_message(self, peer: str, message: str) -> None:
        self._happened.append(message)

    def on_heart_message(self, peer: str, message: str) -> bool:
        if message == "beat":
            self._happened.append("heard")
        return message == "beat"


def test_a_paused_node_handles_everything_late_and_in_order() -> None:
    world = make_world()
    node = probe(world)
    node.core.timers.set(10 * MILLISECOND, 1)
    node.core.timers.set(20 * MILLISECOND, 2)
    assert node.pause()
    assert not node.pause()
    world.run_until(SECOND)
    assert node.core.ticks == []
    assert node.resume()
    world.run_until(SECOND)
    assert node.core.ticks == [(1, SECOND), (2, SECOND)]


def test_a_node_killed_while_paused_forgets_what_waited() -> None:
    world = make_world()
    node = probe(world)
    node.core.timers.set(MILLISECOND, "waited")
    node.pause()
    world.run_until(SECOND)
    node.kill()
    node.start()
    assert not node.paused
    world.run_until(2 * SECOND)
    assert node.core.ticks == []


def test_an_error_of_the_family_stops_the_node_and_its_supervisor_starts_it_again() -> None:
    world = make_world()
    node = probe(world)
    node.core.timers.set(MILLISECOND, DiskFailed("sync failed"))
    world.run_until(2 * MILLISECOND)
    assert not node.alive
    assert node.stops == ["disk_failed: sync failed"]
    assert world.violations == []
    world.run_until(SECOND)
    assert node.alive
    assert node.incarnation == 2


def test_an_unsupervised_node_stays_down_until_healing() -> None:
    world = make_world()
    node = probe(world, supervised=False)
    node.core.timers.set(MILLISECOND, DiskFailed("sync failed"))
    world.run_until(10 * SECOND)
    assert not node.alive
    world.heal()
    assert node.alive


def test_a_core_that_cannot_start_stops_again_with_growing_pauses() -> None:
    def build(ports: NodePorts) -> Any:
        raise Corruption("bad", file="f", offset=0, expected=1, found=2)

    world = make_world()
    node = world.add_node("a", build)
    world.run_until(20 * SECOND)
    assert not node.alive
    assert 5 < len(node.stops) < 12


def test_a_core_may_stop_itself() -> None:
    world = make_world()
    node = probe(world, supervised=False)
    core = node.core
    core.ports.stop("I have seen enough")
    assert not node.alive
    assert node.stops == ["I have seen enough"]
    core.ports.stop("again")
    assert len(node.stops) == 1


def test_a_broken_invariant_and_any_other_exception_are_violations() -> None:
    for error, rule in ((BrokenInvariant("must hold"), "invariant"), (KeyError("oops"), "exception")):
        world = make_world()
        node = probe(world, clock=ClockOptions())
        node.core.timers.set(MILLISECOND, error)
        node.core.timers.set(2 * MILLISECOND, "after")
        world.run_until(SECOND)
        assert [violation.rule for violation in world.violations] == [rule]
        assert world.now == MILLISECOND
        assert not node.alive


def test_an_expected_exception_is_a_mere_stop() -> None:
    world = make_world()
    world.expects = lambda node, error: isinstance(error, BrokenInvariant)
    node = probe(world, supervised=False)
    node.core.timers.set(MILLISECOND, BrokenInvariant("foreseen"))
    world.run_until(SECOND)
    assert world.violations == []
    assert node.stops == ["BrokenInvariant: foreseen"]


def test_what_a_dead_process_stumbles_over_is_no_finding() -> None:
    """Code unwound by a crash inside a disk operation finds its handles stale, and may fail on that."""

    class Stumbling(Probe):
        def on_timer(self, tag: object) -> None:
            try:
                self.disk.append("f", b"x")
            finally:
                self.disk.read("f", 0, 1)[0]

    world = make_world()
    node = world.add_node("a", Stumbling, supervised=False)
    node.disk.crash_after(1, power=True)
    node.core.timers.set(MILLISECOND, "go")
    world.run_until(SECOND)
    assert not node.alive
    assert world.violations == []


def test_each_incarnation_draws_from_streams_of_its_own() -> None:
    def draw() -> list[float]:
        world = make_world(seed=7)
        node = probe(world)
        drawn = [node.core.ports.random.stream("ids").random()]
        world.rng("something else").random()
        node.kill()
        node.start()
        return [*drawn, node.core.ports.random.stream("ids").random()]

    assert draw() == draw()
    assert draw()[0] != draw()[1]


def test_fault_points_fire_sometimes_and_never_after_healing() -> None:
    world = make_world(points=1.0)
    fault = probe(world).core.ports.fault
    fired = sum(fault.maybe("rare") for _ in range(1000))
    assert 150 < fired < 350
    assert world.reached == {"fault point rare": fired}
    world.heal()
    assert not any(fault.maybe("rare") for _ in range(1000))
    assert not any(make_world().fault.maybe("rare") for _ in range(1000))
