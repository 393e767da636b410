"""Damage to one host's disk, within what the design claims to survive (V5, D2).

Nothing is damaged while a group has fewer in-sync members than it wants, because it has acknowledged nothing
then. A disk restored *within one opening* cannot be recognised by its number. Its peers must notice it, and
can only while they are running (the limit that V5 states), so that is done when everything else has healed.
"""

import random
from collections.abc import Iterable
from typing import Final

from holdfast.authority import keys
from holdfast.authority.views import View
from holdfast.model.errors import Corruption
from holdfast.model.ids import GroupId, Opening
from holdfast.sequence.member import Member
from holdfast.sim.engine.node import Life, SimNode
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import DAMAGE_KINDS, KINDS, FaultKind, Field, Parameters
from holdfast.sim.scenarios.authority.server import AUTHORITY, values_at_authority
from holdfast.sim.scenarios.sequence.host import CONFIG
from holdfast.sim.scenarios.sequence.startup import DIRECTORY, LOG, HostProcess
from holdfast.storage.identity import load
from holdfast.storage.segments import file_number

ROLL_BACK: Final = KINDS["roll_back"]
HARM: Final = tuple(name for name in DAMAGE_KINDS if name != ROLL_BACK.name)
LAST_BYTES: Final = 100
"""This close to its end a log certainly contains its last batch."""

SLIP_NS: Final = 2 * SECOND
"""The time after healing when a disk may be restored within one opening: all hosts are running again by
then."""


def views(world: World) -> list[View]:
    """Return the views at the authority; nothing while it is down."""
    return values_at_authority(world, keys.VIEWS, View)


def listed_here(world: World, group: GroupId, members: Iterable[Member]) -> tuple[list[Member], int]:
    """Return those of *members* that the view lists, and how many it lists."""
    listed = [each.store for view in views(world) if view.group == group for each in view.members]
    return [each for each in members if each.standing.me.store in listed], len(listed)


def is_in_doubt(world: World, group: GroupId, members: Iterable[Member]) -> bool:
    """Whether no listed one of *members*, which are all there are, may claim.

    Each has a doubtful tail, and too many are missing to compare them all. With one store lost and another's
    tail torn, only a person can recover the group (D2).
    """
    here, listed = listed_here(world, group, members)
    return 0 < len(here) < listed and all(member.is_doubtful for member in here)


def _may_harm(world: World, event: FaultEvent) -> bool:
    found = views(world)
    whole = found and all(len(view.members) >= CONFIG.min_in_sync for view in found)
    return bool(whole) and AUTHORITY not in (event.target, event.parameters.get("source"))


def _guarded(kind: FaultKind) -> FaultKind:
    def apply(world: World, event: FaultEvent) -> bool:
        return _may_harm(world, event) and kind.apply(world, event)

    return FaultKind(kind.name, kind.draw, apply)


def _roll_back(world: World, event: FaultEvent) -> bool:
    """Copy the disk now, restore the copy later."""
    node = world.nodes[event.target]
    opening = _opening(node)
    if not _may_harm(world, event) or opening is None:
        return False
    image = node.disk.copy()

    def put_back() -> None:
        if _opening(node) == opening and not world.is_healed:
            world.at(world.options.fault_ns + SLIP_NS, put_back)
            return
        world.faults[event.kind] += 1
        if _opening(node) == opening:
            world.sometimes("a disk went back within one opening")
            _end_all(world)
        node.kill()
        node.disk.replace(image)
        node.restart()

    world.after(event.parameters["after_ns"], put_back)
    return False  # counted when the copy is restored


def _end_all(world: World) -> None:
    """End and restart all hosts at the same time: the first to claim has no one to follow."""
    for name, node in world.nodes.items():
        if isinstance(node.core, HostProcess):
            world.trace.add(f"{world.now} {name} ends with all others")
            node.kill()
            node.restart()


def _opening(node: SimNode) -> Opening | None:
    """Return which opening the disk is in.

    It is None between two openings, when a copy would include the intent of the next.
    """
    with node.disk.untroubled():
        try:
            store = load(node.disk.open(DIRECTORY, Life(), None))
        except Corruption:
            store = None
    return store.opening if store is not None and store.intent is None else None


def _draw_last(rng: random.Random, _: Field) -> Parameters:
    return {"back": rng.randrange(LAST_BYTES), "restart_ns": rng.randrange(MILLISECOND, 50 * MILLISECOND)}


def _last_batch_rots(world: World, event: FaultEvent) -> bool:
    """Kill the host, flip a bit of the last batch in its log, and restart it at once (D2)."""
    node = world.nodes[event.target]
    node.kill()
    rotted = rot_last_batch(node, event.parameters["back"])
    node.restart(event.parameters["restart_ns"])
    return rotted


def rot_last_batch(node: SimNode, back: int) -> bool:
    """Flip a bit about *back* bytes before the end of the log of a host that is down; zeros are padding."""
    with node.disk.untroubled():
        disk = node.disk.open(DIRECTORY, Life(), None)
        for name in reversed([name for name in disk.list() if file_number(name)]):
            content = disk.read(name, 0, disk.size(name))
            end = len(content.rstrip(b"\0"))
            if end > 2 * LOG.sector_bytes:
                used = [offset for offset in range(end - LOG.sector_bytes, end) if content[offset]]
                offset = used[-1 - back % len(used)]
                disk.write_at(name, offset, bytes([content[offset] ^ 1]))
                return True
    return False


LAST_BATCH_ROTS: Final = FaultKind("last_batch_rots", _draw_last, _last_batch_rots)
NAMES: Final = (*HARM, ROLL_BACK.name, LAST_BATCH_ROTS.name)
FAULTS: Final = (
    *(_guarded(KINDS[name]) for name in HARM),
    _guarded(LAST_BATCH_ROTS),
    FaultKind(ROLL_BACK.name, ROLL_BACK.draw, _roll_back),
)
