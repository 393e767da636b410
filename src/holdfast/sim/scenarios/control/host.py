"""A host's process with its session, archive, manager and context; and the scenario's messages and codec.

By default the context is a list of tokens. The messages are those between clients and hosts; the codec covers
all messages of the scenario.
"""

import itertools
from collections.abc import Callable, Hashable
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.authority import keys, sessions
from holdfast.authority.contract import (
    Compacted,
    Events,
    LeaseGone,
    LeaseGrant,
    LeaseGranted,
    LeaseKeep,
    Result,
    WatchEvent,
)
from holdfast.authority.control_records import TermRecord, read_standing
from holdfast.authority.election import elect
from holdfast.authority.recipe import Recipe, Recipes, Seen, answering
from holdfast.authority.sessions import Session
from holdfast.authority.wire import ClientMessage, ServerMessage
from holdfast.control.coordination.config import ControlConfig
from holdfast.control.coordination.messages import Message as ControlMessage
from holdfast.control.coordination.participant import Manager, NotCoordinator
from holdfast.control.coordination.ports import Accepted, ControlPorts, Failed, Outcome, ParticipantRole
from holdfast.control.coordination.state_file import Context, StateFile, Then
from holdfast.model.errors import HoldfastError, InvalidRequest, Overloaded
from holdfast.model.ids import MILLISECOND, SECOND, HostId, Incarnation, LeaseId, Nonce, Revision, Term
from holdfast.model.ports import Disk, Token
from holdfast.sequence.messages import Died
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.scenarios.authority.server import authority_client
from holdfast.sim.scenarios.control.observer import Book, tokens_of


class TokenRequest(Struct, frozen=True, array_like=True, tag="wish"):
    """A client's request that *token* be added to the context."""

    token: str


class Said(Struct, frozen=True, array_like=True, tag="said"):
    """The answer to a request.

    *what* is ``accepted``, ``failed`` or ``unsettled``; or ``elsewhere``, with *coordinator*.
    """

    token: str
    what: str
    cas: int = 0
    coordinator: str = ""


Message = ClientMessage | ServerMessage | ControlMessage | Died | TokenRequest | Said
_decoder: Final = msgspec.msgpack.Decoder(Message)


class Codec:
    """Encodes every message as production sends it over the network."""

    def encode(self, message: object) -> bytes:
        return msgspec.msgpack.encode(message)

    def decode(self, data: bytes) -> object:
        return _decoder.decode(data)


DIRECTORY: Final = "control"
LEASE_SECONDS: Final = 2
KEEP_NS: Final = LEASE_SECONDS * SECOND // 3
CONFIG: Final = ControlConfig(
    beat_ns=60 * MILLISECOND,
    silence_ns=500 * MILLISECOND,
    prepare_ns=300 * MILLISECOND,
    retry_ns=40 * MILLISECOND,
    poll_ns=250 * MILLISECOND,
    isolation_ns=1200 * MILLISECOND,
    changes_max=5,
    patience_ns=2 * SECOND,
)
BAD: Final = "bad "
"""The prefix of tokens that no context accepts."""


Apply = Callable[[bytes, bytes], tuple[bytes, bytes]]


def add_token(body: bytes, change: bytes) -> tuple[bytes, bytes]:
    """Add a token to a context that is a list of unique tokens."""
    token, tokens = change.decode(), tokens_of(body)
    if token.startswith(BAD):
        raise InvalidRequest("no context takes this")
    return msgspec.msgpack.encode([*tokens, token]), b"%d" % len(tokens)


class Observed:
    """The application of the context: it calls *apply* and reports the results to the book."""

    def __init__(self, host: "Host", apply: Apply) -> None:
        self.host = host
        self._apply = apply

    def apply(self, body: bytes, change: bytes) -> tuple[bytes, bytes]:
        return self._apply(body, change)

    def on_context(self, context: Context) -> None:
        self.host.book.holds(context, self.host.process)

    def on_role(self, role: ParticipantRole, term: Term) -> None:
        self.host.book.takes_role(role, term, self.host.process)


class ObservedArchive(StateFile):
    """An archive that reports to the book what becomes durable."""

    def __init__(self, host: "Host", disk: Disk, on_failed: Callable[[HoldfastError], None]) -> None:
        super().__init__(disk, on_failed)
        self._host = host

    def keep_log(self, proposed: Context, then: Then) -> None:
        def kept() -> None:
            self._host.book.logged(self._host.name, proposed.cas)
            then()

        super().keep_log(proposed, kept)

    def promote(self, cas: int, then: Then) -> None:
        def promoted() -> None:
            self._host.book.holds(self.context, self._host.process)
            then()

        super().promote(cas, promoted)

    def drop_log(self, then: Then) -> None:
        if self.log is not None:
            self._host.book.dropped(self.log.cas, self._host.process)
        super().drop_log(then)


