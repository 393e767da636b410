"""The replication manager, running on every host at once, on groups that are called all the time.

The groups are those of the scenario ``groups``, on four or five hosts. Hosts crash, are away so long that
they count as lost, lose contact with each other, and are drained, while an operator adds and removes members.
The rules of ``groups`` apply, and two more: no manager removes a member that is needed (:class:`Witness`); in
the end every group has the wanted number of members, and none on a host that is to be drained. In some runs
the hosts of a group are named (W2, W3), or a host is not for groups: the group is on exactly those hosts in
the end, and none is on that host. A group in memory that has lost its state keeps the members it has until a
person recovers it (V4), because no other can be brought into sync in their place.

The manager consists of the production snapshot of the domain, plan and steps. In production only the
coordinator's host runs it, and a former coordinator may run it a moment longer. Here *every* host runs it all
the time, each on its own view of the domain and each with a delay, so plans meet changes that others have
made since. The wanted state is the same on all hosts, and known to them at once: how the domain's state
reaches its hosts is covered by the scenario ``control``.
"""

import random
from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, Final

import msgspec

from holdfast.admin.snapshot import DomainSnapshot, wish_of
from holdfast.authority import keys
from holdfast.authority.contract import Events
from holdfast.authority.groups import DISK, GroupRecord, Placement, stay_of
from holdfast.authority.views import View
from holdfast.control.desired.state import DomainState
from holdfast.control.replication.planner import Action, Lead, plan
from holdfast.control.replication.spec import GroupFact, GroupSpec
from holdfast.control.replication.steps import take_steps
from holdfast.groups.host_groups import HostGroups
from holdfast.model.host_roles import SEARCH
from holdfast.model.ids import GroupId, HostId, Nonce
from holdfast.model.properties import MINIMUM_NUMBER, PLACES
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import NETWORK_KINDS, PROCESS_KINDS, FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration, later
from holdfast.sim.runner.scenario import Bound
from holdfast.sim.scenarios.groups.host import Host
from holdfast.sim.scenarios.groups.observer import Book
from holdfast.sim.scenarios.groups.placement_faults import MOVING, records
from holdfast.sim.scenarios.groups.scenario import Groups
from holdfast.sim.scenarios.groups.setup import Stage
from holdfast.sim.scenarios.sequence import aimed_faults

LOSS_NS: Final = 700 * MILLISECOND
"""A host that is gone this long counts as lost. The time is so short that many hosts that are away do."""
LOOK_NS: Final = 100 * MILLISECOND
LATE_NS: Final = 150 * MILLISECOND
"""The longest delay before a plan is carried out, as with the last of ten thousand groups."""
DRAINED: Final = "host_drained"
FOR_GOOD: Final = 0.2
_NONCES: Final = "manage/"


class ManagedHost(Host):
    """A host that runs the replication manager."""

    _manager: "Manager"

    def _begin(self) -> None:
        super()._begin()
        assert self.groups is not None
        self._manager = Manager(self.groups, self.book, self._stage, self._ports)


class Manager:
    """The replication manager of one host, for the life of its process."""

    def __init__(self, groups: HostGroups, book: Book, stage: Stage, ports: NodePorts) -> None:
        self._groups = groups
        self._book = book
        self._ports = ports
        self._rng = ports.random.stream("manager")
        self._timers = ports.timers(self._on_timer)
        self._census = DomainSnapshot(
            groups.catalog, stage.hosts, ports.clock, loss_ns=LOSS_NS, removed=tuple
        )
        self._nonces = 0
        self._plan: list[tuple[GroupFact, list[Action]]] = []
        self._under_way: dict[GroupId, None] = {}
        self._timers.set(LOOK_NS, "look")

    def _on_timer(self, tag: Hashable) -> None:
        if tag == "look":
            self._look()
            self._timers.set(self._rng.randrange(1, LATE_NS), "act")
        else:
            self._act()
            self._timers.set(LOOK_NS, "look")

    def _look(self) -> None:
        facts = self._census.facts()
        state = DomainState(draining=tuple(sorted(self._book.draining)))
        planned = plan(self._census.wishes(facts, state), facts)
        groups = {each.record.group: each for each in facts.groups}
        self._plan = [
            (groups[group], list(actions)) for group, actions in groupby(planned.actions, lambda a: a.group)
        ]

    def _act(self) -> None:
        for group, actions in self._plan:
            number = group.record.group
            if self._book.is_ending or number in self._under_way:
                continue
            self._under_way[number] = None
            steps = [each for each in actions if not isinstance(each, Lead)]
            recipe = take_steps(group, steps, self._nonce, lambda record, host: "{}")
            self._groups.recipes.start(recipe, partial(self._done, number))
            for action in actions:
                if isinstance(action, Lead):
                    self._book.world.sometimes("a manager asked for a hand-over")
                    self._groups.ask_hand_over(number, action.host, as_of=group.view.epoch)

    def _done(self, group: GroupId, taken: tuple[Action, ...]) -> None:
        del self._under_way[group]
        for action in taken:
            self._book.world.sometimes(f"a manager's step: {type(action).__name__.lower()}")

    def _nonce(self) -> Nonce:
        self._nonces += 1
        return Nonce(f"{_NONCES}{self._ports.name}/{self._ports.incarnation}/{self._nonces}")


