"""Faults aimed at a store, because the general faults rarely hit the bytes that matter."""

import random

from holdfast.sim.engine.node import Life, SimNode
from holdfast.sim.engine.options import MILLISECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.scenarios.log.host import DIRECTORY, Host
from holdfast.storage.checkpoint import checkpoint_of
from holdfast.storage.segments import file_number

TAIL_BYTES = 1200
"""The last batch mostly lies within this many bytes of the end."""


def _draw_put_back(rng: random.Random, field: Field) -> Parameters:
    return {"after_ns": int(100 * MILLISECOND * 20 ** rng.random()), **_restart(rng)}


def _put_back(world: World, event: FaultEvent) -> bool:
    """Copy the disk now and restore the copy later, as from a backup.

    It is restored only after the next opening, because the opening number cannot reveal a disk restored
    within one opening (V5 names that limit).
    """
    node = world.nodes[event.target]
    host: Host | None = node.core
    if host is None or host.store is None:
        return False
    account, store, image = host.account, host.store, node.disk.copy()

    def put_back() -> None:
        if not world.is_healed and account.openings[store.store] != (store.opening, store.nonce):
            node.kill()
            node.disk.replace(image)
            node.restart(event.parameters["restart_ns"])

    world.after(event.parameters["after_ns"], put_back)
    return True


def _draw_rot(rng: random.Random, field: Field) -> Parameters:
    return {"where": rng.random(), "bit": rng.randrange(8), **_restart(rng)}


def _rot_tail(world: World, event: FaultEvent) -> bool:
    """Kill the host and flip a bit near the end of its log."""
    node = world.nodes[event.target]
    node.kill()
    spans = _spans(node)
    logs = [name for name, size in spans.items() if file_number(name) is not None and size > TAIL_BYTES]
    if logs:
        offset = spans[logs[-1]] - 1 - int(event.parameters["where"] * TAIL_BYTES)
        _flip(node, spans, logs[-1], offset, event.parameters["bit"])
    node.restart(event.parameters["restart_ns"])
    return bool(logs)


def _rot_checkpoint(world: World, event: FaultEvent) -> bool:
    """Flip a bit in one of the checkpoints and kill the host, so that it must read the checkpoint."""
    node = world.nodes[event.target]
    node.kill()
    spans = _spans(node)
    names = [name for name in spans if checkpoint_of(name) is not None]
    if names:
        share = event.parameters["where"] * len(names)
        name = names[int(share)]
        _flip(node, spans, name, int(share % 1 * spans[name]), event.parameters["bit"])
    node.restart(event.parameters["restart_ns"])
    return bool(names)


def _spans(node: SimNode) -> dict[str, int]:
    """Return the store's files and how much of each is in use, in the order in which the disk counts them."""
    disk = node.disk.open(DIRECTORY, Life(), None)
    with node.disk.untroubled():
        return {name: len(disk.read(name, 0, disk.size(name)).rstrip(b"\0")) for name in disk.list()}


def _flip(node: SimNode, spans: dict[str, int], name: str, offset: int, bit: int) -> None:
    before = sum(size for other, size in spans.items() if other < name)
    node.disk.flip_bit((before + offset + 0.5) / sum(spans.values()), bit)


def _restart(rng: random.Random) -> Parameters:
    return {"restart_ns": int(MILLISECOND * 1000 ** rng.random())}


PUT_BACK = FaultKind("put_back", _draw_put_back, _put_back)
ROT_TAIL = FaultKind("rot_tail", _draw_rot, _rot_tail)
ROT_CHECKPOINT = FaultKind("rot_checkpoint", _draw_rot, _rot_checkpoint)
