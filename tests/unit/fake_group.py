"""A group of members over a stand-in of the sequence: what it promises, and nothing of how it is kept.

The stand-in keeps a log per member, and lets a schedule decide who holds what, what commits, who becomes
primary, who crashes, and who comes back with or without its disk. It keeps the promises of
:mod:`holdfast.sequence.ports`: a position commits when all that are in sync hold it, and a new primary has
everything committed in its own epoch before it serves.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from holdfast.authority.views import ViewMember
from holdfast.execution.capture import NotCapturable
from holdfast.execution.crash_attempts import CrashSuspicions
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Outgoing
from holdfast.model.code import Code
from holdfast.model.csn import Csn
from holdfast.model.errors import Corruption, InvalidRequest, Overloaded, Rejected, Unavailable
from holdfast.model.ids import (
    SECOND,
    Epoch,
    GroupId,
    HostId,
    Incarnation,
    Opening,
    Position,
    ReplicaId,
    StoreId,
)
from holdfast.model.ports import NoTrace, Trace
from holdfast.sequence.config import SequenceConfig
from holdfast.sequence.messages import PeerMessage
from holdfast.sequence.peer_messages import Peer
from holdfast.sequence.ports import Captured, Kept
from holdfast.storage.record import ORIGIN
from holdfast.storage.record import Record as Stored
from holdfast.styles.active import Active
from holdfast.styles.call_log import CallLog
from holdfast.styles.code_change import continued
from holdfast.styles.cold import Cold
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import CallObserver, Copied, NotCopied, Snapshot, StylePorts, Token, Waits
from holdfast.styles.replica import Replica
from holdfast.styles.warm import Warm

RECORD_BYTES_MAX = SequenceConfig().record_bytes_max

STYLES: dict[str, type[Replica]] = {"cold": Cold, "warm": Warm, "active": Active}


class FakeClock:
    """The machine's clock; *step_ns* passes with each look at it."""

    def __init__(self) -> None:
        self.time_ns = 1_000 * SECOND
        self.step_ns = 0
        self.jump_ns = 0
        """By how much the wall clock was set."""

    def now(self) -> int:
        self.time_ns += self.step_ns
        return self.time_ns

    def wall(self) -> int:
        return self.time_ns + self.jump_ns


class FakeCopies:
    """Copies of one process: taken at once, ended when a schedule says so, and lost with the process."""

    def __init__(self, member: "FakeMember") -> None:
        self.is_busy = False
        """With a copy for another group: a process has one at a time."""
        self.begun = 0
        self._refused = ""
        self._member = member
        self._running: tuple[Captured, bytes, Callable[[Copied | NotCopied], None]] | None = None
        self._written: Captured | None = None

    def begin(self, snapshot: Snapshot, then: Callable[[Copied | NotCopied], None]) -> bool:
        if self.is_busy or self._running is not None or self._written is not None:
            return False
        self.begun += 1
        self._refused, state, digest = "", b"", b""
        try:
            state, digest = b"".join(snapshot.pieces()), snapshot.digest()
        except NotCapturable as error:
            self._refused = str(error)
        self._running = (Captured(snapshot.position, state), digest, then)
        return True

    def end(self, why: str = "") -> None:
        """The copy that runs ends; *why* it failed, if it did."""
        if self._running is not None:
            (captured, digest, then), self._running = self._running, None
            refused = NotCopied(why) if why else NotCopied(self._refused, is_of_state=True)
            self._written = None if refused.why else captured
            then(refused if refused.why else Copied(len(captured.state), digest))

    def keep(self, then: Callable[[bool], None]) -> None:
        captured, self._written = self._written, None
        assert captured is not None, "only what was copied is kept"
        is_newer = captured.position >= self._member.floor
        if is_newer:
            self._member.keep(captured)
        then(is_newer)

    def drop(self) -> None:
        self._running = self._written = None


