"""Detectors under load: healthy hosts are not taken for gone, and sick members are found and get well.

The groups of the scenario ``groups``, monitored at every granularity, some with ``min_in_sync`` 1, where one
host alone decides who is gone; heartbeats are exchanged beside the hosts' loops, as in production (R4).
Beside its rules: what :mod:`holdfast.sim.groups.detecting` witnesses; and in the end, when nothing is faulty
any more but perhaps one host, nobody else is suspected, every object that is asked is well, and none is
served where it is sick.
"""

from dataclasses import replace
from typing import ClassVar

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.housing.groups import Groups as Housing
from holdfast.model.properties import MONITORING_GRANULARITY, MONITORING_INTERVAL, MonitoringGranularity
from holdfast.sim.faults import FaultKind
from holdfast.sim.groups import detecting
from holdfast.sim.groups.stage import Stage
from holdfast.sim.options import MILLISECOND
from holdfast.sim.scenario import Bound
from holdfast.sim.scenarios.groups import Groups
from holdfast.sim.world import World

UNIT_NS = 100
INTERVALS_NS = (50 * MILLISECOND, 200 * MILLISECOND)
TIMEOUT_NS = 300 * MILLISECOND


class Detect(Groups):
    name = "detect"
    kinds = ()
    own_kinds: ClassVar[tuple[FaultKind, ...]] = detecting.FAULTS
    # Two at a time would hold up a process for longer than each of them may.
    bounds: ClassVar[tuple[Bound, ...]] = (Bound(kinds=(detecting.LOAD,), per_run=1),)

    def build(self, world: World) -> None:
        super().build(world)
        # Lost and belated messages are faults of their own, and no load.
        world.network.weather(msgspec.structs.replace(world.options.network, loss=0.0, late=0.0))
        self.truth.watchers.append(detecting.Witness(world).on_commit)

    def drawn(self, world: World) -> Stage:
        stage, rng = super().drawn(world), world.rng("monitoring")

        def monitored(record: GroupRecord) -> GroupRecord:
            interval_ns = rng.choice(INTERVALS_NS)
            times = {"monitoring_interval": interval_ns // UNIT_NS, "timeout": TIMEOUT_NS // UNIT_NS}
            granularity = rng.choice(list(MonitoringGranularity)).value
            asked = {MONITORING_INTERVAL: times, MONITORING_GRANULARITY: granularity}
            properties = msgspec.json.encode(asked, order="deterministic").decode()
            return msgspec.structs.replace(record, properties=properties, min_in_sync=rng.choice((1, 2)))

        # Hosts that hand over for no reason, and calls that end them, would hide what detectors do.
        groups = tuple(monitored(record) for record in stage.groups)
        return replace(stage, groups=groups, hand_overs=0.0, deadly=0, has_hearts=True)

    def healed(self, world: World) -> None:
        super().healed(world)
        self.book.health.heal()

    def finish(self, world: World) -> None:
        super().finish(world)
        sick = detecting.sick_host(world.options)
        for name in self.stage.hosts:
            host = world.nodes[name].core
            if host is None or host.groups is None:
                continue
            if name == sick:
                self._check_served_elsewhere(world, host.groups)
            else:
                self._check_well(world, name, host.groups)

    def _check_well(self, world: World, name: str, groups: Housing) -> None:
        """Nobody is suspected for ever who is not faulty for ever."""
        monitoring = groups.checkups.monitoring
        if monitoring.suspected:
            said = f"{name} suspects {monitoring.suspected}, and nothing is faulty there"
            world.violation("never for ever", said)
        for group in monitoring.asked:
            why = groups.housed[group].style.why_not_alive()
            if why:
                world.violation("FTC-248", f"group {group} on {name} was never made anew: {why}")

    def _check_served_elsewhere(self, world: World, groups: Housing) -> None:
        """Where the host is sick for good, no object is primary that says so."""
        world.sometimes("a host was sick for good")
        for group in groups.checkups.monitoring.asked:
            housed = groups.housed[group]
            if housed.is_ready and housed.style.why_not_alive():
                world.violation("FTC-247", f"group {group} is served by {groups.me.host}, which is sick")


SCENARIO = Detect
