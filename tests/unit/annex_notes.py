"""An annex by hand: notes, of which a schedule says when they are ready to be taken."""

from hashlib import blake2b

import msgspec

from holdfast.execution.annex import AnnexOperation, AnnexPorts
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import HostId, Position
from holdfast.model.outcome import outcome_in_words
from holdfast.sequence.messages import PeerMessage

NAME = "notes"


class NoteState:
    """The notes in their order, with their first positions; each is also written by the object."""

    is_comparable = True

    def __init__(self, annex: "Notes") -> None:
        self._annex = annex
        self.notes: list[tuple[Position, str]] = []

    def is_ready(self, body: bytes) -> bool:
        self._annex.asked += 1
        return body.decode() not in self._annex.held_back

    def apply(self, operation: AnnexOperation) -> None:
        text = operation.body.decode()
        if text in self._annex.held_back:
            raise BrokenInvariant(f"{text} is not ready")
        self.notes.append((operation.first, text))
        if self._annex.writes:
            for index in range(operation.positions):
                operation.call("write", f"{text}.{index}")

    def on_failed(self, method: str, arguments: msgspec.Raw | tuple[object, ...], outcome: bytes) -> None:
        self._annex.failed.append((method, outcome_in_words(outcome)))

    def save(self) -> bytes:
        return msgspec.msgpack.encode(self.notes) if self.notes else b""

    def load(self, saved: bytes) -> None:
        self.notes = msgspec.msgpack.decode(saved, type=list[tuple[Position, str]])

    def digest(self) -> bytes:
        return blake2b(self.save(), digest_size=8).digest()


class Notes:
    """The annex of one member. A note takes as many positions as it has words."""

    name = NAME

    def __init__(self, *, writes: bool = False) -> None:
        self.writes = writes
        """Whether the object's ``write`` is called for each position of a note."""
        self.held_back: set[str] = set()
        """Notes for which this member is not ready."""
        self.asked = 0
        """How often it was asked whether it is ready."""
        self.failed: list[tuple[str, str]] = []
        """The methods that did not return."""
        self.due: list[str] = []
        """Notes to be ordered in the next turn."""
        self.heard: list[tuple[HostId, bytes]] = []
        self.ports: AnnexPorts | None = None

    @property
    def bound(self) -> AnnexPorts:
        assert self.ports is not None
        return self.ports

    def state(self) -> NoteState:
        return NoteState(self)

    def positions(self, body: bytes) -> int:
        return len(body.decode().split())

    def bind(self, ports: AnnexPorts) -> None:
        self.ports = ports

    def on_message(self, peer: HostId, message: PeerMessage) -> None:
        self.heard.append((peer, message.body))

    def turn(self) -> None:
        while self.due and self.bound.leads():
            self.bound.order(self.due[0].encode())
            del self.due[0]

    def next_ns(self) -> int | None:
        return None

    def release(self, text: str) -> None:
        """This member is ready for the note now."""
        self.held_back.discard(text)
        self.bound.ready()
