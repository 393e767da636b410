"""Groups of every style on the production host, called by production clients, under every fault.

There are three to five hosts, the embedded authority, two to four groups of different styles and classes, and
clients that append, fail, read, read stale, order, set timers and ask for outcomes. Checked: answers are
linearizable; what was acknowledged is in every member's object once, what was unknown at most once, what
never ran not at all; stale reads saw real states; timers rang once; a replay of every member's checkpoint and
log gives the same object as its own and everyone else's; no divergence is reported. After healing every group
serves, and once more in the end; then all its members are in sync and equal, and hosts that have left it hold
nothing of it.

At the end of a run, calls in line are completed and learners are awaited as long as they make progress
(:func:`let_out`). A line of calls that call other groups takes as long as their disks do: some tens of
seconds where a sync takes tens of milliseconds. A host may read corrupted data long after everything else has
healed, and then begins again with nothing; over a network that reorders messages it learns slowly. Nothing
promises how long these take, only that they make progress.
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
from holdfast.sim.scenarios.groups import failing_objects, observer, space_faults
from holdfast.sim.scenarios.groups.caller import Caller
from holdfast.sim.scenarios.groups.failing_objects import Deaths
from holdfast.sim.scenarios.groups.false_deaths import FALSE_DEATH
from holdfast.sim.scenarios.groups.host import Codec, Host
from holdfast.sim.scenarios.groups.log_room import LogRoom
from holdfast.sim.scenarios.groups.objects import Tokens
from holdfast.sim.scenarios.groups.observer import Book, Losses, Replay
from holdfast.sim.scenarios.groups.parcels import ORDERS
from holdfast.sim.scenarios.groups.placement_faults import MOVING, records
from holdfast.sim.scenarios.groups.setup import CLIENTS, HOSTS, Stage, definition_of
from holdfast.sim.scenarios.groups.stored_replay import StoredReplay, with_files
from holdfast.sim.scenarios.sequence import aimed_faults, disk_damage
from holdfast.sim.scenarios.sequence.disk_damage import views
from holdfast.sim.scenarios.sequence.heart import Agents
from holdfast.sim.scenarios.sequence.observer import LeaderWatch
from holdfast.sim.scenarios.sequence.scenario import is_lost_for_good

LOOKS_MAX: Final = 20
"""The most times that progress is seen without being finished. A line has at most some fifty calls, with
three hops each."""


def let_out(world: World, stage: Stage, look_ns: int) -> list[str]:
    """Run on until no call waits, no timer is set and nobody learns.

    It also stops when none of these has made progress in *look_ns*; the final checks judge the result in
    either case. No new requests are made.

    Returns the groups that had something to do at first: calls to them may have been given up in the line, or
    while a primary made its object ready.
    """
    busy = [name for name, *_ in (*_lines(world, stage), *_taking_up(world, stage))]
    before: list[object] = []
    for _ in range(LOOKS_MAX):
        left = [*_lines(world, stage), *_taking_up(world, stage), *_learners(world, stage)]
        if left == before:
            break  # no progress; or nothing is left, and its effects have had time to settle
        before = left
        if left:
            world.sometimes("something was still moving when the last call had ended")
        world.run_until(world.now + look_ns)
    return busy


def _lines(world: World, stage: Stage) -> Iterator[tuple[str, object, tuple[int, ...]]]:
    """Yield what each group still has to do, as its primary sees it.

    The value changes whenever any of it is done.
    """
    for name in stage.hosts:
        for hosted in _hosted(world, name):
            execution = hosted.replica.execution if hosted.is_ready else None
            if execution is not None and not _is_done(execution):
                outgoing = execution.outgoing()
                waits_for = (outgoing.caller, outgoing.call) if outgoing is not None else None
                to_come = (len(execution.line.queue), len(execution.timers), len(execution.sends))
                yield hosted.record.name, waits_for, to_come


def _taking_up(world: World, stage: Stage) -> Iterator[tuple[str, str, int | None]]:
    """Yield how far primaries are that still make their objects ready: what those have to do is not seen
    yet."""
    for name in stage.hosts:
        for hosted in _hosted(world, name):
            if hosted.is_primary and not hosted.is_ready:
                execution = hosted.replica.execution
                yield hosted.record.name, name, execution.position if execution is not None else None


def _is_done(execution: Execution) -> bool:
    return execution.is_idle and not len(execution.timers) and not len(execution.sends)


def _learners(world: World, stage: Stage) -> Iterator[object]:
    """Yield the progress of members that should be in sync and are not."""
    listed = {(view.group, member.host) for view in views(world) for member in view.members}
    for name in stage.hosts:
        for hosted in _hosted(world, name):
            if (hosted.record.group, name) not in listed:
                yield hosted.record.name, name, hosted.member.committed, hosted.member.tail


def _hosted(world: World, name: str) -> list[HostedGroup]:
    """Return the members on that host of groups that have a state."""
    host: Host | None = world.nodes[name].core
    hosted = list(host.groups.hosted.values()) if host is not None and host.groups is not None else []
    return [each for each in hosted if each.record.style != "stateless"]


ENDING_NS: Final = 2500 * MILLISECOND
"""The time before the end: longer than any call lasts and any timer is set for."""
UNSETTLED_MAX: Final = 3
"""The most positions not committed in the end: marks and steps are ordered without a request."""
NEVER_LEADS: Final = 0.25
"""How often a run in which no host is lost for good has a member that never leads (W3)."""
FOR_GOOD: Final = (*disk_damage.NAMES, aimed_faults.DEAF, failing_objects.BREAKS, failing_objects.SWAYS)
DEMANDED: Final = 3
"""Operations of each group that must be answered after healing, unless its line was too long for them."""


def with_barred(stage: Stage, world: World) -> Stage:
    """The same domain, at times with a member that never leads."""
    rng = world.rng("never leads")
    if rng.random() >= NEVER_LEADS or any(is_lost_for_good(e, FOR_GOOD) for e in world.options.faults):
        return stage
    return stage.barred(rng)


class Groups(Scenario):
    name = "groups"
    nodes: ClassVar[tuple[str, ...]] = (AUTHORITY, *HOSTS)
    clients: ClassVar[tuple[str, ...]] = CLIENTS
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
        space_faults.FILLING,
        *failing_objects.BREAK_FAULTS,
        *failing_objects.DIVERGENCE_FAULTS,
        MOVING,
        FALSE_DEATH,
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
        """Groups with calls in line when the last caller had ended: their own calls may all have been given
        up."""

    def build(self, world: World) -> None:
        self.stage = stage = self.drawn(world)
        self.truth = truth = Truth(world)
        self.book = book = Book(world, History(world.time), Deaths(world, stage.hosts), Losses(world, truth))
        book.deaths.tokens_left = stage.deadly
        book.parcels.orders = ORDERS
        world.network.codec = Codec()
        truth.watchers.append(LeaderWatch(world).on_commit)
        leases = LeaseBook(world)
        world.add_node(AUTHORITY, partial(AuthorityNode, truth=truth, leases=leases))
        for host in stage.hosts:
            world.add_node(host, partial(self.host, book=book, stage=stage))
        for name in CLIENTS:
            world.add_node(name, partial(self.caller, book=book, stage=stage))
        Agents(world, tuple(stage.hosts)).start()
        LogRoom(world, stage)

    def drawn(self, world: World) -> Stage:
        """Draw the domain of this run."""
        return with_barred(Stage.drawn(world.rng("stage"), in_memory=world.options.in_memory), world)

    def healed(self, world: World) -> None:
        # Connections hide loss in production; here each lost message costs its sender a deadline.
        self.book.health.divergences.end()
        world.network.weather(msgspec.structs.replace(world.options.network, loss=0.0))
        world.after(self.heal_ns - ENDING_NS, self._begin_ending)
        if aimed_faults.deaf_host(world.options) is not None:
            # What was answered before a host became deaf says nothing about the time after (K3).
            world.after(aimed_faults.DEAF_NS, self.book.answered.clear)

    def finish(self, world: World) -> None:
        self._busy = let_out(world, self.stage, ENDING_NS)
        self._call_all(world)
        if world.violations:
            return
        lost = [each.name for each in self.stage.groups if each.group in self.book.losses.groups]
        self.book.check_history(lost)
        if self._is_any_in_doubt(world):
            return  # other groups may wait for its answers
        objects: dict[str, Tokens] = {}
        for record in records(world):
            if not world.violations:
                objects |= self._check_group(world, record)
        if not world.violations:
            stateful = [each for each in self.stage.groups if each.style != "stateless"]
            is_whole = len(objects) == len(stateful) and not self.book.losses.groups
            self.book.check_relays(objects, lost, is_whole=is_whole)
            self.book.check_posts(objects, is_whole=is_whole)

    def _is_any_in_doubt(self, world: World) -> bool:
        """Whether some group waits for a person, as it must."""
        in_doubt = [record.name for record in records(world) if self._is_in_doubt(world, record)]
        for name in in_doubt:
            world.unavailable(f"{name}: one store is lost and the others' tails are cut (D2)")
        return bool(in_doubt)

    def _is_in_doubt(self, world: World, record: GroupRecord) -> bool:
        cores: list[Host | None] = [world.nodes[name].core for name in self.stage.hosts]
        all_groups = [core.groups for core in cores if core is not None and core.groups is not None]
        hosted = [each.hosted[record.group] for each in all_groups if record.group in each.hosted]
        return record.durability == DISK and disk_damage.is_in_doubt(
            world, record.group, [each.member for each in hosted]
        )

    def _begin_ending(self) -> None:
        self.book.is_ending = True

    def _call_all(self, world: World) -> None:
        """Call every group once more: it may have served after healing and stopped since."""
        self._served = self.book.answered
        self.book.answered = Counter()
        for caller in self.book.callers.values():
            caller.call_all()
        world.run_until(world.now + ENDING_NS)

    # --- one group at the end

    def _check_left(self, world: World, record: GroupRecord) -> None:
        """Require that hosts that are no longer to be members have left and hold nothing (M6)."""
        for name in self.stage.hosts:
            host: Host | None = world.nodes[name].core
            is_deaf = name == aimed_faults.deaf_host(world.options)
            if host is None or host.groups is None or is_deaf or name in record.placed_on:
                continue
            if record.placement(name) is not None:
                world.violation("progress", f"{name} has not left {record.name}")
            elif record.group in host.groups.hosted or host.groups.kept(record) is not None:
                world.violation("M6", f"{name} has left {record.name} and still holds it")

    def _check_group(self, world: World, record: GroupRecord) -> dict[str, Tokens]:
        """Check one group; return one of its objects by the group's name, if it has any."""
        if self._awaits_recovery(world, record):
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
        for host, hosted in members.items():
            member = hosted.member
            if member.tail - member.committed > UNSETTLED_MAX:
                said = f"{host} is at {member.committed} of {member.tail}"
                world.violation("progress", f"{record.name}: {said} after healing")
                return {}
        if len(members) < len(wanted):
            return {}
        return {record.name: self._check_objects(world, record, members)}

    def _awaits_recovery(self, world: World, record: GroupRecord) -> bool:
        """Whether a group has lost its state and waits for a person, as it was made to (V4)."""
        is_to_wait = record.durability == MEMORY and record.on_total_loss == WAIT
        return is_to_wait and self._is_lost(world, record)

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
            hosted = (
                host.groups.hosted.get(record.group) if host is not None and host.groups is not None else None
            )
            if hosted is None:
                world.violation("progress", f"{record.name} is not hosted on {name}")
            else:
                found[name] = hosted
        return found

    def replayed(self, record: GroupRecord, kept: Kept | None, hosted: HostedGroup) -> Replay:
        """Return what a member has, read independently."""
        return StoredReplay(
            with_files(definition_of(record), self.book.world.nodes[hosted.backend.me.host], record),
            kept,
            hosted,
        )

    def _check_objects(self, world: World, record: GroupRecord, members: dict[str, HostedGroup]) -> Tokens:
        objects: dict[str, Tokens] = {}
        digests: dict[bytes, str] = {}
        up_to = min(hosted.member.committed for hosted in members.values())
        for name, hosted in members.items():
            host: Host = world.nodes[name].core
            assert host.groups is not None
            replay = self.replayed(record, host.groups.kept(record), hosted)
            live = hosted.replica.execution
            slow = live.line.slow if live is not None else None
            is_ahead = slow is not None and slow.is_begun  # the object is changed, its position is not
            if live is not None and not is_ahead and replay.execution.position <= live.position <= up_to:
                replay.run_to(live.position)
                is_misled = record.group in self.book.health.divergences.misled
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
            # And a receiver whose time is far ahead takes a send for expired before its sender does.
            is_stuck = record.group in self.book.losses.groups or observer.may_be_wrong(self.book)
            if len(replay.execution.sends) and not is_stuck:
                world.violation("progress", f"{record.name} on {name}: a call is still to be sent in the end")
            if not replay.execution.is_idle:
                world.violation("progress", f"{record.name} on {name}: a call waits in the end")
            instance = replay.execution.line.instance
            assert isinstance(instance, Tokens)
            self.book.parcels.check(record, name, replay.execution, instance.pieces)
            if record.group not in self.book.losses.groups:
                self.book.parcels.check_final(record, name, replay.execution)
            objects[name] = instance
        if max(hosted.member.committed for hosted in members.values()) > up_to + UNSETTLED_MAX:
            said = {name: hosted.member.committed for name, hosted in members.items()}
            world.violation("progress", f"{record.name}: members are not equal in the end: {said}")
        elif len(digests) > 1 and record.group not in self.book.health.divergences.misled:
            world.violation("converged", f"{record.name}: the states of {list(digests.values())} differ")
        if record.group not in self.book.losses.groups:
            self.book.check_objects(record.group, record.name, objects)
        return next(iter(objects.values()))


def _able(world: World, record: GroupRecord) -> list[HostId]:
    """Return the group's hosts that must serve it in the end.

    A host that is deaf in the end must have ended (K3). Hosts that can make no object may have been dropped,
    since they can take no checkpoint and their log fills (D4).
    """
    deaf = aimed_faults.deaf_host(world.options)
    hosts = record.placed_on
    return [host for host in hosts if host != deaf and not failing_objects.is_broken(world, record, host)]


SCENARIO = Groups