class FakeOldCode:
    """Processes with code that a member keeps: they work when a schedule says so, and end with it."""

    def __init__(self, member: "FakeMember", kept: list[Definition]) -> None:
        self.kept = kept
        self.began: list[tuple[str, Position, Position]] = []
        """Each time: by what code, after which checkpoint, up to where."""
        self._member = member
        self._running: Callable[[], None] | None = None
        self._written: Captured | None = None

    def is_kept(self, code: Code) -> bool:
        return any(each.code.is_same(code) for each in self.kept)

    def begin(
        self,
        code: Code,
        kept: Kept | None,
        records: Iterator[Stored],
        up_to: Position,
        then: Callable[[Copied | NotCopied | Waits], None],
        by: Code | None = None,
    ) -> bool:
        assert self._written is None
        if self._running is not None:
            return False
        (definition,) = (each for each in self.kept if each.code.is_same(by or code))
        definition, is_stand_in = replace(definition, code=code), by is not None and not by.is_same(code)
        given = list(records)
        assert given[-1].last == up_to
        self.began.append((str(code), kept.position if kept is not None else Position(0), up_to))

        def work() -> None:
            try:
                found = continued(definition, kept, given, is_stand_in=is_stand_in)
            except Exception as error:
                then(NotCopied(repr(error)))
                return
            if isinstance(found, Waits):
                then(found)
            else:
                assert found.position == up_to
                self._written = Captured(up_to, found.save())
                then(Copied(len(self._written.state), b""))

        self._running = work
        return True

    def end(self) -> None:
        """The process that runs comes to its end."""
        if self._running is not None:
            work, self._running = self._running, None
            work()

    def keep(self, then: Callable[[bool], None]) -> None:
        captured, self._written = self._written, None
        assert captured is not None
        self._member.keep(captured)
        then(True)

    def drop(self) -> None:
        self._running = self._written = None


class FakeSlow:
    """Slow methods of one process: computed when a schedule says so, and lost with the process."""

    def __init__(self) -> None:
        self.under_way: list[tuple[Callable[[], bytes], Callable[[bytes], None]]] = []
        self.begun = 0

    def run(self, work: Callable[[], bytes], then: Callable[[bytes], None]) -> None:
        self.begun += 1
        self.under_way.append((work, then))

    def end(self) -> None:
        """Those that are under way come to their end."""
        under_way, self.under_way = self.under_way, []
        for work, then in under_way:
            then(work())


class FakePeers:
    """What one member tells the others: delivered when a schedule says so."""

    def __init__(self, group: "FakeGroup", host: HostId) -> None:
        self._group = group
        self.me = ViewMember(host=host, store=StoreId(host), incarnation=Incarnation(1), opening=Opening(1))

    @property
    def epoch(self) -> Epoch:
        return self._group.epoch

    def peers(self) -> tuple[Peer, ...]:
        others = [HostId(name) for name in self._group.members if name != self.me.host]
        return tuple(Peer(host, True, host in self._group.replicas) for host in others)

    def tell(self, host: HostId, part: str, body: bytes) -> bool:
        message = PeerMessage(GroupId(1), self.epoch, self.me.incarnation, part, body)
        self._group.peer_messages.append((self.me.host, host, message))
        return True


@dataclass
class FakeMember:
    """One member's sequence and disk."""

    group: "FakeGroup"
    name: str
    log: list[Stored] = field(default_factory=list)
    floor: Position = ORIGIN.position
    committed: Position = ORIGIN.position
    flushed: Position = ORIGIN.position
    """What a primary has ordered beyond this has not left it yet."""
    is_serving: bool = False
    checkpoint: Kept | None = None
    keeps_two: bool = False
    """Whether the log reaches back to the checkpoint before the newest, as hosts' logs do."""
    short_logs: list[HostId] = field(default_factory=list)
    """The members that say that their log is short."""
    may: bool = True
    """Whether the leases allow reading (R1)."""
    asked: list[Callable[[bool], None]] = field(default_factory=list)
    refuses: Rejected | None = None
    """Raised by the next submissions."""
    damage: Corruption | None = None
    """Raised by every read."""
    log_bytes_max: int = 1 << 40
    lacks_space: Callable[[], HostId | None] = lambda: None
    is_short: bool = False
    """Whether its own host lacks disk space."""
    unreadable: int = 0
    """How many of the next reads fail for the moment."""
    read_from: list[Position] = field(default_factory=list)
    """Where each read has begun."""
    peer_messages: FakePeers = field(init=False)

    def __post_init__(self) -> None:
        self.peer_messages = FakePeers(self.group, HostId(self.name))

    @property
    def tail(self) -> Position:
        return self.log[-1].last if self.log else self.floor

    @property
    def log_bytes(self) -> int:
        return sum(len(record.body) for record in self.log)

    @property
    def own_log_bytes(self) -> int:
        return self.log_bytes

    def successors(self, log_below: int | None = None) -> list[HostId]:
        return self.short_logs if log_below is not None else [HostId("b"), HostId("c")]

    def submit(self, body: bytes, count: int = 1) -> Position:
        if not self.is_serving:
            raise Unavailable("not serving")
        if self.refuses is not None:
            raise self.refuses
        if len(body) > RECORD_BYTES_MAX:
            raise InvalidRequest(f"a record of {len(body)} bytes; at most {RECORD_BYTES_MAX}")
        if self.log_bytes + len(body) > self.log_bytes_max:
            raise Overloaded("the log is full")
        first = Position(self.tail + 1)
        self.log.append(Stored(GroupId(1), self.group.epoch, first, count, 0, 0, body))
        return self.tail

    def flush(self) -> None:
        self.flushed = self.tail

    def read(self, first: Position, last: Position) -> list[Stored]:
        assert first > self.floor, "records below the floor are pruned"
        self.read_from.append(first)
        if self.damage is not None:
            raise self.damage
        if self.unreadable:
            self.unreadable -= 1
            raise Overloaded("records wait for a new file of the log")
        return [record for record in self.log if record.first <= last and record.last >= first]

    def hand_over(self, to: HostId, why: str = "") -> None:
        self.group.handed_over.append((self.name, to, why))

    def may_read(self) -> bool:
        return self.may

    def confirm_read(self, then: Callable[[bool], None]) -> None:
        self.asked.append(then)

    def keep(self, captured: Captured) -> None:
        assert captured.position <= self.committed, "only what is final becomes a checkpoint"
        older = self.checkpoint.position if self.checkpoint is not None else ORIGIN.position
        self.checkpoint = captured
        self.floor = older if self.keeps_two else captured.position
        self.log = [record for record in self.log if record.last > self.floor]


