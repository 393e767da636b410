"""A host's process whose groups take part in streams: the production host, with sources for its input."""

from dataclasses import replace
from functools import partial

from holdfast.authority.groups import GroupRecord
from holdfast.execution.annex import AnnexOperation, AnnexPorts
from holdfast.execution.definition import Definition
from holdfast.groups.hosted_group import HostedGroup
from holdfast.model.errors import Unavailable
from holdfast.model.ids import GroupId, HostId
from holdfast.model.outcome import Outcome
from holdfast.sequence.messages import PeerMessage
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.groups.host import Host
from holdfast.sim.scenarios.groups.observer import Book
from holdfast.sim.scenarios.groups.setup import Stage
from holdfast.sim.scenarios.streams.books import class_of
from holdfast.sim.scenarios.streams.deciders import JudgeAtHost
from holdfast.sim.scenarios.streams.keeping import KeepWatch
from holdfast.sim.scenarios.streams.observer import Key, StreamBook
from holdfast.sim.scenarios.streams.sources import SourceStore
from holdfast.streams.annex import Streams
from holdfast.streams.annex import streams_of as made_streams
from holdfast.streams.delivering import StreamState
from holdfast.streams.handlers import Handlers
from holdfast.streams.peers import Status, decode_told
from holdfast.streams.records import Ordered


def definition_of(record: GroupRecord) -> Definition:
    """The definition of a group, as hosts have it (:mod:`holdfast.app_code.loader`)."""
    cls = class_of(record.class_name)
    return Definition(
        group=record.name,
        cls=cls,
        fresh=cls,
        created_ns=record.created_ns,
        annexes=(made,) if (made := made_streams(record, cls)) is not None else (),
    )


class WatchedStreams(Streams):
    """Streams that tell the observer what is applied."""

    def __init__(self, handlers: Handlers, record: GroupRecord, host: "StreamHost", book: StreamBook) -> None:
        super().__init__(handlers)
        self._record, self._host, self.book = record, host, book
        self._watch = KeepWatch(self)

    def bind(self, ports: AnnexPorts) -> None:
        super().bind(replace(ports, query=partial(self._query, ports)))

    def on_message(self, peer: HostId, message: PeerMessage) -> None:
        super().on_message(peer, message)
        told = decode_told(message.body)
        if isinstance(told, Status):
            self._watch.on_status(peer, told)

    def turn(self) -> None:
        super().turn()
        self._watch.look()

    def _query(self, ports: AnnexPorts, method: str, arguments: tuple[object, ...]) -> Outcome | None:
        """Require that ``on_loss`` changes nothing."""
        before = self._host.digest(self.group)
        outcome = ports.query(method, arguments)
        self.book.world.sometimes(f"an application was asked: {'not now' if outcome is None else 'answered'}")
        if self._host.digest(self.group) != before:
            self.book.world.violation("LOSS-92", f"{self._record.name}: {method} changed the object")
        return outcome

    def state(self) -> StreamState:
        return _WatchedState(self)

    def observe(self, ordered: Ordered, lacking: set[Key]) -> None:
        self.book.on_applied(self._record, self._host.process, ordered, lacking)

    @property
    def group(self) -> GroupId:
        return self._record.group

    @property
    def process(self) -> str:
        return f"{self._record.name} on {self._host.process}"


class _WatchedState(StreamState):
    def apply(self, operation: AnnexOperation) -> None:
        ordered = self._decoded(operation.body)
        before = len(self.ledger.lacked)
        streams = self._streams
        assert isinstance(streams, WatchedStreams)
        has_given_up = streams.is_bound and streams.has_given_up(operation.body)
        super().apply(operation)
        lacking: set[Key] = {
            (streams.group, each.origin.stream, each.origin.incarnation, number)
            for each in self.ledger.lacked[before:]
            for number in range(each.first, each.last + 1)
        }
        if lacking and not has_given_up:
            streams.book.world.violation(
                "O1", f"{operation.first} is applied, and {min(lacking)} is not here"
            )
        if lacking:
            streams.book.world.sometimes("a leader went on without ordered content")
            streams.book.gave_up[streams.group] = None
        streams.observe(ordered, lacking)


class StreamHost(Host):
    """One process of one host."""

    def __init__(self, ports: NodePorts, book: Book, stage: Stage, streams: StreamBook) -> None:
        self._stream_book = streams
        super().__init__(ports, book, stage)

    def _define(self, record: GroupRecord) -> Definition:
        definition = definition_of(record)
        (streams,) = definition.annexes
        assert isinstance(streams, Streams)
        watched = WatchedStreams(streams.handlers, record, self, self._stream_book)
        made = definition.fresh

        def fresh() -> object:
            found = made()
            self.book.health.made(found, self._name, record.style)
            return found

        return replace(definition, annexes=(watched,), fresh=fresh)

    @property
    def process(self) -> str:
        return f"{self._name}#{self._ports.incarnation}"

    def digest(self, group: GroupId) -> bytes | None:
        """The digest of the group's object here, if there is one."""
        hosted = self.groups.hosted.get(group) if self.groups is not None else None
        execution = hosted.replica.execution if hosted is not None else None
        return execution.digest() if execution is not None and execution.is_at_rest else None

    def streams(self, group: GroupId) -> Streams | None:
        """The streams of the member of that group, which are bound to their source the first time."""
        hosted = self.groups.hosted.get(group) if self.groups is not None else None
        if hosted is None:
            return None
        found = streams_of(hosted)
        if found is not None and found.places.source is None:
            judge = self._stream_book.judges.get(group)
            found.connect(
                source=SourceStore(self.book.world, self._name, self._stream_book.sources),
                decider=None if judge is None else JudgeAtHost(self._name, judge, found),
            )
        return found

    def be_deaf(self, index: int, messages: int) -> bool:
        """Get no more messages of a stream, for so many of them."""
        sources = list(self._stream_book.sources.values())
        sources[index % len(sources)].deaf[self._name] = messages
        return True

    def _on_fault(self, group: GroupId, kind: str, what: str) -> None:
        # A member that delivered what its leader had to go on without differs from it, and is told so.
        is_meant = kind == "message_loss" or (kind == "divergence" and group in self._stream_book.gave_up)
        if not is_meant:
            super()._on_fault(group, kind, what)


def streams_of(hosted: HostedGroup) -> Streams | None:
    try:
        found = hosted.replica.annexes.get("streams")
    except Unavailable:
        return None
    return found if isinstance(found, Streams) and found.is_bound else None


def streams_at(world: World, group: GroupId, host: HostId) -> Streams | None:
    """The streams of the member of a group on that host, if it is there."""
    core: StreamHost | None = world.nodes[host].core
    return core.streams(group) if core is not None else None


def finder(world: World, group: GroupId) -> partial[Streams | None]:
    return partial(streams_at, world, group)
