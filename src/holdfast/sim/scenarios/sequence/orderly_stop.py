"""A host that ends in an orderly way, or says so and does not (K5).

It tells all others that it is stopping, hands over what it is primary of, asks to be dropped, and ends a
moment later. Sometimes it ends before the others have acted, and sometimes what it said arrives when its next
process runs: nobody may lose anything by believing it.
"""

import random
from typing import Final

from holdfast.model.errors import HoldfastError
from holdfast.sim.engine.options import MILLISECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import draw_restart, duration, node_of, restart_later
from holdfast.sim.scenarios.sequence.host import Host


def _draw(rng: random.Random, field: Field) -> Parameters:
    steps = [duration(rng, MILLISECOND, 100 * MILLISECOND) for _ in range(2)]
    return {"leave_ns": steps[0], "end_ns": sum(steps), **draw_restart(rng, field)}


def _stop(world: World, event: FaultEvent) -> bool:
    node = node_of(world, event)
    core = node.core
    if not node.alive or not isinstance(core, Host) or not core.members:
        return False
    life = node.incarnation

    def is_same() -> bool:
        return node.alive and node.incarnation == life

    def leave() -> None:
        if is_same():
            core.tell_stopping(is_leaving=True)

    def end() -> None:
        if is_same() and node.kill():
            restart_later(node, event)

    core.tell_stopping(is_leaving=False)
    for member in core.members.values():
        try:
            for successor in member.successors()[:1]:
                member.hand_over(successor, "its host is being stopped")
        except HoldfastError:
            continue  # it is not served here, or nobody can take it over
    world.after(event.parameters["leave_ns"], leave)
    world.after(event.parameters["end_ns"], end)
    return True


ORDERLY_STOP: Final = FaultKind("orderly_stop", _draw, _stop)
