"""Changes of the hosts on which groups have members, while other faults happen (M5, M6)."""

import random
from typing import Final

from holdfast.authority import keys
from holdfast.authority.groups import GroupRecord
from holdfast.authority.placement import add_member, remove_member
from holdfast.authority.recipe import Recipe
from holdfast.model.ids import HostId, Nonce
from holdfast.sim.engine.options import FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.scenarios.authority.server import values_at_authority
from holdfast.sim.scenarios.groups import failing_objects
from holdfast.sim.scenarios.groups.host import Host
from holdfast.sim.scenarios.sequence import aimed_faults

PLACEMENT_CHANGES: Final = "placement_changes"


def records(world: World) -> list[GroupRecord]:
    """Return the group records at the authority; nothing while it is down."""
    return values_at_authority(world, keys.GROUPS, GroupRecord)


def _may_remove(world: World, record: GroupRecord) -> bool:
    """Whether a member may be removed.

    A group keeps one more than it needs where a host will be deaf in the end, or can make no object.
    """
    has_unusable_host = aimed_faults.deaf_host(world.options) is not None
    has_unusable_host = has_unusable_host or any(
        event.kind == failing_objects.BREAKS for event in world.options.faults
    )
    return len(record.placed_on) > record.min_in_sync + has_unusable_host


def _draw_move(rng: random.Random, _: Field) -> Parameters:
    return {"group": rng.randrange(100), "host": rng.randrange(100), "is_added": rng.random() < 0.6}


def _change(world: World, event: FaultEvent) -> bool:
    """Add a member to a group or remove one, through some running host."""
    living = [node.core for node in world.nodes.values() if isinstance(node.core, Host) and node.core.groups]
    known = records(world)
    if not living or not known:
        return False
    record = known[event.parameters["group"] % len(known)]
    hosts = [HostId(name) for name, node in world.nodes.items() if name.startswith("h")]
    leaving = [each.host for each in record.members if each.is_leaving]
    chosen = [host for host in hosts if host not in record.placed_on] if event.parameters["is_added"] else []
    is_added = bool(chosen)
    if not is_added and not _may_remove(world, record):
        return False
    host = (chosen or record.placed_on)[event.parameters["host"] % len(chosen or record.placed_on)]
    if is_added and host in leaving:
        world.sometimes("a host that is leaving is asked back")
    nonce = Nonce(f"moving/{event.at_ns}")
    recipe: Recipe[object] = (add_member if is_added else remove_member)(record.group, host, nonce=nonce)
    through: Host = living[event.parameters["host"] % len(living)]
    assert through.groups is not None
    through.groups.recipes.start(recipe, lambda _: None)
    return True


MOVING: Final = FaultKind(PLACEMENT_CHANGES, _draw_move, _change, needs_target=False)
