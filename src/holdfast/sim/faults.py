"""The kinds of faults: how each is drawn from a seed, and what it does to a world.

A fault is drawn once, up front, into a :class:`FaultEvent` of plain data; applying it draws nothing more
from the seed, so a schedule can be kept, replayed, and thinned out while the rest stays as it was.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from holdfast.sim.network import Link
from holdfast.sim.options import MILLISECOND, SECOND, FaultEvent, NetworkOptions

if TYPE_CHECKING:
    from holdfast.sim.node import SimNode
    from holdfast.sim.world import World

Parameters = dict[str, Any]
HOUR: Final = 3600 * SECOND


@dataclass(frozen=True, slots=True)
class Field:
    """Where faults may strike."""

    nodes: tuple[str, ...]
    clients: tuple[str, ...]
    all_links: tuple[Link, ...]
    """Every link between two nodes, or between a node and a client."""

    @classmethod
    def of(cls, nodes: tuple[str, ...], clients: tuple[str, ...]) -> "Field":
        everyone = nodes + clients
        links = [(a, b) for a in everyone for b in everyone if a != b and not (a in clients and b in clients)]
        return cls(nodes, clients, tuple(links))


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind. ``apply`` answers whether the fault had any effect (a dead node cannot be killed)."""

    name: str
    draw: Callable[[random.Random, Field], Parameters]
    apply: Callable[["World", FaultEvent], bool]
    needs_target: bool = True


# --- processes and machines


def _restart(rng: random.Random, _: Field) -> Parameters:
    return {"restart_ns": _duration(rng, MILLISECOND, 3 * SECOND)}


def _kill(world: "World", event: FaultEvent) -> bool:
    return _down(_node(world, event), event, _node(world, event).kill())


def _power_cut(world: "World", event: FaultEvent) -> bool:
    return _down(_node(world, event), event, _node(world, event).power_cut())


def _power_cut_all(world: "World", event: FaultEvent) -> bool:
    struck = [name for name in event.parameters["restarts_ns"] if name in world.nodes]
    for name in struck:
        world.nodes[name].power_cut()
        world.nodes[name].restart(event.parameters["restarts_ns"][name])
    return bool(struck)


def _draw_power_cut_all(rng: random.Random, field: Field) -> Parameters:
    return {"restarts_ns": {name: _duration(rng, MILLISECOND, 3 * SECOND) for name in field.nodes}}


def _draw_inside(rng: random.Random, field: Field) -> Parameters:
    return {"operations": rng.randint(1, 20), **_restart(rng, field)}


def _kill_inside(world: "World", event: FaultEvent) -> bool:
    return _crash_inside(world, event, power=False)


def _power_cut_inside(world: "World", event: FaultEvent) -> bool:
    return _crash_inside(world, event, power=True)


def _crash_inside(world: "World", event: FaultEvent, *, power: bool) -> bool:
    node = _node(world, event)
    if not node.alive:
        return False

    def then() -> None:
        world.faults[event.kind] += 1
        node.restart(event.parameters["restart_ns"])

    node.disk.crash_after(event.parameters["operations"], power=power, then=then)
    return False  # counted when it strikes, if it ever does


def _draw_quick(rng: random.Random, _: Field) -> Parameters:
    return {"restart_ns": rng.randrange(MILLISECOND)}


