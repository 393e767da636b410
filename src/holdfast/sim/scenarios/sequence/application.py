"""A replicated list of tokens, its clients, and the scenario's messages with their codec.

Every member executes what is committed, and the primary answers. Calls are gathered for a moment and
submitted as one record. The retention table ensures exactly-once execution
(:class:`holdfast.sequence.retention.Retention`): a repetition that was ordered again is recognised when it is
executed, by the same rule on every member.

A client appends unique tokens and reads, one operation at a time, and repeats a request under the same
number.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.authority.wire import ClientMessage, ServerMessage
from holdfast.model.errors import HoldfastError, Overloaded
from holdfast.model.ids import ClientId, Epoch, GroupId, HostId, Position
from holdfast.sequence.member import Member
from holdfast.sequence.messages import PeerMessage, SequenceMessage
from holdfast.sequence.ports import Captured, Kept, chunks_of
from holdfast.sequence.retention import Fresh, Repeated, Retention
from holdfast.sequence.role import FAR, NEAR, Fitness
from holdfast.sim.checkers import Append, Handle, Read
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.scenarios.sequence.observer import Book, key_of
from holdfast.sim.scenarios.sequence.peer_talk import PeerTalk
from holdfast.storage.record import ORIGIN, Record


class Ask(Struct, frozen=True, array_like=True, tag="call"):
    """A request to append *token*, or to read the list when it is empty."""

    group: GroupId
    client: ClientId
    number: int
    token: str


class Reply(Struct, frozen=True, array_like=True, tag="reply"):
    group: GroupId
    number: int
    place: int
    tokens: tuple[str, ...]


class Elsewhere(Struct, frozen=True, array_like=True, tag="elsewhere"):
    """The answer of a host that does not serve the group; *primary* is the host that might, if known."""

    group: GroupId
    number: int
    primary: str


Message = ClientMessage | ServerMessage | SequenceMessage | Ask | Reply | Elsewhere
_decoder: Final = msgspec.msgpack.Decoder(Message)


class Codec:
    """Encodes every message as production sends it over the network."""

    def encode(self, message: object) -> bytes:
        return msgspec.msgpack.encode(message)

    def decode(self, data: bytes) -> object:
        return _decoder.decode(data)


CHUNK_BYTES: Final = 600
"""The chunk size of a state that is sent to a learner: small, so that there are several chunks."""
EXPIRATION_S: Final = 1 << 31
CHECKPOINT_EVERY: Final = 25
BURSTS: Final = 0.04
BURST_RECORDS: Final = 20
_NOTHING: Final = msgspec.msgpack.encode([])


class _Saved(Struct, frozen=True, array_like=True):
    tokens: tuple[str, ...]
    table: bytes
    digest: bytes


class TokenList:
    """One member's copy of the list."""

    member: Member

    def __init__(
        self,
        group: GroupId,
        process: str,
        book: Book,
        *,
        send: Callable[[str, object], None],
        later: Callable[[], None],
        rng: random.Random,
        talk: PeerTalk,
    ) -> None:
        """*later* requests that :meth:`turn` be called in a moment."""
        self.group = group
        self.tokens: list[str] = []
        self.applied = Position(0)
        self.checkpointed = Position(0)
        self._process = process
        self._book = book
        self._send = send
        self._later = later
        self._rng = rng
        self._table = Retention()
        self._digest = b""
        self._gathered: list[Ask] = []
        self._waiting: dict[tuple[ClientId, int], str] = {}
        self._talk = talk

    # --- the sequence

    def on_serving(self, epoch: Epoch) -> None:
        self._book.serving(self.group, epoch, self._process, len(self.member.standing.listed))

    def on_claiming(self) -> None:
        return

    def on_following(self) -> None:
        self._gathered.clear()
        self._waiting.clear()

    def on_committed(self, up_to: Position) -> None:
        if self.member.standing.own_entry is not None:
            self._book.is_listed(self.group, self._process)
        self.catch_up()
        self._talk.maybe_ask(self.member)

    def capture(self, at_least: Position = ORIGIN.position) -> Captured:
        return Captured(self.applied, self._save(), CHUNK_BYTES)

    def install(self, kept: Kept) -> None:
        saved = msgspec.msgpack.decode(b"".join(chunks_of(kept)), type=_Saved)
        position = kept.position
        self.tokens = list(saved.tokens)
        self._table = Retention.load(saved.table)
        self._digest = saved.digest
        self.applied = self.checkpointed = position
        self._book.took_state(self.group, self._process, self.member.primary)
        self._book.applied(self.group, self._generation(), position, self._digest, self._process)

    def keeps(self, kept: Kept) -> None:
        return None

    @property
    def is_ready(self) -> bool:
        return self.member.is_serving

    def fitness(self) -> Fitness:
        """Return the fitness as if a state that was just kept or installed still had to be loaded."""
        return NEAR if not self.applied or self.applied > self.checkpointed else FAR

    def on_forced(self) -> None:
        return

    def on_peer_message(self, peer: HostId, message: PeerMessage) -> None:
        self._talk.on_peer_message(self.member, peer, message)

    def catch_up(self) -> None:
        """Execute what is committed and not yet executed."""
        member = self.member
        if self.applied < member.committed:
            try:
                records = member.read(Position(self.applied + 1), member.committed)
            except Overloaded:
                self._later()
                return
            for record in records:
                self._execute(record)

    def _execute(self, record: Record) -> None:
        for call in msgspec.msgpack.decode(record.body, type=list[Ask]):
            verdict = self._table.judge(call.client, call.number, EXPIRATION_S)
            if isinstance(verdict, Fresh):
                self._table.begin(call.client, call.number, record.first, EXPIRATION_S)
                self.tokens.append(call.token)
                self._table.finish(call.client, call.number, str(len(self.tokens)).encode())
                self._table.raise_floor(call.client, call.number, EXPIRATION_S)
        self._digest = blake2b(self._digest + record.body, digest_size=16).digest()
        self.applied = record.last
        self._book.applied(self.group, self._generation(), self.applied, self._digest, self._process)
        for call in msgspec.msgpack.decode(record.body, type=list[Ask]):
            client = self._waiting.pop((call.client, call.number), None)
            if client is not None:
                self._answer(client, call)

    def _generation(self) -> Epoch:
        view = self.member.standing.view
        return view.generation if view is not None else Epoch(0)

    def _save(self) -> bytes:
        return msgspec.msgpack.encode(_Saved(tuple(self.tokens), self._table.save(), self._digest))

    def due_checkpoint(self) -> Captured | None:
        """Return the state when enough has happened since the last checkpoint, otherwise None."""
        if self.applied - self.checkpointed < CHECKPOINT_EVERY:
            return None
        self.checkpointed = self.applied
        return self.capture()

    # --- the clients

    def on_ask(self, client: str, ask: Ask) -> None:
        if not self.member.is_serving:
            self._elsewhere(client, ask)
        elif not ask.token:
            self._read(client, ask)
        elif not isinstance(self._table.judge(ask.client, ask.number, EXPIRATION_S), Fresh):
            self._answer(client, ask)
        elif (ask.client, ask.number) not in self._waiting:
            self._waiting[ask.client, ask.number] = client
            self._gathered.append(ask)
            self._later()

    def turn(self) -> None:
        """Submit the gathered calls."""
        self.catch_up()
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        try:
            self.member.submit(msgspec.msgpack.encode(gathered), len(gathered))
            self._maybe_burst()
            self.member.flush()
        except HoldfastError:
            for ask in gathered:
                client = self._waiting.pop((ask.client, ask.number))
                self._elsewhere(client, ask)

    def _maybe_burst(self) -> None:
        """Occasionally order many records without calls, so that members differ by more than a few."""
        if self._rng.random() < BURSTS:
            for _ in range(BURST_RECORDS):
                self.member.submit(_NOTHING)

    def pour(self, records: int) -> None:
        """Order that many records without calls, as far as there is room."""
        if self.member.is_serving:
            with suppress(Overloaded):
                for _ in range(records):
                    self.member.submit(_NOTHING)
            self.member.flush()

    def _answer(self, client: str, ask: Ask) -> None:
        verdict = self._table.judge(ask.client, ask.number, EXPIRATION_S)
        if isinstance(verdict, Repeated):
            self._send(client, Reply(self.group, ask.number, int(verdict.reply), ()))

    def _read(self, client: str, ask: Ask) -> None:
        if self.applied != self.member.committed:
            return
        reply = Reply(self.group, ask.number, 0, tuple(self.tokens))
        world = self._book.world
        if self.member.may_read():
            world.sometimes("a read under leases")
            self._send(client, reply)
            return

        def confirmed(stands: bool) -> None:
            if stands:
                world.sometimes("a read confirmed by the authority")
                self._send(client, reply)
            else:
                self._elsewhere(client, ask)

        self.member.confirm_read(confirmed)

    def _elsewhere(self, client: str, ask: Ask) -> None:
        primary = self.member.primary or ""
        self._send(client, Elsewhere(self.group, ask.number, "" if self.member.is_serving else primary))


