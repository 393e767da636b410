"""One link: the session with one peer, from its greeting to its end.

Both sides greet. Each judges the other's greeting (:mod:`.greeting`), and then supplies and consumes. A
refusal ends the connection; the driver tries again later, since clocks are set and stores are initialised.
A replica that cannot bring the peer up to date says so, and the link goes on the other way: what the peer
alone has must not be lost.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from holdfast.clock.errors import DifferentGeneration
from holdfast.clock.vector import Vector
from holdfast.directory.replication.consumer import Consumer, PeerRefused
from holdfast.directory.replication.greeting import clock_objection, objection
from holdfast.directory.replication.messages import (
    CannotSupply,
    Counted,
    Have,
    Hello,
    Message,
    Reason,
    Refused,
    Updates,
    shortened,
)
from holdfast.directory.replication.ports import ReplicationConfig, ReplicationPorts
from holdfast.directory.replication.roster import Roster
from holdfast.directory.replication.supplier import Supplier
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId
from holdfast.model.ports import Token


class Phase(Enum):
    GREETING = "greeting"
    OPEN = "open"
    ENDED = "ended"


class LinkOwner(Protocol):
    """What a link tells the replicator."""

    def on_put_back(self, link: "Link", newest: Csn) -> None: ...

    def on_open(self, link: "Link", *, is_ready: bool) -> None: ...

    def on_refused(self, link: "Link", refused: Refused) -> None: ...

    def on_have(self, link: "Link") -> None: ...

    def on_received(self, newest: Vector) -> None: ...

    def on_counted(self, vector: Vector) -> None: ...

    def on_moved(self) -> None: ...


class Link:
    """The session with one peer. The owner drops it when the connection ends."""

    def __init__(
        self,
        peer: str,
        ports: ReplicationPorts,
        roster: Roster,
        config: ReplicationConfig,
        new_token: Callable[[Callable[[], None]], Token],
        owner: LinkOwner,
    ) -> None:
        self.peer = peer
        self.phase = Phase.GREETING
        self.problem: Refused | None = None
        """Why one of the two refused the other."""
        self._shortage: tuple[Vector, str] | None = None
        self.replica: ReplicaId | None = None
        self.heard_ns = ports.clock.now()
        self.supplier: Supplier | None = None
        self._ports = ports
        self._roster = roster
        self._config = config
        self._owner = owner
        self.consumer = Consumer(peer, ports, roster, config, new_token, self._done)
        self._told: str | None = None
        self._greet()

    def _greet(self) -> None:
        vector = self._ports.replica.vector
        hello = Hello(
            suffix=self._ports.replica.suffix,
            generation=vector.generation,
            replica=self._roster.replica,
            vector=vector.text(),
            is_ready=self._roster.own.is_ready,
            window_updates=self._config.window_updates,
            window_bytes=self._config.window_bytes,
        )
        self._told = hello.vector
        self._ports.links.send(self.peer, hello)

    # --- events

    def on_message(self, message: Message) -> None:
        try:
            self._on_message(message)
        except PeerRefused as fault:
            self.refuse(fault.refused)
        except (InvalidRequest, DifferentGeneration) as fault:
            self.refuse(Refused(Reason.INVALID, shortened(fault)))

    def _on_message(self, message: Message) -> None:
        if isinstance(message, Hello):
            self._on_hello(message)
        elif isinstance(message, Refused):
            self.problem = message
            self._owner.on_refused(self, message)
            self.end()
        elif self.phase is not Phase.OPEN or self.supplier is None:
            raise InvalidRequest(f"{type(message).__name__} before a greeting")
        elif isinstance(message, Updates):
            newest = self.consumer.take(message)
            self._owner.on_received(newest)
            self.supplier.has_received(newest)
        elif isinstance(message, Have):
            self.supplier.on_have(message)
            self._owner.on_have(self)
            self.supplier.pump()
        elif isinstance(message, CannotSupply):
            self._shortage = Vector.parse(message.least), message.why
            self._ports.trace.note(
                "directory_cannot_be_supplied",
                peer=self.peer,
                replica=self._roster.replica,
                why=message.why,
            )
        elif isinstance(message, Counted):
            self._owner.on_counted(Vector.parse(message.vector))
        else:
            raise InvalidRequest(f"{type(message).__name__} is not part of a session")

    def _on_hello(self, hello: Hello) -> None:
        if self.phase is not Phase.GREETING:
            raise InvalidRequest("a second greeting")
        replica = self._ports.replica
        refused = objection(hello, suffix=replica.suffix, own=replica.vector, roster=self._roster)
        refused = refused or clock_objection(self._ports.sessions, self.peer, hello)
        if refused is not None:
            self.refuse(refused)
            return
        newest = Vector.parse(hello.vector).get(self._roster.replica)
        if newest is not None and not replica.vector.covers(newest):
            # This store has forgotten what it issued: it was put back since it was last opened.
            self._owner.on_put_back(self, newest)
            self.end()
            return
        self.phase = Phase.OPEN
        self.replica = ReplicaId(hello.replica)
        self.supplier = Supplier(self.peer, hello, self._ports, self._roster, self._config)
        self._owner.on_open(self, is_ready=hello.is_ready)
        self.supplier.pump()

    # --- what the owner asks for

    @property
    def shortage(self) -> str | None:
        """Why the peer cannot bring this replica up to date; None if it can, or another has done so."""
        if self._shortage is not None and self._ports.replica.vector.covers_all(self._shortage[0]):
            self._shortage = None
        return None if self._shortage is None else self._shortage[1]

    def tell(self, *, is_due: bool = False) -> None:
        """Say what is committed here; *is_due*: even if nothing is new."""
        text = self._ports.replica.vector.text()
        if self.phase is Phase.OPEN and (is_due or text != self._told):
            self._told = text
            self._ports.links.send(self.peer, Have(text, self.consumer.done))

    def refuse(self, refused: Refused) -> None:
        self.problem = refused
        self._ports.trace.note(
            "directory_peer_refused", peer=self.peer, reason=refused.reason.value, why=refused.why
        )
        self._ports.links.send(self.peer, refused)
        self.end()

    def end(self) -> None:
        self.phase = Phase.ENDED
        self._ports.sessions.end_session(self.peer)
        self._ports.links.close(self.peer)

    def _done(self) -> None:
        if self.phase is Phase.OPEN:
            self.tell(is_due=True)
        self._owner.on_moved()
