"""What a kind of fault is, where faults may strike, and helpers that many kinds share."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.sim.engine.network import Link
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent

if TYPE_CHECKING:
    from holdfast.sim.engine.node import SimNode
    from holdfast.sim.engine.world import World

Parameters = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """The nodes, clients and links that faults may strike."""

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
    """One kind of fault. ``apply`` returns whether it had any effect (a dead node cannot be killed)."""

    name: str
    draw: Callable[[random.Random, Field], Parameters]
    apply: Callable[["World", FaultEvent], bool]
    needs_target: bool = True
    is_aimed: bool = False
    """Whether only profiles that name it have it: it leaves the schedules of all others as they are."""


def draw_restart(rng: random.Random, _: Field) -> Parameters:
    return {"restart_ns": duration(rng, MILLISECOND, 3 * SECOND)}


def node_of(world: "World", event: FaultEvent) -> "SimNode":
    return world.nodes[event.target]


def restart_later(node: "SimNode", event: FaultEvent) -> bool:
    """Restart the node after the drawn time; returns True, because the fault has taken effect."""
    node.restart(event.parameters["restart_ns"])
    return True


def later(world: "World", delay_ns: int, function: Callable[..., object], *args: object) -> None:
    """Call *function* after the delay, unless the world has been healed by then."""

    def act() -> None:
        if not world.is_healed:
            function(*args)

    world.after(delay_ns, act)


def duration(rng: random.Random, least_ns: int, most_ns: int) -> int:
    """Draw a duration whose logarithm is evenly spread, so that short ones are as likely as long ones."""
    return int(least_ns * (most_ns / least_ns) ** rng.random())
