"""Fault detectors under load: healthy hosts are not taken for gone, and sick members are found and recover.

The groups are those of the scenario ``groups``, monitored at every granularity, some with ``min_in_sync`` 1,
where one host alone decides who is gone. Heartbeats do not depend on the hosts' event loops, as in production
(R4).

Faults: *load* delays every process again and again, each time for less than the stated bound. A host
*sleeps*, far longer than anyone waits. A host's event loop *stands* that long, while its heart beats. Objects
and hosts are *sick*, and say so, one host perhaps for good.

The rules of ``groups`` apply, and these (:class:`Witness`). No host loses a group, or is dropped, for load
alone, nor because another host slept or stood. No host loses a group because its own loop stood (R4); as a
backup it is dropped, since calls wait for it. No member that was never sick is made to hand over. Under load
alone every group keeps its primary. In the end, when at most one host is still faulty, no other host is
suspected, every object that is asked is well, and no object is served where it is sick.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Events
from holdfast.authority.groups import GroupRecord
from holdfast.authority.views import View, Why
from holdfast.groups.host_groups import HostGroups
from holdfast.model.ids import GroupId, HostId
from holdfast.model.properties import MONITORING_GRANULARITY, MONITORING_INTERVAL, MonitoringGranularity
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent, Options
from holdfast.sim.engine.world import World
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration
from holdfast.sim.runner.scenario import Bound
from holdfast.sim.scenarios.authority.server import AUTHORITY
from holdfast.sim.scenarios.groups.copies import KILLED_WHY
from holdfast.sim.scenarios.groups.failing_objects import FOR_EVER_NS
from holdfast.sim.scenarios.groups.objects import UNREADABLE
from holdfast.sim.scenarios.groups.scenario import Groups
from holdfast.sim.scenarios.groups.setup import HOST_COUNTS, HOSTS, Stage
from holdfast.sim.scenarios.sequence.lease_settings import LEASES

LOAD_NS: Final = LEASES.lease_ns // 4
"""The stated bound: load that delays no process longer than this at a time costs no host a group."""
EVERY_NS: Final = LEASES.lease_ns
"""The time between two delays of one process by load."""
SLICES: Final = 16
"""The number of delays, which lasts nearly to the end of the faults."""
SICK_FOR_GOOD: Final = 0.1
ALWAYS_THERE: Final = HOSTS[: min(HOST_COUNTS)]
"""Hosts that every run has."""
SLEEP_LEAST_NS: Final = LEASES.lease_ns // 2
"""A host that slept for less cannot have been missed."""
AFTERMATH_NS: Final = 2 * SECOND
"""How long after a host has woken a conclusion from its silence may still be written: the authority may be
late, and others let each other go first."""
LOAD, SLEEPS, STANDS, SPOILT, SICK = "load", "host_sleeps", "loop_stands", "object_spoilt", "host_sick"
_LOOKED_FOR: Final = "is_alive"


def _draw_load(rng: random.Random, field: Field) -> Parameters:
    """Draw, for each host, how long it is delayed, and when within each interval."""
    hosts = [name for name in field.nodes if name != AUTHORITY]
    slices = [
        [number * EVERY_NS + rng.randrange(EVERY_NS - 2 * LOAD_NS), host, duration(rng, MILLISECOND, LOAD_NS)]
        for host in hosts
        for number in range(SLICES)
    ]
    return {"slices": slices}


def _load(world: World, event: FaultEvent) -> bool:
    for at_ns, host, for_ns in event.parameters["slices"]:
        world.after(at_ns, _hold_up, world, host, for_ns)
    return True


def _hold_up(world: World, host: str, for_ns: int, *, is_reading_last: bool = False) -> bool:
    """Pause a process, unless it is already paused: two delays in a row would exceed the bound."""
    node = world.nodes.get(host)
    if node is None or world.is_healed or not node.pause():
        return False
    world.after(for_ns, partial(node.resume, is_reading_last=is_reading_last))
    return True


def _draw_sleep(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, SLEEP_LEAST_NS, 2 * SECOND), "is_reading_last": rng.random() < 0.5}


def _sleep(world: World, event: FaultEvent) -> bool:
    """Let a host sleep.

    When it wakes, the others' messages are waiting; it may read them before or after it runs its timers.
    """
    return event.target != AUTHORITY and _hold_up(world, event.target, **event.parameters)


def _stand(world: World, event: FaultEvent) -> bool:
    """Block a host's loop as a long method would.

    The time is below the hang limit, at which the host would end itself.
    """
    node = world.nodes[event.target]
    if event.target == AUTHORITY or world.is_healed or not node.hang():
        return False
    world.after(
        event.parameters["for_ns"], partial(node.go_on, is_reading_last=event.parameters["is_reading_last"])
    )
    return True


def _draw_spoilt(rng: random.Random, _: Field) -> Parameters:
    return {"group": rng.randrange(4)}


def _spoil(world: World, event: FaultEvent) -> bool:
    """Make one object on the host report that it is inconsistent."""
    host = _host(world, event)
    objects = list(_objects(host.groups)) if host is not None else []
    if host is None or not objects:
        return False
    host.book.health.spoil(objects[event.parameters["group"] % len(objects)])
    return True


def _draw_sick(rng: random.Random, _: Field) -> Parameters:
    return {
        "for_ns": duration(rng, 300 * MILLISECOND, 3 * SECOND),
        "is_for_good": rng.random() < SICK_FOR_GOOD,
    }


def sick_host(options: Options) -> str | None:
    """Return the host that is sick in the end, if any; never all hosts."""
    for event in options.faults:
        if event.kind == SICK and event.parameters["is_for_good"] and event.target in ALWAYS_THERE:
            return event.target
    return None


def _sicken(world: World, event: FaultEvent) -> bool:
    host = _host(world, event)
    if host is not None:
        is_for_good = event.target == sick_host(world.options)
        host.book.health.sicken(event.target, FOR_EVER_NS if is_for_good else event.parameters["for_ns"])
    return host is not None


def _host(world: World, event: FaultEvent) -> Any:
    """Return the process of the host that is hit, if it hosts its groups already."""
    core = world.nodes[event.target].core if event.target in world.nodes else None
    return core if getattr(core, "groups", None) is not None else None


def _objects(groups: HostGroups) -> Iterator[object]:
    for hosted in groups.hosted.values():
        execution = hosted.replica.execution if hosted.record.style != "stateless" else None
        if execution is not None:
            yield execution.line.instance


FAULTS: Final = (
    FaultKind(LOAD, _draw_load, _load, needs_target=False),
    FaultKind(SLEEPS, _draw_sleep, _sleep),
    FaultKind(STANDS, _draw_sleep, _stand),
    FaultKind(SPOILT, _draw_spoilt, _spoil),
    FaultKind(SICK, _draw_sick, _sicken),
)


class Witness:
    """Reads every view that is written, and checks whether the host named in its cause gave cause for it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._primaries: dict[GroupId, HostId] = {}
        self._is_load_alone = all(event.kind == LOAD for event in world.options.faults)
        if self._is_load_alone:
            world.sometimes("load alone")

    def on_commit(self, events: Events) -> bool:
        for change in events.changes:
            if change.item is not None and change.key.startswith(keys.VIEWS):
                self._judge(msgspec.json.decode(change.item.value, type=View))
        return True

    def _judge(self, view: View) -> None:
        before = self._primaries.get(view.group, view.primary)
        self._primaries[view.group] = view.primary
        if self._is_load_alone and view.primary != before and not _has_full_log(view):
            said = f"group {view.group} went from {before} to {view.primary} ({view.cause.why.value})"
            self._world.violation("no failover by load", said)
        why, host = view.cause.why, view.cause.host
        if why in (Why.SILENT, Why.DROPPED):
            self._world.sometimes(f"a host was taken for gone: {why.value}")
            causes = (SLEEPS, STANDS) if why is Why.DROPPED else (SLEEPS,)
            if not any(self._gave_cause(host, kind) for kind in causes):
                said = f"{view.primary} took {host} for gone ({why.value}), which was there all the time"
                self._world.violation("no failover by load", said)
        elif why is Why.RELEASED and _LOOKED_FOR in view.cause.text:
            self._world.sometimes("a member that was not alive handed over")
            if not self._gave_cause(host, SPOILT) and not self._gave_cause(host, SICK):
                self._world.violation("FTC-247", f"{host} handed over, and nothing there was sick")

    def _gave_cause(self, host: str, kind: str) -> bool:
        """Whether the schedule had such a fault for *host* recently."""
        now = self._world.now
        return any(
            event.kind == kind and event.target == host and event.at_ns <= now <= self._end_ns(event)
            for event in self._world.options.faults
        )

    def _end_ns(self, event: FaultEvent) -> int:
        """Return until when the fault may be a cause. A spoilt object says so until it is made anew, and may
        be asked only then when one of another group no longer answers for it (FTC-148)."""
        is_for_good = event.kind == SICK and event.target == sick_host(self._world.options)
        if event.kind == SPOILT or is_for_good:
            return FOR_EVER_NS
        return event.at_ns + int(event.parameters["for_ns"]) + AFTERMATH_NS


