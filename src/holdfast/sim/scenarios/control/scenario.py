"""The control plane under every fault: production managers, recipes, archive files and authority.

There are four hosts, three of which participate and one of which observes, the embedded authority, and
clients that request unique tokens. Checked: every revision of the authority against the rules T; one
coordinator per term, and no storm of elections; contexts are equal at equal CAS, and committed according to
the record; no false positive and no hidden false negative (IM-13, IM-14); after healing, changes are accepted
and all hosts have the same context.
"""

from collections import Counter
from functools import partial
from typing import ClassVar, Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.control_records import Transaction
from holdfast.control.coordination.ports import ParticipantRole
from holdfast.control.coordination.state_file import Context
from holdfast.sim.engine.options import SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import (
    CLOCK_KINDS,
    DISK_KINDS,
    KINDS,
    NETWORK_KINDS,
    POWER_KINDS,
    PROCESS_KINDS,
    FaultKind,
)
from holdfast.sim.runner.scenario import Bound, Scenario
from holdfast.sim.scenarios.authority.observer import LeaseBook, Truth
from holdfast.sim.scenarios.authority.server import AUTHORITY, AuthorityNode
from holdfast.sim.scenarios.control import aimed_faults
from holdfast.sim.scenarios.control.client import Client
from holdfast.sim.scenarios.control.host import CONFIG, Codec, Host
from holdfast.sim.scenarios.control.observer import Book
from holdfast.sim.scenarios.sequence.heart import Agents

HOSTS: Final = ("h1", "h2", "h3", "h4")
"""One host more than participate."""
CLIENTS: Final = ("c1", "c2", "c3")
ENDING_NS: Final = 4 * SECOND
DEMANDED: Final = 5
HOST_DAMAGE: Final = ("wipe", "copy", "roll_back")


def _hosts_only(name: str) -> FaultKind:
    """Restrict a kind of fault to hosts: the design relies on the authority's disk."""

    def apply(world: World, event: FaultEvent) -> bool:
        source = event.parameters.get("source", event.target)
        return AUTHORITY not in (event.target, source) and KINDS[name].apply(world, event)

    return FaultKind(name, KINDS[name].draw, apply)


class Control(Scenario):
    name = "control"
    nodes = (AUTHORITY, *HOSTS)
    clients = CLIENTS
    kinds = (*PROCESS_KINDS, *POWER_KINDS, *NETWORK_KINDS, *CLOCK_KINDS, *DISK_KINDS)
    own_kinds = (*map(_hosts_only, HOST_DAMAGE), *aimed_faults.FAULTS)
    bounds = (Bound(kinds=HOST_DAMAGE, nodes=1),)
    fault_ns: ClassVar[int] = 10 * SECOND
    heal_ns: ClassVar[int] = 14 * SECOND

    def __init__(self) -> None:
        self.book: Book

    def build(self, world: World) -> None:
        truth = Truth(world)
        self.book = book = Book(world, truth, CONFIG.silence_ns)
        world.network.codec = Codec()
        world.add_node(AUTHORITY, partial(AuthorityNode, truth=truth, leases=LeaseBook(world)))
        for name in HOSTS:
            world.add_node(name, partial(Host, book=book))
        for name in CLIENTS:
            world.add_node(name, partial(Client, book=book, hosts=HOSTS))
        Agents(world, HOSTS).start()

    def healed(self, world: World) -> None:
        # Connections hide loss in production; here each lost message costs its sender a deadline.
        world.network.weather(msgspec.structs.replace(world.options.network, loss=0.0))
        world.after(self.heal_ns - ENDING_NS, self._begin_ending)

    def finish(self, world: World) -> None:
        hosts = {name: world.nodes[name].core for name in HOSTS}
        contexts = {
            name: host.manager.context
            for name, host in hosts.items()
            if host is not None and host.manager is not None
        }
        if not self._can_govern(contexts):
            world.unavailable("no host holds the last committed context (IM-139)")
            return
        roles = {name: hosts[name].manager.role.value for name in contexts}
        if self.book.progress < DEMANDED:
            world.violation("progress", f"{self.book.progress} changes accepted after healing; {roles}")
        elif not _are_as_wanted(roles):
            world.violation("progress", f"roles in the end: {roles}")
        elif len({context.cas for context in contexts.values()}) > 1:
            held = {name: context.cas for name, context in contexts.items()}
            world.violation("progress", f"contexts are not equal in the end: {held}")
        else:
            self.book.check(contexts[HOSTS[0]])

    def _can_govern(self, contexts: dict[str, Context]) -> bool:
        item = self.book.truth.items.get(keys.COMMITTED)
        if item is None:
            return True
        committed = msgspec.json.decode(item.value, type=Transaction)
        took_part = [each.host for each in committed.participants]
        return any(context.cas == committed.cas for name, context in contexts.items() if name in took_part)

    def _begin_ending(self) -> None:
        self.book.is_ending = True


def _are_as_wanted(roles: dict[str, str]) -> bool:
    """Whether there is one coordinator with at least two replicas.

    Three are possible: a host that has what it helped to commit stays a replica, even when others have
    replaced it, until the next update is made without it.
    """
    count = Counter(roles.values())
    return count[ParticipantRole.COORDINATOR.value] == 1 and count[ParticipantRole.REPLICA.value] in (2, 3)


SCENARIO = Control
