"""Groups of every style on the production housing, called by production clients, under every fault.

Three to five hosts, the embedded authority, two to four groups of different styles and classes, and clients
that append, fail, read, read stale, order, set timers and ask for outcomes. Checked: answers are
linearizable; what was acknowledged is in every member's object once, what was unknown at most once, what
never ran not at all; stale reads saw what was; timers rang once; a replay of every member's checkpoint and
log gives its object and everybody else's; no divergence is reported; after healing every group serves, and
once more in the end, all who shall be its members are in-sync and equal, and who has left holds nothing. A
line of calls that is not empty in the end, and a member that has to learn then, may take their time and are
watched as long as they move (:mod:`holdfast.sim.scenarios.groups.scenario`).

The end of a run: what stands in line is let out and who learns is awaited, as long as they move.

A line of calls that call other groups takes as long as their disks do, some tens of seconds where a sync
takes tens of milliseconds. A host may read what has rotted long after everything else has healed, and begins
again with nothing then; over a network that changes the order of messages it learns slowly. How long these
take is nobody's promise; that they go on is one.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Final

import msgspec

from holdfast.authority.groups import DISK, MEMORY, WAIT, GroupRecord
from holdfast.execution.execution import Execution
from holdfast.groups.hosted_group import HostedGroup
from holdfast.model.ids import GroupId, HostId
from holdfast.sequence.ports import Kept
from holdfast.sim.checkers import History
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.engine.world import World
from holdfast.sim.faults import (
    CLOCK_KINDS,
    DISK_KINDS,
    NETWORK_KINDS,
    POWER_KINDS,
    PROCESS_KINDS,
    FaultKind,
)
from holdfast.sim.runner.scenario import Bound, Scenario
from holdfast.sim.scenarios.authority.observer import LeaseBook, Truth
from holdfast.sim.scenarios.authority.server import AUTHORITY, AuthorityNode
from holdfast.sim.scenarios.groups import failing_objects, observer
from holdfast.sim.scenarios.groups.caller import Caller
from holdfast.sim.scenarios.groups.failing_objects import Deaths
from holdfast.sim.scenarios.groups.host import Codec, Host
from holdfast.sim.scenarios.groups.objects import Tokens
from holdfast.sim.scenarios.groups.observer import Book, Losses, Replay
from holdfast.sim.scenarios.groups.placement_faults import MOVING, records
from holdfast.sim.scenarios.groups.setup import CLIENTS, HOSTS, Stage, definition_of
from holdfast.sim.scenarios.sequence import aimed_faults, disk_damage
from holdfast.sim.scenarios.sequence.disk_damage import views
from holdfast.sim.scenarios.sequence.heart import Agents

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


def _housed(world: World, name: str) -> list[HostedGroup]:
    """The members on that host of groups that have a state."""
    host: Host | None = world.nodes[name].core
    housed = list(host.groups.housed.values()) if host is not None and host.groups is not None else []
    return [each for each in housed if each.record.style != "stateless"]


ENDING_NS: Final = 2500 * MILLISECOND
"""Before the end: longer than any call lasts and any timer is set for."""
UNSETTLED_MAX: Final = 3
"""Positions not committed yet in the end: marks and steps are ordered without anybody asking."""
DEMANDED: Final = 3
"""Operations of each group that must be answered after healing, unless its line was too long for them."""


class Groups(Scenario):
    name = "groups"
    nodes: ClassVar[tuple[str, ...]] = (AUTHORITY, *HOSTS)
    clients = CLIENTS
    kinds: ClassVar[tuple[str, ...]] = (
        *PROCESS_KINDS,
        *POWER_KINDS,
        *NETWORK_KINDS,
        *CLOCK_KINDS,
        *DISK_KINDS,
    )
    own_kinds: ClassVar[tuple[FaultKind, ...]] = (
        *disk_damage.FAULTS,
        *aimed_faults.FAULTS,
        *failing_objects.BREAK_FAULTS,
        *failing_objects.SWAY_FAULTS,
        MOVING,
    )
    bounds: ClassVar[tuple[Bound, ...]] = (
        Bound(kinds=disk_damage.NAMES, nodes=1),
        Bound(kinds=(failing_objects.BREAKS,), nodes=1),
        Bound(kinds=(failing_objects.SWAYS,), nodes=1),
    )
    host: ClassVar[type[Host]] = Host
    caller: ClassVar[type[Caller]] = Caller
    fault_ns: ClassVar[int] = 4 * SECOND
    heal_ns: ClassVar[int] = 6500 * MILLISECOND

    def __init__(self) -> None:
        self.book: Book
        self.stage: Stage
        self.truth: Truth
        self._served: Counter[GroupId]
        """Operations answered between the healing and the ending."""
        self._busy: list[str]
        """Groups with calls in line when the last caller had ended: theirs may all have been given up."""

    def build(self, world: World) -> None:
        self.stage = stage = self.drawn(world)
        self.truth = truth = Truth(world)
        self.book = book = Book(world, History(world.time), Deaths(world, stage.hosts), Losses(world, truth))
        book.deaths.tokens_left = stage.deadly
        world.network.codec = Codec()
        leases = LeaseBook(world)
        world.add_node(AUTHORITY, partial(AuthorityNode, truth=truth, leases=leases))
        for host in stage.hosts:
            world.add_node(host, partial(self.host, book=book, stage=stage))
        for name in CLIENTS:
            world.add_node(name, partial(self.caller, book=book, stage=stage))
        Agents(world, tuple(stage.hosts)).start()

    def drawn(self, world: World) -> Stage:
        """The domain of this run."""
        return Stage.drawn(world.rng("stage"), in_memory=world.options.in_memory)

    def healed(self, world: World) -> None:
        # Connections hide loss in production; here each lost message costs its sender a deadline.
        self.book.health.swaying.end()
        world.network.weather(msgspec.structs.replace(world.options.network, loss=0.0))
        world.after(self.heal_ns - ENDING_NS, self._begin_ending)
        if aimed_faults.deaf_host(world.options) is not None:
            # What was answered before one host became deaf says nothing about the time after (K3).
            world.after(aimed_faults.DEAF_NS, self.book.answered.clear)

    def finish(self, world: World) -> None:
        self._busy = let_out(world, self.stage, ENDING_NS)
        self._call_all(world)
        if world.violations:
            return
        lost = [each.name for each in self.stage.groups if each.group in self.book.losses.groups]
        self.book.check_history(lost)
        if self._is_any_in_doubt(world):
            return  # and others may wait for its answers
        objects: dict[str, Tokens] = {}
        for record in records(world):
            if not world.violations:
                objects |= self._check_group(world, record)
        if not world.violations:
            stateful = [each for each in self.stage.groups if each.style != "stateless"]
            is_whole = len(objects) == len(stateful) and not self.book.losses.groups
            self.book.check_relays(objects, is_whole=is_whole)
            self.book.check_posts(objects, is_whole=is_whole)

    def _is_any_in_doubt(self, world: World) -> bool:
        """Whether a group waits for a person, as it must."""
        in_doubt = [record.name for record in records(world) if self._is_in_doubt(world, record)]
        for name in in_doubt:
            world.unavailable(f"{name}: one store is lost and the others' tails are cut (D2)")
        return bool(in_doubt)

    def _is_in_doubt(self, world: World, record: GroupRecord) -> bool:
        cores: list[Host | None] = [world.nodes[name].core for name in self.stage.hosts]
        housings = [core.groups for core in cores if core is not None and core.groups is not None]
        housed = [each.housed[record.group] for each in housings if record.group in each.housed]
        return record.durability == DISK and disk_damage.is_in_doubt(
            world, record.group, [each.member for each in housed]
        )

    def _begin_ending(self) -> None:
        self.book.is_ending = True

    def _call_all(self, world: World) -> None:
        """Every group is called once more: it may have served after healing and stand still since."""
        self._served = self.book.answered
        self.book.answered = Counter()
        for caller in self.book.callers.values():
            caller.call_all()
        world.run_until(world.now + ENDING_NS)

    # --- one group in the end

    def _check_left(self, world: World, record: GroupRecord) -> None:
        """Who shall be no member has left, and holds nothing (M6)."""
        for name in self.stage.hosts:
            host: Host | None = world.nodes[name].core
            is_deaf = name == aimed_faults.deaf_host(world.options)
            if host is None or host.groups is None or is_deaf or name in record.placed_on:
                continue
            if record.placement(name) is not None:
                world.violation("progress", f"{name} has not left {record.name}")
            elif record.group in host.groups.housed or host.groups.kept(record) is not None:
                world.violation("M6", f"{name} has left {record.name} and still holds it")

    def _check_group(self, world: World, record: GroupRecord) -> dict[str, Tokens]:
        """One of its objects by the group's name, if it has any."""
        if record.durability == MEMORY and record.on_total_loss == WAIT and self._is_lost(world, record):
            world.unavailable(f"{record.name}: the last process that held it is gone (V4)")
            return {}
        self._check_left(world, record)
        answered = self._served[record.group]
        if answered < DEMANDED and record.name not in self._busy:
            world.violation("progress", f"{record.name}: {answered} operations answered after healing")
            return {}
        if not self.book.answered[record.group]:
            world.violation("progress", f"{record.name}: it answers nobody in the end")
            return {}
        if record.style == "stateless":
            return {}
        wanted = _able(world, record)
        members = self._members(world, record, wanted)
        view = next((each for each in disk_damage.views(world) if each.group == record.group), None)
        listed = [member.host for member in view.members] if view is not None else []
        if sorted(host for host in listed if not failing_objects.is_broken(world, record, host)) != sorted(
            wanted
        ):
            world.violation("progress", f"{record.name}: in-sync are {listed} after healing")
            return {}
        for host, housed in members.items():
            member = housed.member
            if member.tail - member.committed > UNSETTLED_MAX:
                said = f"{host} is at {member.committed} of {member.tail}"
                world.violation("progress", f"{record.name}: {said} after healing")
                return {}
        if len(members) < len(wanted):
            return {}
        return {record.name: self._check_objects(world, record, members)}

    def _is_lost(self, world: World, record: GroupRecord) -> bool:
        """Whether no listed process of a group in memory lives."""
        hosts = [world.nodes[place.host].core for place in record.members]
        living = [host.groups.member_of(record) for host in hosts if host is not None and host.groups]
        stores = [(member.host, member.store) for member in living]
        listed = [
            each for view in disk_damage.views(world) if view.group == record.group for each in view.members
        ]
        return not any((member.host, member.store) in stores for member in listed)

    def _members(self, world: World, record: GroupRecord, hosts: list[HostId]) -> dict[str, HostedGroup]:
        found: dict[str, HostedGroup] = {}
        for name in hosts:
            host: Host | None = world.nodes[name].core
            housed = (
                host.groups.housed.get(record.group) if host is not None and host.groups is not None else None
            )
            if housed is None:
                world.violation("progress", f"{record.name} is not housed on {name}")
            else:
                found[name] = housed
        return found

    def replayed(self, record: GroupRecord, kept: Kept | None, housed: HostedGroup) -> Replay:
        """What a member holds, read once more."""
        return Replay(definition_of(record), kept, housed)

    def _check_objects(self, world: World, record: GroupRecord, members: dict[str, HostedGroup]) -> Tokens:
        objects: dict[str, Tokens] = {}
        digests: dict[bytes, str] = {}
        up_to = min(housed.member.committed for housed in members.values())
        for name, housed in members.items():
            host: Host = world.nodes[name].core
            assert host.groups is not None
            replay = self.replayed(record, host.groups.kept(record), housed)
            live = housed.replica.execution
            if live is not None and replay.execution.position <= live.position <= up_to:
                replay.run_to(live.position)
                is_misled = record.group in self.book.health.swaying.misled
                if live.digest() != replay.execution.digest() and not is_misled:
                    world.violation("E1", f"{record.name} on {name} differs from a replay at {live.position}")
            replay.run_to(up_to)
            if replay.divergence:
                world.violation("E1", f"{record.name} on {name}: {replay.divergence}")
            if replay.went_back:
                world.violation("S1", f"{record.name} on {name}: {replay.went_back}")
            observer.check(self.book, record.name, replay.execution.time_ns)
            digests.setdefault(replay.execution.digest(), name)
            # Back at an earlier state it sends again what its receivers were told to forget.
            if len(replay.execution.sends) and record.group not in self.book.losses.groups:
                world.violation("progress", f"{record.name} on {name}: a call is still to be sent in the end")
            if not replay.execution.is_idle:
                world.violation("progress", f"{record.name} on {name}: a call waits in the end")
            instance = replay.execution.line.instance
            assert isinstance(instance, Tokens)
            objects[name] = instance
        if max(housed.member.committed for housed in members.values()) > up_to + UNSETTLED_MAX:
            said = {name: housed.member.committed for name, housed in members.items()}
            world.violation("progress", f"{record.name}: members are not equal in the end: {said}")
        elif len(digests) > 1 and record.group not in self.book.health.swaying.misled:
            world.violation("converged", f"{record.name}: the states of {list(digests.values())} differ")
        if record.group not in self.book.losses.groups:
            self.book.check_objects(record.group, record.name, objects)
        return next(iter(objects.values()))


def _able(world: World, record: GroupRecord) -> list[HostId]:
    """The group's hosts, but for one that is deaf in the end: it must have gone (K3). One that can make no
    object may have gone: it can take no checkpoint, its log fills, and it is dropped (D4)."""
    deaf = aimed_faults.deaf_host(world.options)
    hosts = record.placed_on
    return [host for host in hosts if host != deaf and not failing_objects.is_broken(world, record, host)]


SCENARIO = Groups