def _has_full_log(view: View) -> bool:
    """Whether the primary handed over because no checkpoint frees its log, which is no matter of load: the
    objects and the copies of ``groups`` are made to fail in that way."""
    cause = view.cause
    return cause.why is Why.RELEASED and any(why in cause.text for why in (KILLED_WHY, UNREADABLE))


UNIT_NS = 100
INTERVALS_NS = (50 * MILLISECOND, 200 * MILLISECOND)
TIMEOUT_NS = 300 * MILLISECOND


class Detect(Groups):
    name = "detect"
    kinds = ()
    own_kinds: ClassVar[tuple[FaultKind, ...]] = FAULTS
    # Two loads at a time would delay a process for longer than either may.
    bounds: ClassVar[tuple[Bound, ...]] = (Bound(kinds=(LOAD,), per_run=1),)

    def build(self, world: World) -> None:
        super().build(world)
        # Lost and late messages are separate faults, not load.
        world.network.weather(msgspec.structs.replace(world.options.network, loss=0.0, late=0.0))
        self.truth.watchers.append(Witness(world).on_commit)

    def drawn(self, world: World) -> Stage:
        stage, rng = super().drawn(world), world.rng("monitoring")

        def monitored(record: GroupRecord) -> GroupRecord:
            interval_ns = rng.choice(INTERVALS_NS)
            times = {"monitoring_interval": interval_ns // UNIT_NS, "timeout": TIMEOUT_NS // UNIT_NS}
            granularity = rng.choice(list(MonitoringGranularity)).value
            asked = {MONITORING_INTERVAL: times, MONITORING_GRANULARITY: granularity}
            properties = msgspec.json.encode(asked, order="deterministic").decode()
            return msgspec.structs.replace(record, properties=properties, min_in_sync=rng.choice((1, 2)))

        # Hosts that hand over for no reason, and calls that end them, would hide what the detectors do.
        groups = tuple(monitored(record) for record in stage.groups)
        return replace(stage, groups=groups, hand_overs=0.0, deadly=0, has_hearts=True)

    def healed(self, world: World) -> None:
        super().healed(world)
        self.book.health.heal()

    def finish(self, world: World) -> None:
        super().finish(world)
        sick = sick_host(world.options)
        for name in self.stage.hosts:
            host = world.nodes[name].core
            if host is None or host.groups is None:
                continue
            if name == sick:
                self._check_served_elsewhere(world, host.groups)
            else:
                self._check_well(world, name, host.groups)

    def _check_well(self, world: World, name: str, groups: HostGroups) -> None:
        """Require that no host is suspected in the end that is not faulty in the end."""
        monitoring = groups.liveness_checks.monitoring
        if monitoring.suspected:
            said = f"{name} suspects {monitoring.suspected}, and nothing is faulty there"
            world.violation("never for ever", said)
        for group in monitoring.asked:
            why = groups.hosted[group].style.why_not_alive()
            if why:
                world.violation("FTC-248", f"group {group} on {name} was never made anew: {why}")

    def _check_served_elsewhere(self, world: World, groups: HostGroups) -> None:
        """Require that on the host that is sick for good no object is primary that reports being sick."""
        world.sometimes("a host was sick for good")
        for group in groups.liveness_checks.monitoring.asked:
            hosted = groups.hosted[group]
            if hosted.is_ready and hosted.style.why_not_alive():
                world.violation("FTC-247", f"group {group} is served by {groups.me.host}, which is sick")


SCENARIO = Detect