class Host:
    """The process of one host, from its start to its end."""

    def __init__(
        self, ports: NodePorts, book: Book, config: ControlConfig = CONFIG, apply: Apply = add_token
    ) -> None:
        self.book = book
        self.process = f"{ports.name}#{ports.incarnation}"
        self.manager: Manager | None = None
        self.archive: StateFile | None = None
        self.incarnation: Incarnation | None = None
        self.ports = ports
        self.name = HostId(ports.name)
        self._config, self._apply = config, apply
        self._nonces = itertools.count(1)
        self._lease = LeaseId(0)
        self._timers = ports.timers(self._on_timer)
        self._client = authority_client(
            ports, lambda token, result: self._on_authority(token, result), self._on_watch
        )
        self._recipes = Recipes(self._client)
        self._client.start()
        self._recipes.start(self._open(), self._opened)

    @property
    def is_coordinating(self) -> bool:
        return self.manager is not None and self.manager.role is ParticipantRole.COORDINATOR

    def elect(self) -> None:
        """Begin a new term, as an impatient host would."""

        def elect_anyway() -> Recipe[None]:
            standing = yield from read_standing()
            yield from elect(standing.current_term, nonce=self._nonce(), prefer=self.name)

        self._recipes.start(answering(elect_anyway)(), lambda _: None)

    # --- the session

    def _open(self) -> Recipe[Seen[Session]]:
        while True:
            granted = yield LeaseGrant(LEASE_SECONDS)
            if not isinstance(granted, LeaseGranted):
                continue
            self._lease = granted.lease
            # Each lease gets its own nonce: under the old nonce, a session whose lease ended unnoticed would
            # stay gone.
            found = yield from sessions.open_session(
                self.name, lease=granted.lease, address=f"{self.name}:1", nonce=self._nonce()
            )
            if isinstance(found, Seen):
                return found

    def _opened(self, opened: Seen[Session]) -> None:
        session = opened.value
        self.incarnation = session.incarnation
        self._timers.set(KEEP_NS, "keep")
        self._client.watch(keys.TERM, Revision(opened.modified + 1), "term")
        archive = ObservedArchive(self, self.ports.disk(DIRECTORY, self._on_synced), self._fail)
        self.archive = archive
        self.manager = Manager(
            session,
            archive,
            ports=ControlPorts(
                clock=self.ports.clock,
                timers=self.ports.timers,
                network=self.ports.network,
                random=self.ports.random,
                trace=self.ports.trace,
                recipes=self._recipes,
                nonce=self._nonce,
                on_session_lost=lambda: self.ports.stop("the session is gone"),
            ),
            application=Observed(self, self._apply),
            config=self._config,
        )
        self.manager.start()

    def _keep(self) -> Recipe[None]:
        kept = yield LeaseKeep(self._lease)
        if isinstance(kept, LeaseGone):
            self.ports.stop("the session's lease is gone")

    def _nonce(self) -> Nonce:
        return Nonce(f"{self.name}/{self.ports.incarnation}/{next(self._nonces)}")

    # --- events

    def on_message(self, peer: str, message: object) -> None:
        match message:
            case TokenRequest(token=token):
                if self.book.arrives(token):
                    self._request_token(peer, token)
            case Died(host=host, incarnation=incarnation):
                if self.manager is not None:
                    self.manager.on_death(HostId(host), incarnation)
            case _ if type(message).__module__ == "holdfast.control.coordination.messages":
                if self.manager is not None:
                    self.manager.on_message(HostId(peer), message)  # type: ignore[arg-type]  # its module says so
            case _:
                self._client.on_message(peer, message)

    def _request_token(self, client: str, token: str) -> None:
        def tell(outcome: Outcome) -> None:
            match outcome:
                case Accepted(cas=cas):
                    said = Said(token, "accepted", cas)
                case Failed(why=why):
                    said = Said(token, "failed", 0, str(why))
                case _:
                    said = Said(token, "unsettled", outcome.cas)
            self.ports.network.send(client, said)

        if self.manager is None:
            self.ports.network.send(client, Said(token, "elsewhere"))
            return
        try:
            self.manager.update(token.encode(), tell)
        except NotCoordinator as error:
            self.ports.network.send(client, Said(token, "elsewhere", 0, error.coordinator or ""))
        except Overloaded as error:
            self.ports.network.send(client, Said(token, "failed", 0, str(error)))

    def _on_timer(self, tag: Hashable) -> None:
        self._recipes.start(self._keep(), lambda _: None)
        self._timers.set(KEEP_NS, "keep")

    def _on_authority(self, token: Hashable, result: Result) -> None:
        self._recipes.on_authority(token, result)

    def _on_watch(self, token: Hashable, event: WatchEvent) -> None:
        if isinstance(event, Compacted):
            # What was dropped from the history is seen at the next poll (IM-66).
            self._client.watch(keys.TERM, event.oldest, token)
        if isinstance(event, Events) and self.manager is not None:
            for change in event.changes:
                if change.item is not None:
                    self.manager.on_term(msgspec.json.decode(change.item.value, type=TermRecord))

    def _on_synced(self, token: Token, ok: bool) -> None:
        if self.archive is not None:
            self.archive.on_synced(token, ok)

    def _fail(self, error: HoldfastError) -> None:
        self.ports.stop(f"{error.code}: {error}")
