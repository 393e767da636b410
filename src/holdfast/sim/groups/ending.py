"""The end of a run: what stands in line is let out and who learns is awaited, as long as they move.

A line of calls that call other groups takes as long as their disks do, some tens of seconds where a sync
takes tens of milliseconds. A host may read what has rotted long after everything else has healed, and begins
again with nothing then; over a network that changes the order of messages it learns slowly. How long these
take is nobody's promise; that they go on is one.
"""

from collections.abc import Iterator
from typing import Final

from holdfast.housing.housed import Housed
from holdfast.sim.groups.host import Host
from holdfast.sim.groups.stage import Stage
from holdfast.sim.sequence.damage import views
from holdfast.sim.world import World
from holdfast.styles.execution import Execution

LOOKS_MAX: Final = 20
"""So often something may have moved and not be over yet. A line has at most some fifty calls, three hops
each."""


def let_out(world: World, stage: Stage, look_ns: int) -> list[str]:
    """Go on until no call waits, no timer is to come and nobody learns, or nothing of that has moved in
    *look_ns*: in either case the final checks judge what is there then. Nobody asks anything new.

    Answers the groups that had something to do at first: calls to them may have been given up in the line.
    """
    busy = [name for name, *_ in _lines(world, stage)]
    before: list[object] = []
    for _ in range(LOOKS_MAX):
        left = [*_lines(world, stage), *_learners(world, stage)]
        if left == before:
            break  # it stands still; or nothing is left, and what came of it has had its time to settle
        before = left
        if left:
            world.sometimes("something was still moving when the last call had ended")
        world.run_until(world.now + look_ns)
    return busy


def _lines(world: World, stage: Stage) -> Iterator[tuple[str, object, tuple[int, ...]]]:
    """What each group has still to do, as its primary sees it; different whenever any of it is done."""
    for name in stage.hosts:
        for housed in _housed(world, name):
            execution = housed.replica.execution if housed.is_ready else None
            if execution is not None and not _is_done(execution):
                outgoing = execution.outgoing()
                waits_for = (outgoing.caller, outgoing.call) if outgoing is not None else None
                to_come = (len(execution.line.queue), len(execution.timers), len(execution.sends))
                yield housed.record.name, waits_for, to_come


def _is_done(execution: Execution) -> bool:
    return execution.is_idle and not len(execution.timers) and not len(execution.sends)


def _learners(world: World, stage: Stage) -> Iterator[object]:
    """How far those are that should be in-sync and are not."""
    listed = {(view.group, member.host) for view in views(world) for member in view.members}
    for name in stage.hosts:
        for housed in _housed(world, name):
            if (housed.record.group, name) not in listed:
                yield housed.record.name, name, housed.member.committed, housed.member.tail


def _housed(world: World, name: str) -> list[Housed]:
    """The members on that host of groups that have a state."""
    host: Host | None = world.nodes[name].core
    housed = list(host.groups.housed.values()) if host is not None and host.groups is not None else []
    return [each for each in housed if each.record.style != "stateless"]
