"""Disk faults: operations that fail or hang, full and slow disks, corruption, and replaced disks."""

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
    later,
    node_of,
    restart_later,
)


def _draw_count(rng: random.Random, _: Field) -> Parameters:
    return {"count": rng.choice((1, 1, 1, 2, 5))}


def _sync_fail(world: World, event: FaultEvent) -> bool:
    node_of(world, event).disk.failing_syncs = event.parameters["count"]
    return True


def _read_fail(world: World, event: FaultEvent) -> bool:
    node_of(world, event).disk.failing_reads = event.parameters["count"]
    return True


def _write_fail(world: World, event: FaultEvent) -> bool:
    node_of(world, event).disk.failing_writes = event.parameters["count"]
    return True


def _draw_hang(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, 50 * MILLISECOND, 20 * SECOND)}


def _sync_hang(world: World, event: FaultEvent) -> bool:
    node_of(world, event).disk.hung_until_ns = world.now + event.parameters["for_ns"]
    return True


def _draw_full(rng: random.Random, _: Field) -> Parameters:
    return {"left_bytes": rng.randrange(16_384), "for_ns": duration(rng, 10 * MILLISECOND, 5 * SECOND)}


def _disk_full(world: World, event: FaultEvent) -> bool:
    disk = node_of(world, event).disk
    disk.bytes_max = disk.used() + event.parameters["left_bytes"]
    later(world, event.parameters["for_ns"], setattr, disk, "bytes_max", None)
    return True


def _draw_slow(rng: random.Random, _: Field) -> Parameters:
    return {"factor": rng.choice((5, 50, 300)), "for_ns": duration(rng, 100 * MILLISECOND, 10 * SECOND)}


def _disk_slow(world: World, event: FaultEvent) -> bool:
    disk = node_of(world, event).disk
    disk.slow_factor = event.parameters["factor"]
    later(world, event.parameters["for_ns"], setattr, disk, "slow_factor", 1)
    return True


def _draw_rot(rng: random.Random, _: Field) -> Parameters:
    # Damage near the end of a log finds the most, so half of the damage goes there.
    where = rng.random() if rng.random() < 0.5 else 1 - rng.random() ** 4
    return {"where": min(where, 0.999999), "bit": rng.randrange(8)}


def _bit_rot(world: World, event: FaultEvent) -> bool:
    return node_of(world, event).disk.flip_bit(event.parameters["where"], event.parameters["bit"])


def _zero_sector(world: World, event: FaultEvent) -> bool:
    return node_of(world, event).disk.zero_sector(event.parameters["where"])


def _wipe(world: World, event: FaultEvent) -> bool:
    node = node_of(world, event)
    node.kill()
    node.disk.wipe()
    return restart_later(node, event)


def _draw_roll_back(rng: random.Random, field: Field) -> Parameters:
    return {"after_ns": duration(rng, 100 * MILLISECOND, 5 * SECOND), **draw_restart(rng, field)}


def _roll_back(world: World, event: FaultEvent) -> bool:
    """Copy the disk now; later kill the node and restore the copy."""
    node = node_of(world, event)
    image = node.disk.copy()

    def put_back() -> None:
        node.kill()
        node.disk.replace(image)
        world.faults[event.kind] += 1
        restart_later(node, event)

    later(world, event.parameters["after_ns"], put_back)
    return False  # counted when the copy is restored


def _draw_copy(rng: random.Random, field: Field) -> Parameters:
    return {"source": rng.choice(field.nodes), **draw_restart(rng, field)}


def _copy(world: World, event: FaultEvent) -> bool:
    """Replace this node's disk by a copy of another node's disk."""
    node, source = node_of(world, event), world.nodes.get(event.parameters["source"])
    if source is None or source is node:
        return False
    image = source.disk.copy()
    node.kill()
    node.disk.replace(image)
    return restart_later(node, event)


DISKS: Final = (
    FaultKind("sync_fail", _draw_count, _sync_fail),
    FaultKind("sync_hang", _draw_hang, _sync_hang),
    FaultKind("read_fail", _draw_count, _read_fail),
    FaultKind("write_fail", _draw_count, _write_fail),
    FaultKind("disk_full", _draw_full, _disk_full),
    FaultKind("disk_slow", _draw_slow, _disk_slow),
    FaultKind("bit_rot", _draw_rot, _bit_rot),
    FaultKind("zero_sector", _draw_rot, _zero_sector),
    FaultKind("wipe", draw_restart, _wipe),
    FaultKind("copy", _draw_copy, _copy),
    FaultKind("roll_back", _draw_roll_back, _roll_back),
)
