"""The replication manager in a simulated domain: production's census, plan and steps.

In production the coordinator's host alone does this, and one that has just ceased to be coordinator may go on
for a moment. Here *every* host does, all the time, each on its own picture of the domain and each late: so
plans meet changes that others have made since. What is wished for is the same everywhere, and is told at
once: how the domain's state comes to its hosts is the business of the scenario ``control``.
"""

import random
from collections.abc import Hashable
from functools import partial
from itertools import groupby
from typing import Any, Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Events
from holdfast.authority.groups import GroupRecord, Placement
from holdfast.control.domain_state import DomainState
from holdfast.control.planning import Action, Lead, plan
from holdfast.control.steps import take_steps
from holdfast.control.wishes import GroupFact
from holdfast.housing.groups import Groups
from holdfast.model.ids import GroupId, HostId, Nonce
from holdfast.node.census import Census, wish_of
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration, later
from holdfast.sim.groups.book import Book
from holdfast.sim.groups.host import Host
from holdfast.sim.groups.stage import Stage
from holdfast.sim.node import NodePorts
from holdfast.sim.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.world import World

LOSS_NS: Final = 700 * MILLISECOND
"""A host that is gone for so long is taken for lost: many that are away for a while are."""
LOOK_NS: Final = 100 * MILLISECOND
LATE_NS: Final = 150 * MILLISECOND
"""A plan is acted on up to so much later, as one of ten thousand groups is."""
DRAINED: Final = "host_drained"
FOR_GOOD: Final = 0.2
_NONCES: Final = "manage/"


class ManagedHost(Host):
    """A host that manages the domain."""

    _manager: "Manager"

    def _begin(self) -> None:
        super()._begin()
        assert self.groups is not None
        self._manager = Manager(self.groups, self.book, self._stage, self._ports)


class Manager:
    """One host's part of it, as long as its process lives."""

    def __init__(self, groups: Groups, book: Book, stage: Stage, ports: NodePorts) -> None:
        self._groups = groups
        self._book = book
        self._ports = ports
        self._rng = ports.random.stream("manager")
        self._timers = ports.timers(self._on_timer)
        self._census = Census(groups.directory, stage.hosts, ports.clock, loss_ns=LOSS_NS, removed=tuple)
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
    """Reads every record that is written: no manager lets a member go that is needed (FTC-135)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._leaving: dict[GroupId, list[Placement]] = {}

    def on_commit(self, events: Events) -> bool:
        for change in events.changes:
            if change.item is not None and change.key.startswith(keys.GROUPS):
                self._judge(msgspec.json.decode(change.item.value, type=GroupRecord))
        return True

    def _judge(self, record: GroupRecord) -> None:
        before = self._leaving.get(record.group, [])
        self._leaving[record.group] = leaving = [each for each in record.members if each.is_leaving]
        let_go = [each.host for each in leaving if each not in before and each.nonce.startswith(_NONCES)]
        wanted = wish_of(record, DomainState()).minimum
        if let_go and len(record.placed_on) < wanted:
            said = f"{let_go[0]} was let go: {record.placed_on} are left, of {wanted} that are wished for"
            self._world.violation("FTC-135", f"{record.name}: {said}")


def _draw(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, 300 * MILLISECOND, 3 * SECOND), "is_for_good": rng.random() < FOR_GOOD}


def host_to_stay_empty(world: World) -> str | None:
    """If it is there when it is told so: one of those that every run has, and no second one."""
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
