"""Link faults: cuts of every shape, and bad network conditions."""

import random
from collections.abc import Iterable
from typing import Final

from holdfast.sim.engine.network import Link
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent, NetworkOptions
from holdfast.sim.engine.world import World
from holdfast.sim.faults.kind import (
    FaultKind,
    Field,
    Parameters,
    duration,
    later,
)


def _draw_partition(rng: random.Random, field: Field) -> Parameters:
    """Split all nodes and clients into two sides that cannot talk to each other."""
    everyone = [*field.nodes, *field.clients]
    rng.shuffle(everyone)
    one_side = everyone[: rng.randint(1, max(1, len(everyone) - 1))]
    return _cut_for(rng, [link for link in field.all_links if (link[0] in one_side) != (link[1] in one_side)])


def _draw_isolation(rng: random.Random, field: Field) -> Parameters:
    alone = rng.choice(field.nodes)
    return _cut_for(rng, [link for link in field.all_links if alone in link])


def _draw_one_way(rng: random.Random, field: Field) -> Parameters:
    """Draw one node that cannot hear the others, or that the others cannot hear."""
    deaf = rng.choice(field.nodes)
    end = rng.randrange(2)
    return _cut_for(rng, [link for link in field.all_links if link[end] == deaf])


def _draw_partial(rng: random.Random, field: Field) -> Parameters:
    """Draw one pair that cannot talk to each other; everyone else can talk to both."""
    if not field.all_links:
        return _cut_for(rng, [])
    a, b = rng.choice(field.all_links)
    return _cut_for(rng, [(a, b), (b, a)])


def _draw_flapping(rng: random.Random, field: Field) -> Parameters:
    drawn = rng.choice((_draw_partition, _draw_isolation, _draw_one_way, _draw_partial))(rng, field)
    return {**drawn, "period_ns": duration(rng, 5 * MILLISECOND, 500 * MILLISECOND)}


def _cut(world: World, event: FaultEvent) -> bool:
    links = _links(event.parameters["links"])
    world.network.cut(links)
    later(world, event.parameters["for_ns"], world.network.mend, links)
    return bool(links)


def _flap(world: World, event: FaultEvent) -> bool:
    """Cut and mend the same links repeatedly."""
    links = _links(event.parameters["links"])
    period_ns = event.parameters["period_ns"]
    for start in range(0, event.parameters["for_ns"], 2 * period_ns):
        later(world, start, world.network.cut, links)
        later(world, start + period_ns, world.network.mend, links)
    return bool(links)


def _draw_swizzle(rng: random.Random, field: Field) -> Parameters:
    """Draw links that are cut one by one and mended in another order."""
    pairs = [link for link in field.all_links if link[0] < link[1]]
    chosen = rng.sample(pairs, rng.randint(min(1, len(pairs)), len(pairs)))
    step = duration(rng, 10 * MILLISECOND, 300 * MILLISECOND)
    ends = [(len(chosen) + turn) * step for turn in range(len(chosen))]
    rng.shuffle(ends)
    return {
        "cuts": [
            {"links": [[a, b], [b, a]], "from_ns": turn * step, "to_ns": end}
            for turn, ((a, b), end) in enumerate(zip(chosen, ends, strict=True))
        ]
    }


def _swizzle(world: World, event: FaultEvent) -> bool:
    for cut in event.parameters["cuts"]:
        links = _links(cut["links"])
        later(world, cut["from_ns"], world.network.cut, links)
        later(world, cut["to_ns"], world.network.mend, links)
    return bool(event.parameters["cuts"])


def _draw_storm(rng: random.Random, _: Field) -> Parameters:
    return {
        "for_ns": duration(rng, 100 * MILLISECOND, 4 * SECOND),
        "loss": rng.choice((0.0, 0.05, 0.25, 0.5)),
        "duplicate": rng.choice((0.0, 0.05, 0.15, 0.5)),
        "delay_mean_ns": duration(rng, MILLISECOND, 100 * MILLISECOND),
        "late": rng.choice((0.0, 0.01, 0.1)),
    }


def _storm(world: World, event: FaultEvent) -> bool:
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
    later(world, drawn["for_ns"], world.network.calm)
    return True


def _cut_for(rng: random.Random, links: Iterable[Link]) -> Parameters:
    return {"links": [list(link) for link in links], "for_ns": duration(rng, 20 * MILLISECOND, 6 * SECOND)}


def _links(links: Iterable[Iterable[str]]) -> list[Link]:
    return [(source, target) for source, target in links]


LINKS: Final = (
    FaultKind("partition", _draw_partition, _cut, needs_target=False),
    FaultKind("isolation", _draw_isolation, _cut, needs_target=False),
    FaultKind("one_way", _draw_one_way, _cut, needs_target=False),
    FaultKind("partial", _draw_partial, _cut, needs_target=False),
    FaultKind("flapping", _draw_flapping, _flap, needs_target=False),
    FaultKind("swizzle", _draw_swizzle, _swizzle, needs_target=False),
    FaultKind("storm", _draw_storm, _storm, needs_target=False),
)
