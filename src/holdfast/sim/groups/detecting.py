"""What detectors meet, and whether what follows from it is right.

Faults: *load*, which holds every process up again and again, each time for less than the stated bound; a host
that *sleeps*, far longer than anybody waits; one whose loop *stands* that long, while its heart beats;
objects and hosts that are *sick*, and say so, one host perhaps for good.

Rules: no host loses a group, or is dropped, for load alone, nor because another slept or stood. None loses a
group because its own loop stood (R4); as a backup it is dropped, since calls wait for it. No member is made
to hand over that never was sick. Under load alone every group keeps its primary.
"""

import random
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Events
from holdfast.authority.views import View, Why
from holdfast.housing.groups import Groups
from holdfast.model.ids import GroupId, HostId
from holdfast.sim.authority.asking import AUTHORITY
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration
from holdfast.sim.groups.health import FOR_EVER_NS
from holdfast.sim.groups.stage import HOST_COUNTS, HOSTS
from holdfast.sim.options import MILLISECOND, SECOND, FaultEvent, Options
from holdfast.sim.sequence.host import LEASES
from holdfast.sim.world import World

LOAD_NS: Final = LEASES.lease_ns // 4
"""The stated bound: load that holds up no process for longer than this at a time costs no host a group."""
EVERY_NS: Final = LEASES.lease_ns
"""Between two times that load holds up a process."""
SLICES: Final = 16
"""Nearly to the end of the faults."""
SICK_FOR_GOOD: Final = 0.1
ALWAYS_THERE: Final = HOSTS[: min(HOST_COUNTS)]
"""Hosts that every run has."""
SLEEP_LEAST_NS: Final = LEASES.lease_ns // 2
"""Who slept for less cannot have been missed."""
AFTERMATH_NS: Final = 2 * SECOND
"""So long after it has woken may what was concluded from its silence still be written: the authority may be
late, and others let each other go first."""
LOAD, SLEEPS, STANDS, SPOILT, SICK = "load", "host_sleeps", "loop_stands", "object_spoilt", "host_sick"
_LOOKED_FOR: Final = "is_alive"


def _draw_load(rng: random.Random, field: Field) -> Parameters:
    """Of each host: how long it is held up, and how far into each stretch of time."""
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
    """Unless it is held up already: two in a row would be more than the bound."""
    node = world.nodes.get(host)
    if node is None or world.is_healed or not node.pause():
        return False
    world.after(for_ns, partial(node.resume, is_reading_last=is_reading_last))
    return True


def _draw_sleep(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, SLEEP_LEAST_NS, 2 * SECOND), "is_reading_last": rng.random() < 0.5}


def _sleep(world: World, event: FaultEvent) -> bool:
    """What the others said meanwhile is there when it wakes, and may be read before it looks round or not."""
    return event.target != AUTHORITY and _hold_up(world, event.target, **event.parameters)


def _stand(world: World, event: FaultEvent) -> bool:
    """Its loop is kept by a long method: below the hang limit, at which it would end itself."""
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
    """An object finds itself inconsistent: one of those that live there."""
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
    """The host that is sick in the end, if one is: never all of them."""
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
    """The process of the host that is hit, if it has taken up its groups."""
    core = world.nodes[event.target].core if event.target in world.nodes else None
    return core if getattr(core, "groups", None) is not None else None


def _objects(groups: Groups) -> Iterator[object]:
    for housed in groups.housed.values():
        execution = housed.replica.execution if housed.record.style != "stateless" else None
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
    """Reads every view that is written, and asks whether the host that it speaks of gave cause for it."""

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
        if self._is_load_alone and view.primary != before:
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
        """Whether the schedule has that in store for *host* not long ago."""
        now = self._world.now
        return any(
            event.kind == kind
            and event.target == host
            and event.at_ns <= now <= event.at_ns + event.parameters.get("for_ns", SECOND) + AFTERMATH_NS
            for event in self._world.options.faults
        )
