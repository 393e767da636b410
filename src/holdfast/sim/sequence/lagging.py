"""A backup with a slow disk in a busy group (M4).

It answers in time, again and again, and holds up its peers: it is never silent, so only its lag tells. Done
when everything else has healed: nothing excuses the primary then, who must drop it while M1 allows. Later it
is let in again like any other.
"""

import random
from collections.abc import Iterator
from typing import Final

from holdfast.authority.views import View
from holdfast.model.ids import Epoch, GroupId, HostId
from holdfast.sim.authority.asking import AUTHORITY
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.sequence import turmoil
from holdfast.sim.sequence.damage import views
from holdfast.sim.sequence.host import CONFIG, Host
from holdfast.sim.world import World

LAGS: Final = "lags_under_load"
LAG_NS: Final = 3 * SECOND
STEP_NS: Final = 20 * MILLISECOND
SYNC_NS: Final = 250 * MILLISECOND
"""Syncs of the slow disk end so seldom: often enough for its host never to be silent."""
OPEN_NS: Final = 5 * MILLISECOND
"""For so long they do."""
POURED: Final = 20
"""Records per step and group: many more than the slow disk takes."""
PATIENCE_NS: Final = 1500 * MILLISECOND
"""For so long a backup may lag: until the primary looks, and for a change of the view or two."""


def _draw(rng: random.Random, field: Field) -> Parameters:
    return {"host": rng.choice([name for name in field.nodes if name != AUTHORITY])}


def _lags(world: World, event: FaultEvent) -> bool:
    """When all else has healed, slow one host's disk down while every group has much to do."""
    if turmoil.deaf_host(world.options) is not None or turmoil.stuck(world.options) is not None:
        return False  # the groups cannot do without a second one
    world.at(world.options.fault_ns + turmoil.DEAF_NS, _Load(world, event.parameters["host"]).begin)
    return True


class _Load:
    """The load, the slow disk of *host*, and the watch over who is listed although it lags."""

    def __init__(self, world: World, host: str) -> None:
        self._world = world
        self._disk = world.nodes[host].disk
        self._until_ns = 0
        self._lagging: dict[tuple[GroupId, Epoch, HostId], int] = {}
        """Since when, in which view."""

    def begin(self) -> None:
        self._until_ns = self._world.now + LAG_NS
        self._slow_down()
        self._step()

    def _slow_down(self) -> None:
        world = self._world
        if world.now < self._until_ns:
            self._disk.hung_until_ns = world.now + SYNC_NS
            world.after(SYNC_NS + OPEN_NS, self._slow_down)

    def _step(self) -> None:
        world = self._world
        if world.now >= self._until_ns:
            return
        for node in list(world.nodes.values()):
            if isinstance(node.core, Host):
                node.run(node.life, node.core.pour, POURED)
        for view in views(world):
            self._check(view)
        world.after(STEP_NS, self._step)

    def _check(self, view: View) -> None:
        lagging = dict(_lags_behind(self._world, view))
        for member in view.members:
            key = view.group, view.epoch, member.host
            if member.host not in lagging:
                self._lagging.pop(key, None)
            elif self._world.now - self._lagging.setdefault(key, self._world.now) > PATIENCE_NS:
                said = f"{member.host} is {lagging[member.host]} positions behind, and is listed"
                self._world.violation("M4", f"group {view.group}: {said}")


def _lags_behind(world: World, view: View) -> Iterator[tuple[HostId, int]]:
    """The backups that the primary should drop, and by how much they lag. What a backup has received it may
    not have acknowledged: its primary sees it further behind than this."""
    cores = {each.host: world.nodes[each.host].core for each in view.members}
    tails = {host: core.members[view.group].tail for host, core in cores.items() if _has(core, view.group)}
    if len(tails) < len(view.members) or len(tails) <= CONFIG.min_in_sync:
        return
    for host, tail in tails.items():
        behind = min(other for each, other in tails.items() if each != host) - tail
        if host != view.primary and behind > CONFIG.lag_limit:
            world.sometimes("a listed backup lags")
            yield host, behind


def _has(core: Host | None, group: GroupId) -> bool:
    return core is not None and group in core.members


LAGGING: Final = FaultKind(LAGS, _draw, _lags, needs_target=False)
