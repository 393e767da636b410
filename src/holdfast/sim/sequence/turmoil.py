"""Faults aimed at changes of the view: the general ones meet them too seldom (PROTOCOL M2, M3, K1).

The authority applies what it is asked and its answers are lost; a host is gone long enough to be dropped, and
comes back to be let in; two hosts do not hear each other; the primary falls silent towards everyone.
"""

import random
from typing import Final

from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration, later
from holdfast.sim.network import Link
from holdfast.sim.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.sequence.damage import views
from holdfast.sim.sequence.host import AUTHORITY
from holdfast.sim.world import World


def _draw(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, 300 * MILLISECOND, 2 * SECOND)}


def _draw_pair(rng: random.Random, field: Field) -> Parameters:
    hosts = [name for name in field.nodes if name != AUTHORITY]
    return {"pair": rng.sample(hosts, 2), **_draw(rng, field)}


def _part(world: World, event: FaultEvent) -> bool:
    """Let two hosts not talk to each other; both talk to everyone else."""
    one, other = event.parameters["pair"]
    return _cut(world, event, [(one, other), (other, one)])


def _mute(world: World, event: FaultEvent) -> bool:
    """Let no answer of the authority through."""
    return _cut(world, event, [(AUTHORITY, name) for name in world.nodes if name != AUTHORITY])


def _away(world: World, event: FaultEvent) -> bool:
    """Kill a host for so long."""
    node = world.nodes[event.target]
    if event.target == AUTHORITY or not node.kill():
        return False
    node.restart(event.parameters["for_ns"])
    return True


def _fall(world: World, event: FaultEvent) -> bool:
    """Cut the first group's primary off from everybody."""
    primaries = [view.primary for view in views(world)][:1]
    links: list[Link] = []
    for primary in primaries:
        for name in world.nodes:
            if name != primary:
                links += [(primary, name), (name, primary)]
    return _cut(world, event, links)


def _cut(world: World, event: FaultEvent, links: list[Link]) -> bool:
    world.network.cut(links)
    later(world, event.parameters["for_ns"], world.network.mend, links)
    return bool(links)


FAULTS: Final = (
    FaultKind("authority_mute", _draw, _mute, needs_target=False),
    FaultKind("host_away", _draw, _away),
    FaultKind("primary_falls", _draw, _fall, needs_target=False),
    FaultKind("hosts_parted", _draw_pair, _part, needs_target=False),
)
