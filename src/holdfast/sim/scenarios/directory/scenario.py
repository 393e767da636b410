"""Three to five masters of one directory take random writes while links, disks, clocks, processes and whole
stores fail.

Rules: what a client was told is on the disk with its vector (G1). The outcome is a function of the set of
updates (G2): after healing all masters show what that set comes to, and when they purge to one vector their
states are equal to the byte. No CSN is used twice, whatever happens to a store (G3). A peer of other data
moves nobody's time (G4). The changelog never forgets what a known replica needs without marking it (G5).
Nothing is issued that no client asked for (G6). Purging goes no further than what everyone knew who issued
what is still missing (G7).
"""

import random
from functools import partial
from typing import ClassVar

from holdfast.clock.vector import Vector
from holdfast.directory.memory_store import StoreImage
from holdfast.directory.replication.messages import Hello, Reason
from holdfast.directory.schema.standard import standard_schema
from holdfast.model.csn import Csn
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import ReplicaId
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import (
    CLOCK_KINDS,
    DISK_KINDS,
    NETWORK_KINDS,
    POWER_KINDS,
    PROCESS_KINDS,
    FaultKind,
    Field,
    Parameters,
)
from holdfast.sim.faults.kind import draw_restart, duration, later, restart_later
from holdfast.sim.runner.scenario import Bound, Scenario
from holdfast.sim.scenarios.directory.hosts import Host
from holdfast.sim.scenarios.directory.recorder import Recorder
from holdfast.sim.scenarios.directory.site import ALL_MAPS, GENERATION, NAMES, SUFFIX, Site

STRANGER = "stranger"
STORES = ("store_wiped", "store_put_back", "store_copied")


class DirectoryScenario(Scenario):
    name = "directory"
    nodes = NAMES
    kinds = (*PROCESS_KINDS, *POWER_KINDS, *NETWORK_KINDS, *CLOCK_KINDS, *DISK_KINDS)
    fault_ns: ClassVar[int] = 4 * SECOND
    heal_ns: ClassVar[int] = 7 * SECOND
    """Two stores may have to be filled, one from the other, which takes three seconds each (seed 1044)."""
    bounds = (
        Bound(kinds=STORES, per_run=3, nodes=2),
        Bound(kinds=("retired_by_force",), per_run=1),
    )
    site: Site
    recorder: Recorder

    def build(self, world: World) -> None:
        self.site = Site(world, standard_schema())
        self.recorder = Recorder(self.site)
        world.scenario = self  # type: ignore[attr-defined]  # for this scenario's own faults
        for name in self.site.names:
            world.add_node(name, partial(Host, site=self.site, recorder=self.recorder))

    def healed(self, world: World) -> None:
        """Clients stop, and people look at clocks that were refused: the limit is lifted."""
        self.site.is_quiet = True
        for node in world.nodes.values():
            if isinstance(node.core, Host) and node.core.generator is not None:
                node.core.generator.set_max_skew(10**8)

    def finish(self, world: World) -> None:
        for name in self.site.names:
            if not self.site.is_whole(name):
                stops = world.nodes[name].stops[-2:]
                world.violation("progress", f"{name} is not whole: {self.site.own(name)}; {stops}")
                return
        self.recorder.check_all()
        if self.recorder.acknowledged_twice:
            world.sometimes("a second store confirmed")
        if any(self.site.vector(name).retired for name in self.site.names):  # type: ignore[union-attr]
            world.sometimes("an id was retired")


# --- this scenario's own faults


def _of(world: World) -> DirectoryScenario:
    scenario: DirectoryScenario = world.scenario  # type: ignore[attr-defined]  # set by build
    return scenario


def _replace(world: World, name: str, image: StoreImage | None) -> None:
    """Give a host's store other content; the process has ended."""
    scenario = _of(world)
    scenario.recorder.loses(name, image)
    scenario.site.images[name] = StoreImage(ALL_MAPS) if image is None else image


def _wipe(world: World, event: FaultEvent) -> bool:
    scenario = _of(world)
    if not scenario.site.others_are_whole(event.target):
        return False
    node = world.nodes[event.target]
    node.kill()
    node.disk.wipe()
    _replace(world, event.target, None)
    return restart_later(node, event)


def _draw_put_back(rng: random.Random, field: Field) -> Parameters:
    return {"after_ns": duration(rng, 100 * MILLISECOND, 2 * SECOND), **draw_restart(rng, field)}


