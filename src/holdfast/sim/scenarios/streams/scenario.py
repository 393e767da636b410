"""Groups fed by lossy streams on the production host: one order everywhere, whatever is lost (section O).

There are three hosts, one or two active groups of different policies and settings, and up to three sources
for each. Every link of a source loses, delays and repeats messages by itself; hosts become deaf to a stream
for a while; sources end and return; leaders hand over, are killed and cut off; the group that decides in
place of another one's object is late, silent, or not to be reached. Checked: no member delivers
what another passes over; what was delivered anywhere is in every object in the end; each stream's order is
kept and nothing comes twice; ``on_loss`` changes nothing; no divergence is reported; the states, ledgers and
notices of all members are equal in the end. After healing every stream goes on to its end, except where the
policy is to suspend and the messages are nowhere."""

from functools import partial
from typing import Any, ClassVar, Final

from holdfast.authority.groups import MEMORY, GroupRecord
from holdfast.groups.hosted_group import HostedGroup
from holdfast.sim.checkers import History
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import CLOCK_KINDS, NETWORK_KINDS, POWER_KINDS, PROCESS_KINDS, FaultKind, Field
from holdfast.sim.faults.kind import Parameters
from holdfast.sim.runner.scenario import Bound
from holdfast.sim.scenarios.authority.observer import LeaseBook, Truth
from holdfast.sim.scenarios.authority.server import AUTHORITY, AuthorityNode
from holdfast.sim.scenarios.groups.failing_objects import Deaths
from holdfast.sim.scenarios.groups.host import Codec
from holdfast.sim.scenarios.groups.observer import Book, Losses, Replay
from holdfast.sim.scenarios.groups.scenario import Groups
from holdfast.sim.scenarios.groups.setup import HOSTS
from holdfast.sim.scenarios.sequence.heart import Agents
from holdfast.sim.scenarios.sequence.observer import LeaderWatch
from holdfast.sim.scenarios.streams.books import NEVER_STOPS, Noted
from holdfast.sim.scenarios.streams.deciders import Judge
from holdfast.sim.scenarios.streams.host import StreamHost, definition_of, streams_of
from holdfast.sim.scenarios.streams.observer import StreamBook
from holdfast.sim.scenarios.streams.setup import drawn_sources, drawn_stage, group_of, kind_of
from holdfast.streams.delivering import StreamState
from holdfast.streams.ledger import Ledger
from holdfast.streams.records import Decided

DEAF_TO: Final = "stream_deaf"
SENDING_NS: Final = 600 * MILLISECOND
"""How long sources go on sending after the healing."""
LOOK_NS: Final = 500 * MILLISECOND
LOOKS_MAX: Final = 24


def _draw_deaf(rng: Any, _: Field) -> Parameters:
    return {"stream": rng.randrange(6), "messages": rng.choice((1, 5, 60))}


def _be_deaf(world: World, event: FaultEvent) -> bool:
    """A host gets no messages of a stream for a while."""
    core = world.nodes[event.target].core
    return isinstance(core, StreamHost) and core.be_deaf(
        event.parameters["stream"], event.parameters["messages"]
    )