class FakeGroup:
    """Three members, one of them primary, all in sync unless they are down."""

    trace: Trace = NoTrace()
    onlooker: CallObserver | None = None
    """Of the member that is started next."""
    is_slow_apart = False
    """Whether slow methods run beside the rest, and end when a schedule says so."""

    def __init__(self, style: str, definition: Definition, config: StyleConfig, names: str = "abc") -> None:
        self.style, self.definition, self.config = style, definition, config
        self.clock = FakeClock()
        self.epoch = Epoch(1)
        self.answers: list[tuple[Token, list[int], list[bytes]]] = []
        self.forsaken: list[Token] = []
        self.woken: list[str] = []
        self.outgoing: list[tuple[str, Outgoing]] = []
        self.passed_on: list[tuple[str, str]] = []
        """Members that cannot serve, and why."""
        self.passed_below: list[int | None] = []
        """How long the log of the next one may be, of each of these."""
        self.handed_over: list[tuple[str, HostId, str]] = []
        """Who handed over, to whom, and why."""
        self.peer_messages: list[tuple[HostId, HostId, PeerMessage]] = []
        """What members told each other and has not arrived: from whom, to whom, what."""
        self.faults: list[tuple[str, str, str]] = []
        self.attempts = {name: CrashSuspicions() for name in names}
        """What each knows of calls that ended processes."""
        self.told: list[tuple[str, str, dict[str, object]]] = []
        """Lines about single calls: whose, the event, its fields."""
        self.sequence = 0
        self.final: list[Stored] = []
        """Everything that was ever committed, in order."""
        self.members = {name: FakeMember(self, name) for name in names}
        self.ports: dict[str, StylePorts] = {}
        self.replicas: dict[str, Replica] = {}
        self.copies: dict[str, FakeCopies] = {}
        self.slow: dict[str, FakeSlow] = {}
        self.classes: dict[str, Definition] = {}
        """Of members whose class is another than the group's first."""
        self.kept_classes: dict[str, list[Definition]] = {name: [] for name in names}
        self.old_code: dict[str, FakeOldCode] = {}
        self.why_not_upgrade: Callable[[Code], str] = lambda _: ""
        self.may_replay: Callable[[Code], bool] = lambda _: False
        self.primary = names[0]
        for name in names:
            self.start(name)
        self.members[self.primary].is_serving = True
        self.replicas[self.primary].on_serving(self.epoch)

    # --- processes

    def start(self, name: str) -> Replica:
        """A new process of this member, on its disk."""
        member = self.members[name]
        self.copies[name] = FakeCopies(member)
        self.slow[name] = FakeSlow()
        self.old_code[name] = FakeOldCode(member, self.kept_classes[name])
        ports = self.ports[name] = StylePorts(
            self.clock,
            self.trace,
            self.stamp,
            self.clock.wall,
            lambda token, numbers, outcomes: self.answers.append((token, numbers, outcomes)),
            self.forsaken.append,
            lambda: self.woken.append(name),
            lambda: self.woken.append(name),
            lambda outgoing: self.outgoing.append((name, outgoing)),
            lambda: member.checkpoint,
            member.keep,
            partial(self._pass_on, name),
            lambda kind, text: self.faults.append((name, kind, text)),
            self.copies[name],
            self.attempts[name],
            CallLog(partial(self._say, name), self.clock),
            self.onlooker,
            self.old_code[name],
            lambda code: self.why_not_upgrade(code),
            lambda code: self.may_replay(code),
            slow=self.slow[name] if self.is_slow_apart else None,
            lacks_space=lambda: member.is_short,
        )
        definition = self.classes.get(name, self.definition)
        replica = self.replicas[name] = STYLES[self.style](definition, ports, self.config)
        replica.bind(member)
        member.is_serving = False
        member.asked.clear()
        # A process knows only of its checkpoint that it is committed, until somebody tells it more.
        member.committed = member.floor
        if member.checkpoint is not None:
            replica.install(member.checkpoint)
        return replica

    def _pass_on(
        self, name: str, why: str, /, *, log_below: int | None = None, is_trial: bool = False
    ) -> None:
        self.passed_on.append((name, why))
        self.passed_below.append(log_below)

    def _say(self, name: str, event: str, **fields: object) -> None:
        self.told.append((name, event, fields))

    def stamp(self, after: Csn, now_s: int) -> Csn:
        self.sequence += 1
        time_s = max(self.clock.wall() // SECOND, after.timestamp)
        found = Csn(time_s, self.sequence % 65536, ReplicaId(1))
        return found if found > after else Csn(after.timestamp + 1, 0, ReplicaId(1))

    def deliver(self) -> None:
        """Everything that members told each other arrives."""
        told, self.peer_messages = self.peer_messages, []
        for peer, host, message in told:
            if host in self.replicas:
                self.replicas[host].on_peer_message(peer, message)
                self.woken.append(host)

    def crash(self, name: str) -> None:
        self.replicas.pop(name)
        self.members[name].is_serving = False

    def restart(self, name: str, *, is_wiped: bool = False) -> None:
        """Come back as a learner, agree on the tail, catch up, be in sync."""
        member, primary = self.members[name], self.members[self.primary]
        if is_wiped:
            member = self.members[name] = FakeMember(self, name)
        replica = self.start(name)
        kept = self.agreed(member)
        known = kept[-1].last if kept else member.floor
        if known < primary.floor:
            captured = self.replicas[self.primary].capture()
            member.checkpoint, member.floor, kept = captured, captured.position, []
            known = member.committed = captured.position
            replica.install(captured)
        member.log = kept + [record for record in primary.log if record.first > known]

    # --- the sequence

    def agreed(self, member: FakeMember) -> list[Stored]:
        """What a member holds and the primary stands by: what is in its log, and what it pruned (M3)."""
        primary = self.members[self.primary]
        return [record for record in member.log if record in primary.log or record in self.final]

    def replicate(self, name: str) -> None:
        member, primary = self.members[name], self.members[self.primary]
        member.log += [
            record for record in primary.log if record.first > member.tail and record.last <= primary.flushed
        ]

    def commit(self) -> None:
        """The primary commits what all that are up hold."""
        backups = [self.members[name].tail for name in self.replicas if name != self.primary]
        held = min(self.members[self.primary].flushed, *backups, self.members[self.primary].tail)
        self.tell_commit(self.primary, held)

    def tell_commit(self, name: str, up_to: Position) -> None:
        member = self.members[name]
        if up_to > member.committed:
            done = self.final[-1].last if self.final else 0
            self.final += [each for each in member.log if done < each.first and each.last <= up_to]
            member.committed = up_to
            self.replicas[name].on_committed(up_to)

    def fail_over(self, to: str, *, is_crash: bool) -> None:
        """The primary dies or loses its epoch; *to* takes over with what it holds."""
        old, new = self.primary, self.members[to]
        if is_crash:
            self.crash(old)
        else:
            self.members[old].is_serving = False
        self.epoch = Epoch(self.epoch + 1)
        self.primary = to
        tail = new.tail
        for name in self.replicas:
            member = self.members[name]
            if name != to:
                member.log = self.agreed(member)
                member.log += [record for record in new.log if record.first > member.tail]
        if not is_crash:
            self.replicas[old].on_following()
        self.tell_commit(to, tail)
        new.is_serving, new.flushed = True, tail
        self.replicas[to].on_serving(self.epoch)

    def wake(self) -> None:
        """Give everybody the turns it asked for."""
        for _ in range(10_000):
            if not self.woken:
                return
            woken, self.woken = self.woken, []
            for name in dict.fromkeys(woken):
                if name in self.replicas:
                    self.replicas[name].turn()
        raise AssertionError("somebody asks to be woken for ever")

    def settle(self) -> None:
        """Replicate and commit everything, everywhere, until nothing more happens."""
        for _ in range(100):
            self.wake()
            self.replicas[self.primary].turn()
            before = self.members[self.primary].tail
            for name in self.replicas:
                self.replicate(name)
            self.commit()
            for name in self.replicas:
                self.tell_commit(name, self.members[self.primary].committed)
            self.replicas[self.primary].turn()
            if self.members[self.primary].tail == before and not self.outgoing:
                return
            if self.outgoing:
                return
