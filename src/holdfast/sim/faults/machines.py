"""Faults of processes, machines and clocks.

Processes are killed or paused, machines lose power or sleep, and clocks jump or run fast or slow.
"""

import random
from typing import Final

from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults.kind import (
    FaultKind,
    Field,
    Parameters,
    draw_restart,
    duration,
    node_of,
    restart_later,
)


def _kill(world: World, event: FaultEvent) -> bool:
    node = node_of(world, event)
    return node.kill() and restart_later(node, event)


def _power_cut(world: World, event: FaultEvent) -> bool:
    node = node_of(world, event)
    return node.power_cut() and restart_later(node, event)


def _power_cut_all(world: World, event: FaultEvent) -> bool:
    struck = [name for name in event.parameters["restarts_ns"] if name in world.nodes]
    for name in struck:
        world.nodes[name].power_cut()
        world.nodes[name].restart(event.parameters["restarts_ns"][name])
    return bool(struck)


def _draw_power_cut_all(rng: random.Random, field: Field) -> Parameters:
    return {"restarts_ns": {name: duration(rng, MILLISECOND, 3 * SECOND) for name in field.nodes}}


def _draw_inside(rng: random.Random, field: Field) -> Parameters:
    return {"operations": rng.randint(1, 20), **draw_restart(rng, field)}


def _kill_inside(world: World, event: FaultEvent) -> bool:
    return _crash_inside(world, event, power=False)


def _power_cut_inside(world: World, event: FaultEvent) -> bool:
    return _crash_inside(world, event, power=True)


def _crash_inside(world: World, event: FaultEvent, *, power: bool) -> bool:
    node = node_of(world, event)
    if not node.alive:
        return False

    def then() -> None:
        world.faults[event.kind] += 1
        node.restart(event.parameters["restart_ns"])

    node.disk.crash_after(event.parameters["operations"], power=power, then=then)
    return False  # counted when the crash happens, if it ever does


def _draw_quick(rng: random.Random, _: Field) -> Parameters:
    return {"restart_ns": rng.randrange(MILLISECOND)}


def _draw_pause(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, 10 * MILLISECOND, 5 * SECOND)}


def _pause(world: World, event: FaultEvent) -> bool:
    return _asleep(world, event, node_of(world, event).pause())


def _suspend(world: World, event: FaultEvent) -> bool:
    return _asleep(world, event, node_of(world, event).suspend())


def _asleep(world: World, event: FaultEvent, happened: bool) -> bool:
    if happened:
        world.after(event.parameters["for_ns"], node_of(world, event).resume)
    return happened


MACHINES: Final = (
    FaultKind("kill", draw_restart, _kill),
    FaultKind("kill_inside", _draw_inside, _kill_inside),
    FaultKind("quick_restart", _draw_quick, _kill),
    FaultKind("power_cut", draw_restart, _power_cut),
    FaultKind("power_cut_inside", _draw_inside, _power_cut_inside),
    FaultKind("power_cut_all", _draw_power_cut_all, _power_cut_all, needs_target=False),
    FaultKind("pause", _draw_pause, _pause),
    FaultKind("suspend", _draw_pause, _suspend),
)


HOUR: Final = 3600 * SECOND


def _draw_jump(rng: random.Random, _: Field) -> Parameters:
    return {"by_ns": rng.choice((-1, 1)) * duration(rng, MILLISECOND, 2 * HOUR)}


def _clock_jump(world: World, event: FaultEvent) -> bool:
    node_of(world, event).clock.jump_wall(event.parameters["by_ns"])
    return True


def _draw_rate(rng: random.Random, _: Field) -> Parameters:
    return {"ppm": rng.choice((-1, 1)) * rng.choice((50, 200, 500, 2000))}


def _clock_rate(world: World, event: FaultEvent) -> bool:
    node_of(world, event).clock.set_rate(event.parameters["ppm"])
    return True


TIMEKEEPING: Final = (
    FaultKind("clock_jump", _draw_jump, _clock_jump),
    FaultKind("clock_rate", _draw_rate, _clock_rate),
)