RETRY_NS: Final = 120 * MILLISECOND
GIVE_UP_NS: Final = 6 * SECOND
THINK_NS: Final = 40 * MILLISECOND
READS: Final = 0.4
WANDERS: Final = 0.25
"""The probability that a client tries a host other than the one that answered last: perhaps an old
primary."""


class Client:
    """One client of one group."""

    def __init__(self, ports: NodePorts, book: Book, hosts: tuple[str, ...], group: GroupId) -> None:
        self._ports = ports
        self._book = book
        self._hosts = hosts
        self.group = group
        self._rng = ports.random.stream("client")
        self._guess = self._rng.choice(hosts)
        self._timers = ports.timers(self._on_timer)
        self._number = 0
        self._ask: Ask | None = None
        self._handle = Handle(0)
        self._began = 0
        self._tries = 0
        self._reads_at = ""
        self._reads_there_until = 0
        self._timers.set(THINK_NS, "next")

    def read_at(self, host: str, for_ns: int) -> None:
        """For that time, begin only reads, and only at *host*; an append in progress continues."""
        self._reads_at, self._reads_there_until = host, self._ports.clock.now() + for_ns

    def _on_timer(self, tag: object) -> None:
        if tag == "next":
            self._begin()
        elif tag == self._tries and self._ask is not None:
            if self._ports.clock.now() - self._began > GIVE_UP_NS:
                self._book.history.unknown(self._handle)
                self._rest()
            else:
                bound_to = "" if self._ask.token else self._bound_to()
                self._guess = bound_to or self._rng.choice(self._hosts)
                self._send()

    def _begin(self) -> None:
        if self._book.is_ending:
            return
        self._number += 1
        client = ClientId(f"{self._ports.name}#{self._ports.incarnation}")
        bound_to = self._bound_to()
        is_read = bool(bound_to) or self._rng.random() < READS
        token = "" if is_read else f"{client}/{self._number}"
        self._ask = Ask(self.group, client, self._number, token)
        request = Read() if is_read else Append(token)
        self._handle = self._book.history.begin(client, key_of(self.group), request)
        self._began = self._ports.clock.now()
        if bound_to:
            self._guess = bound_to
        elif self._rng.random() < WANDERS:
            self._guess = self._rng.choice(self._hosts)
        self._send()

    def _send(self) -> None:
        assert self._ask is not None
        self._tries += 1
        self._ports.network.send(self._guess, self._ask)
        self._timers.set(RETRY_NS, self._tries)

    def on_message(self, peer: str, message: object) -> None:
        ask = self._ask
        if ask is None or not isinstance(message, Reply | Elsewhere) or message.number != ask.number:
            return
        if isinstance(message, Reply):
            self._book.history.ok(self._handle, message.place if ask.token else message.tokens)
            self._book.done(ask.group)
            self._rest()
        elif not ask.token and self._bound_to():
            pass  # it asks the same host again
        elif message.primary and message.primary != peer and self._guess == peer:
            self._guess = message.primary
            self._send()

    def _bound_to(self) -> str:
        """Return the only host that the client reads at; empty while it may read anywhere."""
        return self._reads_at if self._ports.clock.now() < self._reads_there_until else ""

    def _rest(self) -> None:
        self._ask = None
        self._timers.set(int(self._rng.expovariate(1.0) * THINK_NS) + 1, "next")
