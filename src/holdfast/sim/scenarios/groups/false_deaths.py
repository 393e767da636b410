"""Proofs of deaths that never were, told to a host that cannot ask (K2, K7).

One host is told, as if by their agents, that processes of all other hosts have died whose numbers the
authority never issued; then it cannot hear those hosts for a while, though it reaches the authority. It must
conclude nothing about the processes that there are: those who hold a group's state in memory are not gone.
No general schedule has this fault; the profile ``false-deaths`` does.
"""

import random
from typing import Final

from holdfast.model.ids import Incarnation
from holdfast.sequence.messages import Died
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration, later
from holdfast.sim.scenarios.authority.server import AUTHORITY
from holdfast.sim.scenarios.groups.host import Host

ARRIVES_NS: Final = 30 * MILLISECOND
"""The host is cut off when the proofs have arrived."""
NEVER_ISSUED: Final = 1_000
"""How far above the number of the running process: more than any run issues."""


def _draw(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, 800 * MILLISECOND, 3 * SECOND), "above": rng.randrange(1, NEVER_ISSUED)}


def _tell(world: World, event: FaultEvent) -> bool:
    told, for_ns = event.target, event.parameters["for_ns"]
    if told == AUTHORITY:
        return False
    others: dict[str, Incarnation] = {}
    for name, node in world.nodes.items():
        if name != told and isinstance(node.core, Host) and node.core.incarnation is not None:
            others[name] = node.core.incarnation
    for name, incarnation in others.items():
        number = Incarnation(incarnation + NEVER_ISSUED + event.parameters["above"])
        world.network.send(name, told, Died(name, number))
    links = [link for name in others for link in ((name, told), (told, name))]
    later(world, ARRIVES_NS, world.network.cut, links)
    later(world, ARRIVES_NS + for_ns, world.network.mend, links)
    world.sometimes("a death was reported that never was")
    return bool(others)


FALSE_DEATH: Final = FaultKind("false_death", _draw, _tell, is_aimed=True)