class Witness:
    """Reads every record that is written, and requires that no manager removes a needed member (FTC-135)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leaving: dict[GroupId, list[Placement]] = {}
        self._listed: dict[tuple[GroupId, HostId, int], None] = {}
        """The members that were in sync at some time, each with the number of its stay."""

    def on_commit(self, events: Events) -> bool:
        for change in events.changes:
            if change.item is not None and change.key.startswith(keys.GROUPS):
                self._judge(msgspec.json.decode(change.item.value, type=GroupRecord))
            elif change.item is not None and change.key.startswith(keys.VIEWS):
                view = msgspec.json.decode(change.item.value, type=View)
                for each in view.members:
                    self._listed[view.group, each.host, stay_of(each.store)] = None
        return True

    def _judge(self, record: GroupRecord) -> None:
        before = self._leaving.get(record.group, [])
        self._leaving[record.group] = leaving = [each for each in record.members if each.is_leaving]
        let_go = [each.host for each in leaving if each not in before and each.nonce.startswith(_NONCES)]
        spec = wish_of(record, DomainState())
        wanted = len(spec.hosts) or spec.minimum
        if let_go and spec.hosts:
            self._judge_named(record, spec, let_go[0])
        if let_go and len(record.placed_on) < wanted:
            said = f"{let_go[0]} was let go: {record.placed_on} are left, of {wanted} that are wished for"
            self._world.violation("FTC-135", f"{record.name}: {said}")

    def _judge_named(self, record: GroupRecord, spec: GroupSpec, let_go: HostId) -> None:
        """Require that all named hosts have members that were in sync when another is removed (W2)."""
        for host in spec.hosts:
            entry = record.placement(host)
            is_there = entry is not None and not entry.is_leaving
            if entry is None or not is_there or (record.group, host, entry.number) not in self._listed:
                said = f"{let_go} was let go, and {host}, which is named, was never in sync"
                self._world.violation("W2", f"{record.name}: {said}")
                return
        self._world.sometimes("a member went, and all named ones were in sync")


def _draw(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, 300 * MILLISECOND, 3 * SECOND), "is_for_good": rng.random() < FOR_GOOD}


def host_to_stay_empty(world: World) -> str | None:
    """Return the host that is to be drained for good, if any.

    It is always one that every run has, and there is at most one.
    """
    meant = (event for event in world.options.faults if event.kind == DRAINED)
    return next((each.target for each in meant if each.parameters["is_for_good"]), None)


def _drain(world: World, event: FaultEvent) -> bool:
    host: Any = world.nodes[event.target].core
    if not isinstance(host, Host):
        return False
    host.book.draining[HostId(event.target)] = None
    if event.target != host_to_stay_empty(world):
        later(world, event.parameters["for_ns"], host.book.draining.pop, HostId(event.target), None)
    return True


DRAINING: Final = FaultKind(DRAINED, _draw, _drain)


MINIMUM: Final = 3
HOST_COUNTS: Final = (MINIMUM + 1, MINIMUM + 2)
"""The numbers of hosts: more than the minimum, so that one can be drained."""
NAMED: Final = 0.25
"""How often the hosts of a group are named (W2)."""
NAMED_NEVER_LEAD: Final = 0.5
"""How often one of them is to have a member that never leads (W3)."""
FOR_SEARCH: Final = 0.2
"""How often a host that can be spared is not for groups."""


def with_named_hosts(stage: Stage, world: World) -> Stage:
    """The same domain, at times with a group whose hosts are named: seldom those that it is on."""
    rng = world.rng("named hosts")
    if rng.random() >= NAMED:
        return stage
    empty = host_to_stay_empty(world)
    hosts = rng.sample([each for each in stage.hosts if each != empty and each not in stage.roles], MINIMUM)
    places = {"hosts": hosts, "never_lead": hosts[:1] if rng.random() < NAMED_NEVER_LEAD else []}
    index = rng.randrange(len(stage.groups))
    groups = list(stage.groups)
    if groups[index].durability != DISK:
        places["never_lead"] = []
    properties = {MINIMUM_NUMBER: MINIMUM, PLACES: places}
    groups[index] = msgspec.structs.replace(
        groups[index], properties=msgspec.json.encode(properties).decode()
    )
    return replace(stage, groups=tuple(groups))


def with_roles(stage: Stage, world: World) -> Stage:
    """The same domain, at times with a host that is not for groups, though some may be on it at first."""
    rng = world.rng("roles")
    spare = [each for each in stage.hosts if each != host_to_stay_empty(world)]
    if rng.random() >= FOR_SEARCH or len(spare) <= MINIMUM:
        return stage
    return replace(stage, roles={rng.choice(spare): (SEARCH,)})


class Manage(Groups):
    name = "manage"
    host: ClassVar[type[Host]] = ManagedHost
    kinds = (*PROCESS_KINDS, *NETWORK_KINDS)
    own_kinds: ClassVar[tuple[FaultKind, ...]] = (
        *(kind for kind in aimed_faults.FAULTS if kind.name != aimed_faults.DEAF),
        MOVING,
        DRAINING,
    )
    bounds: ClassVar[tuple[Bound, ...]] = ()
    heal_ns: ClassVar[int] = 10 * SECOND

    def build(self, world: World) -> None:
        super().build(world)
        self.truth.watchers.append(Witness(world).on_commit)

    def drawn(self, world: World) -> Stage:
        stage = Stage.drawn(world.rng("stage"), HOST_COUNTS)
        properties = msgspec.json.encode({MINIMUM_NUMBER: MINIMUM}).decode()

        def kept(record: GroupRecord) -> GroupRecord:
            return msgspec.structs.replace(record, properties=properties)

        stage = replace(stage, groups=tuple(map(kept, stage.groups)))
        return with_named_hosts(with_roles(stage, world), world)

    def healed(self, world: World) -> None:
        super().healed(world)
        stays_empty = host_to_stay_empty(world)
        for host in list(self.book.draining):
            if host != stays_empty:
                del self.book.draining[host]

    def finish(self, world: World) -> None:
        super().finish(world)
        for record in records(world):
            if self._awaits_recovery(world, record):
                world.sometimes("a group in memory had lost its state in the end")
                continue
            self._check_places(world, record)
            left = [host for host in record.placed_on if host in self.book.draining]
            if left:
                world.violation("progress", f"{record.name} is still on {left[0]}, which shall be empty")
            elif len(record.placed_on) < MINIMUM:
                world.violation("progress", f"{record.name} has members on {record.placed_on} alone")
        if self.book.draining:
            world.sometimes("a host stayed empty")

    def _check_places(self, world: World, record: GroupRecord) -> None:
        """Require that a group is where it was named to be, and on no host that is not for it (W2, W3)."""
        spec = wish_of(record, DomainState())
        strange = [host for host in record.placed_on if host in self.stage.roles]
        if strange:
            world.violation("roles", f"{record.name} is still on {strange[0]}, which is not for groups")
        if spec.hosts and sorted(record.placed_on) != sorted(spec.hosts):
            said = f"{sorted(record.placed_on)}, and {sorted(spec.hosts)} are named"
            world.violation("W2", f"{record.name} is on {said}")
        barred = sorted(each.host for each in record.members if each.never_leads)
        if spec.hosts and barred != sorted(spec.never_lead):
            world.violation("W3", f"{record.name}: {barred} never lead, not {sorted(spec.never_lead)}")


SCENARIO = Manage