def _put_back(world: World, event: FaultEvent) -> bool:
    """Copy a host's disk now; later put the copy back."""
    scenario = _of(world)
    node = world.nodes[event.target]
    files, image = node.disk.copy(), scenario.site.images[event.target].copy()

    def put_back() -> None:
        if scenario.site.others_are_whole(event.target):
            node.kill()
            node.disk.replace(files)
            _replace(world, event.target, image)
            world.faults[event.kind] += 1
            restart_later(node, event)

    later(world, event.parameters["after_ns"], put_back)
    return False  # counted when the copy is put back


def _draw_copied(rng: random.Random, field: Field) -> Parameters:
    return {"source": rng.choice(field.nodes), **draw_restart(rng, field)}


def _copied(world: World, event: FaultEvent) -> bool:
    """Give a host a copy of another's disk."""
    scenario, source = _of(world), event.parameters["source"]
    if source not in world.nodes or source == event.target:
        return False
    if not scenario.site.others_are_whole(event.target):
        return False
    node = world.nodes[event.target]
    node.kill()
    node.disk.replace(world.nodes[source].disk.copy())
    _replace(world, event.target, scenario.site.images[source].copy())
    return restart_later(node, event)


def _draw_nothing(rng: random.Random, field: Field) -> Parameters:
    return {}


def _store_fails(world: World, event: FaultEvent) -> bool:
    host = world.nodes[event.target].core
    if not isinstance(host, Host):
        return False
    host.store.fails = True
    return True


def _draw_other(rng: random.Random, field: Field) -> Parameters:
    return {"other": rng.choice(field.nodes)}


def _retire(world: World, event: FaultEvent) -> bool:
    """An operator gives a replica up that may well live."""
    scenario, other = _of(world), event.parameters["other"]
    host = world.nodes[event.target].core
    if not isinstance(host, Host) or host.replicator is None or other not in world.nodes:
        return False
    site, own = scenario.site, scenario.site.own(other)
    if own is None or not site.is_whole(event.target) or not site.others_are_whole(other):
        return False
    node = world.nodes[event.target]
    if event.target == site.read_only or not site.is_whole(event.target):
        return False
    try:
        host.replicator.retire(own.replica, force=True)
    except HoldfastError:
        return False
    site.called_over[own.replica] = None
    return node.alive


def _draw_ahead(rng: random.Random, field: Field) -> Parameters:
    return {"ahead_s": rng.choice((10, 1_000, 3_500, 4_000, 100_000)), "is_foreign": rng.random() < 0.6}


def _stranger(world: World, event: FaultEvent) -> bool:
    """Somebody greets whose clock is ahead: of other data, or of ours, beyond the limit."""
    scenario = _of(world)
    node = world.nodes[event.target]
    host = node.core
    if not isinstance(host, Host) or host.replicator is None or host.generator is None or node.paused:
        return False
    is_foreign, ahead_s = event.parameters["is_foreign"], event.parameters["ahead_s"]
    if not is_foreign and ahead_s <= 3600:
        return False
    generation = "other" if is_foreign else GENERATION
    time_s = host.generator.status().state.position[0]
    newest = Csn(time_s + ahead_s, 0, ReplicaId(999))
    hello = Hello(
        suffix=SUFFIX,
        generation=generation,
        replica=ReplicaId(999),
        vector=Vector.of(generation, [newest]).text(),
        is_ready=True,
        window_updates=1,
        window_bytes=1,
    )

    def greet(replicator: object) -> None:
        assert host.replicator is not None
        assert host.generator is not None
        before = host.generator.status().state.network_ns
        host.replicator.on_up(STRANGER)
        link = host.replicator.links[STRANGER]
        host.replicator.on_message(STRANGER, hello)
        if host.generator.status().state.network_ns != before:
            world.violation("G4", f"{event.target}: a stranger moved the time")
        wanted = Reason.GENERATION if is_foreign else Reason.SKEW
        if link.problem is None or link.problem.reason is not wanted:
            world.violation("G4", f"{event.target}: {link.problem} instead of {wanted}")
        host.replicator.on_down(STRANGER)
        host.replicator.problems.pop(STRANGER, None)

    node.run(node.life, greet, host.replicator)
    assert scenario
    return True


DirectoryScenario.own_kinds = (
    FaultKind("store_wiped", draw_restart, _wipe),
    FaultKind("store_put_back", _draw_put_back, _put_back),
    FaultKind("store_copied", _draw_copied, _copied),
    FaultKind("store_fails", _draw_nothing, _store_fails),
    FaultKind("retired_by_force", _draw_other, _retire),
    FaultKind("strange_greeting", _draw_ahead, _stranger),
)
SCENARIO = DirectoryScenario
