"""The end of a run: what stands in line is let out, as long as it moves.

A line of calls that call other groups takes as long as their disks do, some tens of seconds where a sync
takes tens of milliseconds. How long is nobody's promise; that it goes on is one.
"""

from typing import Final

from holdfast.sim.groups.host import Host
from holdfast.sim.groups.stage import Stage
from holdfast.sim.world import World
from holdfast.styles.execution import Execution

LOOKS_MAX: Final = 20
"""So often a line may have moved and not be empty yet. It has at most some fifty calls, three hops each."""


def let_out(world: World, stage: Stage, look_ns: int) -> None:
    """Go on until no call waits and no timer is to come, or nothing has moved in *look_ns*: in either case
    the final checks judge what is there then. Nobody asks anything new meanwhile."""
    before: list[object] = []
    for _ in range(LOOKS_MAX):
        waiting = _waiting(world, stage)
        if waiting == before:
            return  # it stands still; or nothing is left, and what came of it has had its time to settle
        before = waiting
        if waiting:
            world.sometimes("a line was not empty when the last call had ended")
        world.run_until(world.now + look_ns)


def _waiting(world: World, stage: Stage) -> list[object]:
    """What each group has still to do, as its primary sees it; different whenever any of it is done."""
    found = [_left(each) for each in _executions(world, stage)]
    return [left for left in found if left is not None]


def _left(execution: Execution) -> object:
    if execution.is_idle and not len(execution.timers):
        return None
    outgoing = execution.outgoing()
    waits_for = (outgoing.caller, outgoing.call) if outgoing is not None else None
    return execution.definition.group, waits_for, len(execution.line.queue), len(execution.timers)


def _executions(world: World, stage: Stage) -> list[Execution]:
    """The objects that take calls now."""
    hosts: list[Host | None] = [world.nodes[name].core for name in stage.hosts]
    housed = [each for host in hosts if host and host.groups for each in host.groups.housed.values()]
    ready = [each.replica.execution for each in housed if each.is_ready and each.record.style != "stateless"]
    return [execution for execution in ready if execution is not None]
