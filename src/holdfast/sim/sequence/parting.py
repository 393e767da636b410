"""A fault aimed at reads under leases: the primary is alone, does not know it, and is asked (R3).

A group's primary hears no other host and not the authority, while clients reach it as before, and one of them
goes on reading there. Its leases run out; a backup claims the group, and orders what other clients append.
A primary whose lease is longer than a backup waits would answer with a state that lacks this. General faults
cut too much, or the reader happens to be elsewhere in those few milliseconds.
"""

import random
from typing import Final

from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration, later
from holdfast.sim.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.sequence.client import Client
from holdfast.sim.sequence.damage import views
from holdfast.sim.world import World

GROUPS_MAX: Final = 100
"""More than any run has."""


def _draw(rng: random.Random, _: Field) -> Parameters:
    return {"group": rng.randrange(GROUPS_MAX), "for_ns": duration(rng, 300 * MILLISECOND, SECOND)}


def _part(world: World, event: FaultEvent) -> bool:
    """Cut the primary of one group off from every other server, and let a client of the group read there."""
    known = views(world)
    if not known:
        return False
    view = known[event.parameters["group"] % len(known)]
    primary, for_ns = view.primary, event.parameters["for_ns"]
    clients = {name: node.core for name, node in world.nodes.items() if isinstance(node.core, Client)}
    others = [name for name in world.nodes if name not in clients and name != primary]
    links = [link for name in others for link in ((primary, name), (name, primary))]
    world.network.cut(links)
    later(world, for_ns, world.network.mend, links)
    readers = [client for client in clients.values() if client.group == view.group]
    for reader in readers[:1]:
        reader.read_at(primary, for_ns)
    return True


PARTING: Final = FaultKind("primary_parted", _draw, _part, needs_target=False)
