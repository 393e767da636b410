"""Clocks that jump, and that run fast or slow."""

import random
from typing import Final

from holdfast.sim.faults.kind import (
    FaultKind,
    Field,
    Parameters,
    duration,
    node_of,
)
from holdfast.sim.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.world import World

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