class StreamsScenario(Groups):
    name = "streams"
    nodes: ClassVar[tuple[str, ...]] = (AUTHORITY, *HOSTS[:3])
    clients: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[tuple[str, ...]] = (*PROCESS_KINDS, *POWER_KINDS, *NETWORK_KINDS, *CLOCK_KINDS)
    own_kinds: ClassVar[tuple[FaultKind, ...]] = (FaultKind(DEAF_TO, _draw_deaf, _be_deaf),)
    bounds: ClassVar[tuple[Bound, ...]] = ()
    fault_ns: ClassVar[int] = 2 * SECOND
    heal_ns: ClassVar[int] = 2600 * MILLISECOND

    def __init__(self) -> None:
        super().__init__()
        self.streams: StreamBook

    def build(self, world: World) -> None:
        self.stage = stage = drawn_stage(world)
        self.truth = truth = Truth(world)
        self.book = book = Book(world, History(world.time), Deaths(world, stage.hosts), Losses(world, truth))
        self.streams = StreamBook(world)
        for record in stage.groups:
            if kind_of(record).settings.decider_group:
                rng = world.rng(f"judge/{record.group}")
                self.streams.judges[record.group] = Judge(world, rng, kind_of(record).policy)
        world.network.codec = Codec()
        truth.watchers.append(LeaderWatch(world).on_commit)
        world.add_node(AUTHORITY, partial(AuthorityNode, truth=truth, leases=LeaseBook(world)))
        for host in stage.hosts:
            world.add_node(host, partial(StreamHost, book=book, stage=stage, streams=self.streams))
        Agents(world, tuple(stage.hosts)).start()
        drawn_sources(world, stage, self.streams)

    def healed(self, world: World) -> None:
        super().healed(world)
        for judge in self.streams.judges.values():
            judge.is_healed = True
        for source in self.streams.sources.values():
            source.is_healed = True
            source.deaf.clear()
            source.restarts = 0.0
        world.after(SENDING_NS, self._end_sources)

    def _end_sources(self) -> None:
        for source in self.streams.sources.values():
            source.end()

    def finish(self, world: World) -> None:
        for record in self.stage.groups:
            if world.violations:
                return
            if record.durability == MEMORY and self._is_lost(world, record):
                world.unavailable(f"{record.name}: the last process that held it is gone (V4)")
                continue
            self._check_streams(world, record)

    # --- one group in the end

    def _check_streams(self, world: World, record: GroupRecord) -> None:
        why = "it was not looked at"
        for look in range(LOOKS_MAX):
            why = self._why_unsettled(world, record)
            if not why or world.violations:
                break
            # A stream that stands is asked about again and again: not always at the moment of a look.
            world.run_until(world.now + LOOK_NS + 7 * look * MILLISECOND)
        if world.violations:
            return
        if why:
            world.violation("progress", f"{record.name}: {why}")
            return
        members = self._members(world, record, list(record.placed_on))
        digests: dict[bytes, str] = {}
        for host, hosted in members.items():
            execution = hosted.replica.execution
            assert execution is not None
            instance, ledger = execution.line.instance, _ledger(hosted)
            assert isinstance(instance, Noted)
            assert ledger is not None
            digests.setdefault(execution.digest(), host)
            self.streams.check(record, host, instance, ledger)
            self.streams.check_whole(record, ledger)
            if kind_of(record).settings.carries:
                self._check_replay(world, record, host, hosted)
        if len(digests) > 1:
            world.violation("converged", f"{record.name}: the states of {list(digests.values())} differ")
        world.operation()

    def _check_replay(self, world: World, record: GroupRecord, host: str, hosted: HostedGroup) -> None:
        core: StreamHost = world.nodes[host].core
        assert core.groups is not None
        live = hosted.replica.execution
        assert live is not None
        replay = Replay(definition_of(record), core.groups.kept(record), hosted)
        replay.run_to(live.position)
        if replay.divergence or replay.execution.digest() != live.digest():
            world.violation("E1", f"{record.name} on {host} differs from a replay at {live.position}")

    def _why_unsettled(self, world: World, record: GroupRecord) -> str:
        """Why a group is not done yet; empty if it is."""
        members = self._hosted_members(world, record)
        if len(members) < len(record.placed_on):
            return f"only {sorted(members)} host it"
        positions = set()
        for host, hosted in members.items():
            execution = hosted.replica.execution
            if execution is None or _ledger(hosted) is None:
                return f"{host} has no object: {hosted.replica.fitness()}"
            if not execution.is_idle or execution.is_held_up:
                return f"{host} has more to execute"
            positions.add(execution.position)
        if len(positions) > 1:
            return f"its members are at {sorted(positions)}"
        ledger = _ledger(next(iter(members.values())))
        assert ledger is not None
        for stream, source in self.streams.sources.items():
            if group_of(stream) != record.group or not source.number:
                continue
            mark = ledger.mark(stream)
            is_done = (
                mark is not None
                and mark.origin.incarnation == source.incarnation
                and mark.mark == source.number
                and not mark.holes
            )
            if mark is None and kind_of(record).settings.late_join and not self._is_held(members, stream):
                continue  # nobody has ever heard a message of it
            if not is_done and not self._may_halt(record, members, stream):
                reached = (mark.origin.incarnation, mark.mark, mark.holes) if mark is not None else None
                return f"{stream} is at {reached} of {(source.incarnation, source.number)}"
        return ""

    def _may_halt(self, record: GroupRecord, members: dict[str, HostedGroup], stream: str) -> bool:
        """Whether a stream may stand: its policy is to suspend, and nobody has what is missing."""
        kind = kind_of(record)
        if kind.policy in NEVER_STOPS:
            return False
        source = self.streams.sources[stream]
        for hosted in members.values():
            streams, ledger = streams_of(hosted), _ledger(hosted)
            mark = ledger.mark(stream) if ledger is not None else None
            if streams is None or mark is None or ledger is None:
                return False
            missing = mark.holes[0].first if mark.holes else mark.mark + 1
            has_suspended = any(
                isinstance(each.decided, Decided)
                and each.decided.action.startswith("suspend")
                and (each.decided.origin, each.decided.first) == (mark.origin, missing)
                for each in ledger.audit
            )
            is_stored = source.has_store and mark.origin == source.origin and missing in source.kept
            if is_stored or not has_suspended or streams.held(mark.origin, missing) is not None:
                return False
        self.book.world.sometimes("a stream stands, because its policy is to suspend")
        return True

    def _is_held(self, members: dict[str, HostedGroup], stream: str) -> bool:
        found = [streams_of(hosted) for hosted in members.values()]
        lives = [each.holding.newest(stream) for each in found if each is not None]
        return any(each.count for each in lives if each is not None)

    def _hosted_members(self, world: World, record: GroupRecord) -> dict[str, HostedGroup]:
        found: dict[str, HostedGroup] = {}
        for name in record.placed_on:
            core: StreamHost | None = world.nodes[name].core
            hosted = core.groups.hosted.get(record.group) if core is not None and core.groups else None
            if hosted is not None:
                found[name] = hosted
        return found


def _ledger(hosted: HostedGroup) -> Ledger | None:
    execution = hosted.replica.execution
    state = execution.annexes.get("streams") if execution is not None else None
    return state.ledger if isinstance(state, StreamState) else None


SCENARIO = StreamsScenario
