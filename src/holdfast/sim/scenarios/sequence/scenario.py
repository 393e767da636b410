"""The replicated sequence of groups under every fault: the production sequence, log, leases and authority.

There are three hosts with a member of every group each, the embedded authority, and clients that append
unique tokens and read. Checked: positions are final with the same content everywhere (S3), one primary per
epoch, reads are linearizable (R), every acknowledged token is once on every member (X1), views keep
``min_in_sync`` (M1); after healing, every group serves and all three members are in sync and equal.
"""

from functools import partial
from typing import ClassVar, Final

import msgspec

from holdfast.model.ids import GroupId
from holdfast.sequence.member import Member
from holdfast.sim.engine.options import SECOND
from holdfast.sim.engine.world import World
from holdfast.sim.faults import (
    CLOCK_KINDS,
    DISK_KINDS,
    NETWORK_KINDS,
    POWER_KINDS,
    PROCESS_KINDS,
)
from holdfast.sim.runner.scenario import Bound, Scenario
from holdfast.sim.scenarios.authority.observer import LeaseBook, Truth
from holdfast.sim.scenarios.authority.server import AUTHORITY, AuthorityNode
from holdfast.sim.scenarios.sequence import aimed_faults, disk_damage
from holdfast.sim.scenarios.sequence.aimed_faults import LAGGING, LAGS, PARTING
from holdfast.sim.scenarios.sequence.application import Client, Codec
from holdfast.sim.scenarios.sequence.heart import Agents
from holdfast.sim.scenarios.sequence.host import CONFIG, Host
from holdfast.sim.scenarios.sequence.lease_settings import LeaseSettings
from holdfast.sim.scenarios.sequence.observer import Book
from holdfast.sim.scenarios.sequence.orderly_stop import ORDERLY_STOP

HOSTS: Final = ("h1", "h2", "h3")
CLIENTS: Final = ("c1", "c2", "c3", "c4", "c5", "c6")
DISK_GROUPS: Final = [GroupId(1), GroupId(2)]
MEMORY_GROUPS: Final = [GroupId(3)]
GROUPS: Final = [*DISK_GROUPS, *MEMORY_GROUPS]
ENDING_NS: Final = 3 * SECOND
DEMANDED: Final = 10
"""Operations of each group that must be answered after healing."""


class Sequence(Scenario):
    name = "sequence"
    nodes = (AUTHORITY, *HOSTS)
    clients = CLIENTS
    kinds = (*PROCESS_KINDS, *POWER_KINDS, *NETWORK_KINDS, *CLOCK_KINDS, *DISK_KINDS)
    own_kinds = (
        *disk_damage.FAULTS,
        *aimed_faults.FAULTS,
        aimed_faults.STICKING,
        LAGGING,
        PARTING,
        ORDERLY_STOP,
    )
    bounds = (Bound(kinds=disk_damage.NAMES, nodes=1), Bound(kinds=(LAGS,), per_run=1))
    fault_ns: ClassVar[int] = 10 * SECOND
    heal_ns: ClassVar[int] = 12 * SECOND

    def __init__(self) -> None:
        self._book: Book
        self._settings: LeaseSettings

    def build(self, world: World) -> None:
        self._book = book = Book.of(world, CONFIG.min_in_sync)
        world.network.codec = Codec()
        leases = LeaseBook(world)
        world.add_node(AUTHORITY, partial(AuthorityNode, truth=Truth(world), leases=leases))
        self._settings = settings = LeaseSettings(world, HOSTS)
        settings.start()
        for name in HOSTS:
            build = partial(
                Host, book=book, hosts=HOSTS, disk=DISK_GROUPS, memory=MEMORY_GROUPS, settings=settings
            )
            world.add_node(name, build)
        for index, name in enumerate(CLIENTS):
            group = GROUPS[index % len(GROUPS)]
            world.add_node(name, partial(Client, book=book, hosts=HOSTS, group=group))
        Agents(world, HOSTS).start()

    def healed(self, world: World) -> None:
        # Connections hide loss in production; here each lost message costs its sender a deadline.
        world.network.weather(msgspec.structs.replace(world.options.network, loss=0.0))
        self._settings.on_healed()
        world.after(self.heal_ns - ENDING_NS, self._begin_ending)
        if aimed_faults.unusable_host(world.options) is not None:
            # What was answered before a host stopped working says nothing about the time after (K3).
            world.after(aimed_faults.DEAF_NS, self._book.answered.clear)

    def finish(self, world: World) -> None:
        self._book.check_reads()
        for group in GROUPS:
            if self._is_lost(world, group):
                world.unavailable(f"group {group}: the last process that held it is gone (V4)")
            elif disk_damage.is_in_doubt(world, group, self._members(world, group)):
                world.unavailable(f"group {group}: one store is lost and the others' tails are cut (D2)")
            elif not world.violations:
                self._check_group(world, group)

    def _check_group(self, world: World, group: GroupId) -> None:
        answered = self._book.answered[group]
        if answered < DEMANDED:
            world.violation("progress", f"group {group}: {answered} operations answered after healing")
            return
        lists: dict[str, list[str]] = {}
        for name in HOSTS:
            if name == aimed_faults.unusable_host(world.options):
                continue
            host: Host | None = world.nodes[name].core
            application = host.applications.get(group) if host is not None else None
            if application is None or application.applied != application.member.tail:
                world.violation("progress", f"group {group}: {name} has not caught up after healing")
                return
            lists[name] = application.tokens
        if len({len(tokens) for tokens in lists.values()}) > 1:
            said = {name: len(tokens) for name, tokens in lists.items()}
            world.violation("progress", f"group {group}: members are not equal in the end: {said}")
            return
        self._book.check_lists(group, lists)

    def _is_lost(self, world: World, group: GroupId) -> bool:
        """Whether a group in memory has no listed process left."""
        here, _ = disk_damage.listed_here(world, group, self._members(world, group))
        return group in MEMORY_GROUPS and not here

    def _members(self, world: World, group: GroupId) -> list[Member]:
        """Return the group's members on the running hosts."""
        cores: list[Host | None] = [world.nodes[name].core for name in HOSTS]
        return [core.members[group] for core in cores if core is not None and group in core.members]

    def _begin_ending(self) -> None:
        self._book.is_ending = True


SCENARIO = Sequence
