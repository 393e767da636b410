"""Faults aimed at terms and transactions, which the general faults rarely hit (N-2, N-3, IM-132).

A host starts an election although the coordinator is alive. The authority decides and its answer is lost. The
coordinator is paused while a participant restarts. The coordinator and another host cannot hear each other,
and both reach everyone else.
"""

import random
from typing import Final

from holdfast.sim.engine.network import Link
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration, later
from holdfast.sim.scenarios.authority.server import AUTHORITY
from holdfast.sim.scenarios.control.host import Host


def _draw(rng: random.Random, _: Field) -> Parameters:
    return {
        "for_ns": duration(rng, 100 * MILLISECOND, 1500 * MILLISECOND),
        "after_ns": rng.randrange(60 * MILLISECOND),
    }


def _draw_parting(rng: random.Random, _: Field) -> Parameters:
    """Draw a duration that is mostly longer than the time after which silence is noticed."""
    return {"for_ns": duration(rng, 300 * MILLISECOND, 4 * SECOND)}


def _coordinating(world: World) -> str | None:
    for name, node in world.nodes.items():
        if isinstance(node.core, Host) and node.core.is_coordinating:
            return name
    return None


def _elect_anyway(world: World, event: FaultEvent) -> bool:
    """Let a host begin a new term, whoever holds the current one."""
    host = world.nodes[event.target].core
    if not isinstance(host, Host) or host.manager is None:
        return False
    node = world.nodes[event.target]
    node.run(node.life, host.elect)
    return True


def _mute(world: World, event: FaultEvent) -> bool:
    """Let no answer of the authority reach the coordinator."""
    name = _coordinating(world)
    if name is None:
        return False
    links: list[Link] = [(AUTHORITY, name)]
    world.network.cut(links)
    later(world, event.parameters["for_ns"], world.network.mend, links)
    return True


def _part(world: World, event: FaultEvent) -> bool:
    """Let the coordinator and another host not hear each other."""
    name = _coordinating(world)
    if name is None or event.target in (name, AUTHORITY):
        return False
    links: list[Link] = [(name, event.target), (event.target, name)]
    world.network.cut(links)
    later(world, event.parameters["for_ns"], world.network.mend, links)
    return True


def _stall(world: World, event: FaultEvent) -> bool:
    """Pause the coordinator, and kill another host meanwhile."""
    name = _coordinating(world)
    if name is None or event.target in (name, AUTHORITY) or not world.nodes[name].pause():
        return False
    later(world, event.parameters["for_ns"] // 3, world.nodes[name].resume)
    later(world, event.parameters["after_ns"], _restart, world, event.target)
    return True


def _restart(world: World, name: str) -> None:
    if world.nodes[name].kill():
        world.nodes[name].restart(MILLISECOND)


FAULTS: Final = (
    FaultKind("usurp", _draw, _elect_anyway),
    FaultKind("authority_mute", _draw, _mute, needs_target=False),
    FaultKind("stall", _draw, _stall),
    FaultKind("coordinator_parted", _draw_parting, _part),
)