def _draw_pause(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": _duration(rng, 10 * MILLISECOND, 5 * SECOND)}


def _pause(world: "World", event: FaultEvent) -> bool:
    return _asleep(world, event, _node(world, event).pause())


def _suspend(world: "World", event: FaultEvent) -> bool:
    return _asleep(world, event, _node(world, event).suspend())


def _asleep(world: "World", event: FaultEvent, happened: bool) -> bool:
    if happened:
        world.after(event.parameters["for_ns"], _node(world, event).resume)
    return happened


# --- network


def _draw_partition(rng: random.Random, field: Field) -> Parameters:
    """Two sides; clients fall on either."""
    everyone = [*field.nodes, *field.clients]
    rng.shuffle(everyone)
    one_side = everyone[: rng.randint(1, max(1, len(everyone) - 1))]
    return _cut_for(rng, [link for link in field.all_links if (link[0] in one_side) != (link[1] in one_side)])


def _draw_isolation(rng: random.Random, field: Field) -> Parameters:
    alone = rng.choice(field.nodes)
    return _cut_for(rng, [link for link in field.all_links if alone in link])


def _draw_one_way(rng: random.Random, field: Field) -> Parameters:
    """One node is heard but does not hear, or the other way round."""
    deaf = rng.choice(field.nodes)
    end = rng.randrange(2)
    return _cut_for(rng, [link for link in field.all_links if link[end] == deaf])


def _draw_partial(rng: random.Random, field: Field) -> Parameters:
    """One pair cannot talk; everyone else can talk to both."""
    if not field.all_links:
        return _cut_for(rng, [])
    a, b = rng.choice(field.all_links)
    return _cut_for(rng, [(a, b), (b, a)])


def _draw_flapping(rng: random.Random, field: Field) -> Parameters:
    drawn = rng.choice((_draw_partition, _draw_isolation, _draw_one_way, _draw_partial))(rng, field)
    return {**drawn, "period_ns": _duration(rng, 5 * MILLISECOND, 500 * MILLISECOND)}


def _cut(world: "World", event: FaultEvent) -> bool:
    links = _links(event.parameters["links"])
    world.network.cut(links)
    _later(world, event.parameters["for_ns"], world.network.mend, links)
    return bool(links)


def _flap(world: "World", event: FaultEvent) -> bool:
    """Cut and mend the same links in turn."""
    links = _links(event.parameters["links"])
    period_ns = event.parameters["period_ns"]
    for start in range(0, event.parameters["for_ns"], 2 * period_ns):
        _later(world, start, world.network.cut, links)
        _later(world, start + period_ns, world.network.mend, links)
    return bool(links)


def _draw_swizzle(rng: random.Random, field: Field) -> Parameters:
    """Links stop one by one and come back in another order."""
    pairs = [link for link in field.all_links if link[0] < link[1]]
    chosen = rng.sample(pairs, rng.randint(min(1, len(pairs)), len(pairs)))
    step = _duration(rng, 10 * MILLISECOND, 300 * MILLISECOND)
    ends = [(len(chosen) + turn) * step for turn in range(len(chosen))]
    rng.shuffle(ends)
    return {
        "cuts": [
            {"links": [[a, b], [b, a]], "from_ns": turn * step, "to_ns": end}
            for turn, ((a, b), end) in enumerate(zip(chosen, ends, strict=True))
        ]
    }


def _swizzle(world: "World", event: FaultEvent) -> bool:
    for cut in event.parameters["cuts"]:
        links = _links(cut["links"])
        _later(world, cut["from_ns"], world.network.cut, links)
        _later(world, cut["to_ns"], world.network.mend, links)
    return bool(event.parameters["cuts"])


def _draw_storm(rng: random.Random, _: Field) -> Parameters:
    return {
        "for_ns": _duration(rng, 100 * MILLISECOND, 4 * SECOND),
        "loss": rng.choice((0.0, 0.05, 0.25, 0.5)),
        "duplicate": rng.choice((0.0, 0.05, 0.15, 0.5)),
        "delay_mean_ns": _duration(rng, MILLISECOND, 100 * MILLISECOND),
        "late": rng.choice((0.0, 0.01, 0.1)),
    }


def _storm(world: "World", event: FaultEvent) -> bool:
    drawn = event.parameters
    calm = world.options.network
    world.network.weather(
        NetworkOptions(
            delay_min_ns=calm.delay_min_ns,
            delay_mean_ns=drawn["delay_mean_ns"],
            loss=drawn["loss"],
            duplicate=drawn["duplicate"],
            late=drawn["late"],
            late_max_ns=calm.late_max_ns,
        )
    )
    _later(world, drawn["for_ns"], world.network.calm)
    return True


# --- clocks


def _draw_jump(rng: random.Random, _: Field) -> Parameters:
    return {"by_ns": rng.choice((-1, 1)) * _duration(rng, MILLISECOND, 2 * HOUR)}


def _clock_jump(world: "World", event: FaultEvent) -> bool:
    _node(world, event).clock.jump_wall(event.parameters["by_ns"])
    return True


def _draw_rate(rng: random.Random, _: Field) -> Parameters:
    return {"ppm": rng.choice((-1, 1)) * rng.choice((50, 200, 500, 2000))}


def _clock_rate(world: "World", event: FaultEvent) -> bool:
    _node(world, event).clock.set_rate(event.parameters["ppm"])
    return True


# --- disks


def _draw_count(rng: random.Random, _: Field) -> Parameters:
    return {"count": rng.choice((1, 1, 1, 2, 5))}


def _sync_fail(world: "World", event: FaultEvent) -> bool:
    _node(world, event).disk.failing_syncs = event.parameters["count"]
    return True


def _read_fail(world: "World", event: FaultEvent) -> bool:
    _node(world, event).disk.failing_reads = event.parameters["count"]
    return True


def _write_fail(world: "World", event: FaultEvent) -> bool:
    _node(world, event).disk.failing_writes = event.parameters["count"]
    return True


def _draw_hang(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": _duration(rng, 50 * MILLISECOND, 20 * SECOND)}


def _sync_hang(world: "World", event: FaultEvent) -> bool:
    _node(world, event).disk.hung_until_ns = world.now + event.parameters["for_ns"]
    return True


def _draw_full(rng: random.Random, _: Field) -> Parameters:
    return {"left_bytes": rng.randrange(16_384), "for_ns": _duration(rng, 10 * MILLISECOND, 5 * SECOND)}


def _disk_full(world: "World", event: FaultEvent) -> bool:
    disk = _node(world, event).disk
    disk.bytes_max = disk.used() + event.parameters["left_bytes"]
    _later(world, event.parameters["for_ns"], setattr, disk, "bytes_max", None)
    return True


def _draw_slow(rng: random.Random, _: Field) -> Parameters:
    return {"factor": rng.choice((5, 50, 300)), "for_ns": _duration(rng, 100 * MILLISECOND, 10 * SECOND)}


def _disk_slow(world: "World", event: FaultEvent) -> bool:
    disk = _node(world, event).disk
    disk.slow_factor = event.parameters["factor"]
    _later(world, event.parameters["for_ns"], setattr, disk, "slow_factor", 1)
    return True


def _draw_rot(rng: random.Random, _: Field) -> Parameters:
    # Damage near the end of a log is the interesting kind: half of it goes there.
    where = rng.random() if rng.random() < 0.5 else 1 - rng.random() ** 4
    return {"where": min(where, 0.999999), "bit": rng.randrange(8)}


def _bit_rot(world: "World", event: FaultEvent) -> bool:
    return _node(world, event).disk.flip_bit(event.parameters["where"], event.parameters["bit"])


def _zero_sector(world: "World", event: FaultEvent) -> bool:
    return _node(world, event).disk.zero_sector(event.parameters["where"])


def _wipe(world: "World", event: FaultEvent) -> bool:
    node = _node(world, event)
    node.kill()
    node.disk.wipe()
    return _down(node, event, True)


def _draw_roll_back(rng: random.Random, field: Field) -> Parameters:
    return {"after_ns": _duration(rng, 100 * MILLISECOND, 5 * SECOND), **_restart(rng, field)}


def _roll_back(world: "World", event: FaultEvent) -> bool:
    """Copy the disk now; later kill the node and put the copy back in its place."""
    node = _node(world, event)
    image = node.disk.copy()

    def put_back() -> None:
        node.kill()
        node.disk.replace(image)
        world.faults[event.kind] += 1
        _down(node, event, True)

    _later(world, event.parameters["after_ns"], put_back)
    return False  # counted when it is put back


def _draw_copy(rng: random.Random, field: Field) -> Parameters:
    return {"source": rng.choice(field.nodes), **_restart(rng, field)}


def _copy(world: "World", event: FaultEvent) -> bool:
    """Put a copy of another node's disk in the place of this node's own."""
    node, source = _node(world, event), world.nodes.get(event.parameters["source"])
    if source is None or source is node:
        return False
    image = source.disk.copy()
    node.kill()
    node.disk.replace(image)
    return _down(node, event, True)


# --- shared by the kinds


def _node(world: "World", event: FaultEvent) -> "SimNode":
    return world.nodes[event.target]


def _down(node: "SimNode", event: FaultEvent, happened: bool) -> bool:
    if happened:
        node.restart(event.parameters["restart_ns"])
    return happened


def _later(world: "World", delay_ns: int, function: Callable[..., object], *args: object) -> None:
    """Do it then, unless everything has been healed by then."""

    def act() -> None:
        if not world.is_healed:
            function(*args)

    world.after(delay_ns, act)


def _cut_for(rng: random.Random, links: Iterable[Link]) -> Parameters:
    return {"links": [list(link) for link in links], "for_ns": _duration(rng, 20 * MILLISECOND, 6 * SECOND)}


def _links(links: Iterable[Iterable[str]]) -> list[Link]:
    return [(source, target) for source, target in links]


def _duration(rng: random.Random, least_ns: int, most_ns: int) -> int:
    """Short ones are as likely as long ones: the logarithm is evenly spread."""
    return int(least_ns * (most_ns / least_ns) ** rng.random())


KINDS: Final[dict[str, FaultKind]] = {
    kind.name: kind
    for kind in (
        FaultKind("kill", _restart, _kill),
        FaultKind("kill_inside", _draw_inside, _kill_inside),
        FaultKind("quick_restart", _draw_quick, _kill),
        FaultKind("power_cut", _restart, _power_cut),
        FaultKind("power_cut_inside", _draw_inside, _power_cut_inside),
        FaultKind("power_cut_all", _draw_power_cut_all, _power_cut_all, needs_target=False),
        FaultKind("pause", _draw_pause, _pause),
        FaultKind("suspend", _draw_pause, _suspend),
        FaultKind("partition", _draw_partition, _cut, needs_target=False),
        FaultKind("isolation", _draw_isolation, _cut, needs_target=False),
        FaultKind("one_way", _draw_one_way, _cut, needs_target=False),
        FaultKind("partial", _draw_partial, _cut, needs_target=False),
        FaultKind("flapping", _draw_flapping, _flap, needs_target=False),
        FaultKind("swizzle", _draw_swizzle, _swizzle, needs_target=False),
        FaultKind("storm", _draw_storm, _storm, needs_target=False),
        FaultKind("clock_jump", _draw_jump, _clock_jump),
        FaultKind("clock_rate", _draw_rate, _clock_rate),
        FaultKind("sync_fail", _draw_count, _sync_fail),
        FaultKind("sync_hang", _draw_hang, _sync_hang),
        FaultKind("read_fail", _draw_count, _read_fail),
        FaultKind("write_fail", _draw_count, _write_fail),
        FaultKind("disk_full", _draw_full, _disk_full),
        FaultKind("disk_slow", _draw_slow, _disk_slow),
        FaultKind("bit_rot", _draw_rot, _bit_rot),
        FaultKind("zero_sector", _draw_rot, _zero_sector),
        FaultKind("wipe", _restart, _wipe),
        FaultKind("copy", _draw_copy, _copy),
        FaultKind("roll_back", _draw_roll_back, _roll_back),
    )
}

PROCESS_KINDS: Final = ("kill", "kill_inside", "quick_restart", "pause")
POWER_KINDS: Final = ("power_cut", "power_cut_inside", "power_cut_all")
NETWORK_KINDS: Final = ("partition", "isolation", "one_way", "partial", "flapping", "swizzle", "storm")
CLOCK_KINDS: Final = ("clock_jump", "clock_rate", "suspend")
DISK_KINDS: Final = ("sync_fail", "sync_hang", "read_fail", "write_fail", "disk_full", "disk_slow")
DAMAGE_KINDS: Final = ("bit_rot", "zero_sector", "wipe", "copy", "roll_back")
