"""An annex of the scenario's groups, as another package would add one: parcels (W9, W10).

A primary orders a parcel now and then, as a record of the annex's own kind that takes one to three positions.
A member applies it once the parcel has been cleared there. About every second one is cleared at once; for the
others members ask each other (W1), and who gets no answer for a while clears the parcel by itself. A few
rather take the primary's state. Applying a parcel changes the annex's part of the state, and has the object
note each piece of the parcel.

Checked: what is told counts only in its epoch; nothing is applied before it was cleared, or out of order; in
the end every member has the same parcels, each once, and its object has noted exactly their pieces, in order.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.authority.groups import GroupRecord
from holdfast.execution.annex import AnnexOperation, AnnexPorts
from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.model.ids import GroupId, HostId, Position
from holdfast.sequence.messages import PeerMessage
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND
from holdfast.sim.engine.world import World

NAME: Final = "parcels"
ORDERS: Final = 0.08
"""How often a primary orders a parcel, in each of its turns."""
CLEARED_AT_ONCE: Final = 0.5
RENEWS: Final = 0.05
"""How often a backup that waits takes the primary's state instead."""
ASK_NS: Final = 20 * MILLISECOND
PATIENCE_NS: Final = 120 * MILLISECOND
"""How long a member waits for an answer until it clears a parcel by itself."""
KNOWN_MAX: Final = 1000
"""The most parcels that a member keeps in mind as cleared."""


class Parcel(Struct, frozen=True, array_like=True):
    """What a record of the annex holds."""

    name: str
    pieces: int

    def piece(self, index: int) -> str:
        return f"{self.name}.{index}"


class Asked(Struct, frozen=True, array_like=True):
    """What the annexes of two members tell each other: whether a parcel is cleared, or that it is."""

    name: str
    is_cleared: bool


class ParcelState:
    """The annex's part of the state of one object: the parcels in their order, with their positions."""

    is_comparable = True

    def __init__(self, annex: "Parcels") -> None:
        self._annex = annex
        self.parcels: list[tuple[Position, Parcel]] = []

    def is_ready(self, body: bytes) -> bool:
        return self._annex.is_cleared(_parcel.decode(body).name)

    def apply(self, operation: AnnexOperation) -> None:
        parcel = _parcel.decode(operation.body)
        before = self.parcels[-1][0] if self.parcels else 0
        self._annex.on_applied(parcel, operation.first, before)
        self.parcels.append((operation.first, parcel))
        for index in range(operation.positions):
            operation.call("receive", parcel.piece(index))

    def on_failed(self, method: str, arguments: msgspec.Raw | tuple[object, ...], outcome: bytes) -> None:
        return None

    def save(self) -> bytes:
        return msgspec.msgpack.encode(self.parcels) if self.parcels else b""

    def load(self, saved: bytes) -> None:
        self.parcels = msgspec.msgpack.decode(saved, type=list[tuple[Position, Parcel]])

    def digest(self) -> bytes:
        return blake2b(self.save(), digest_size=16).digest()


@dataclass(slots=True)
class ParcelBook:
    """What is known of the parcels of a run."""

    world: World
    orders: float = 0.0
    """How often primaries order parcels, in each of their turns: ``ORDERS`` in the runs of the scenarios,
    never where a transcript says what happens."""
    made: dict[tuple[GroupId, str], Parcel] = field(default_factory=dict)
    """All parcels that primaries tried to order."""
    final: dict[tuple[GroupId, str], str] = field(default_factory=dict)
    """Those that were applied where only what is committed is applied, and by whom."""

    def check(self, record: GroupRecord, host: str, execution: Execution, noted: list[str]) -> None:
        """Check what a member has in the end; *noted* is what its object says."""
        state = execution.annexes.get(NAME)
        assert isinstance(state, ParcelState)
        pieces = [parcel.piece(index) for _, parcel in state.parcels for index in range(parcel.pieces)]
        said = f"{record.name} on {host}"
        if noted != pieces:
            is_order = sorted(noted) == sorted(pieces)
            why = "in another order" if is_order else f"{len(noted)} of {len(pieces)}, or others"
            self.world.violation("W10" if is_order else "W9", f"{said}: its object noted the pieces {why}")
        if len(set(pieces)) < len(pieces):
            self.world.violation("W10", f"{said}: a parcel is there twice")
        names = {parcel.name for _, parcel in state.parcels}
        unmade = [name for name in sorted(names) if (record.group, name) not in self.made]
        if unmade:
            self.world.violation("W10", f"{said}: nobody ordered {unmade[0]}")
        if state.parcels:
            self.world.sometimes("parcels were there in the end")

    def check_final(self, record: GroupRecord, host: str, execution: Execution) -> None:
        """Require that what was final once is still there."""
        state = execution.annexes.get(NAME)
        assert isinstance(state, ParcelState)
        names = {parcel.name for _, parcel in state.parcels}
        for (group, name), by in self.final.items():
            if group == record.group and name not in names:
                said = f"{record.name} on {host}: {name} was final on {by}, and is gone"
                self.world.violation("W9", said)
                return


class Parcels:
    """The annex of one member. Without *book* it only makes states."""

    name = NAME

    def __init__(
        self,
        record: GroupRecord | None = None,
        process: str = "",
        book: ParcelBook | None = None,
        rng: random.Random | None = None,
        is_ending: Callable[[], bool] = lambda: True,
    ) -> None:
        self._record = record
        self._process = process
        self._book = book
        self._rng = rng
        self._is_ending = is_ending
        self._ports: AnnexPorts | None = None
        self._cleared: dict[str, None] = {}
        self._awaited: dict[str, int] = {}
        """The parcels that are not cleared and hold the member up, each with since when."""
        self._asked_at = 0

    def state(self) -> ParcelState:
        return ParcelState(self)

    def positions(self, body: bytes) -> int:
        return _parcel.decode(body).pieces

    def bind(self, ports: AnnexPorts) -> None:
        self._ports = ports

    # --- clearing

    def is_cleared(self, name: str) -> bool:
        if self._book is None or self._ports is None or self._rng is None or name in self._cleared:
            return True
        if name not in self._awaited:
            if self._rng.random() < CLEARED_AT_ONCE:
                self._clear(name)
                return True
            self._awaited[name] = self._ports.clock.now()
            self._book.world.sometimes("a member waits for a parcel")
            self._ports.wake()
        return False

    def on_applied(self, parcel: Parcel, first: Position, before: int) -> None:
        book, record = self._book, self._record
        if book is None or record is None:
            return
        said = f"{record.name} on {self._process}: {parcel.name} at {first}"
        if parcel.name not in self._cleared:
            book.world.violation("W10", f"{said} is applied and was not cleared")
        if first <= before:
            book.world.violation("W10", f"{said} is applied after {before}")
        if record.style == "active":
            book.final.setdefault((record.group, parcel.name), self._process)

    def _clear(self, name: str) -> None:
        self._cleared[name] = None
        self._awaited.pop(name, None)
        while len(self._cleared) > KNOWN_MAX:
            del self._cleared[next(iter(self._cleared))]

    # --- events

    def on_message(self, peer: HostId, message: PeerMessage) -> None:
        ports, book = self._ports, self._book
        if ports is None or book is None:
            return
        if message.epoch != ports.epoch():
            said = f"{self._process} heeds what {peer} said in epoch {message.epoch}, and is in"
            book.world.violation("W1", f"{said} {ports.epoch()}")
        asked = msgspec.msgpack.decode(message.body, type=Asked)
        if asked.is_cleared:
            self._clear(asked.name)
            book.world.sometimes("a member heard that a parcel is cleared")
            ports.ready()
        elif asked.name in self._cleared:
            self._tell(peer, asked.name, is_cleared=True)

    def turn(self) -> None:
        ports, rng = self._ports, self._rng
        if ports is None or rng is None:
            return
        self._see_to_awaited(ports, rng)
        orders = self._book.orders if self._book is not None else 0.0
        if orders and ports.leads() and not self._is_ending() and rng.random() < orders:
            self._order(ports, rng)

    def next_ns(self) -> int | None:
        if not self._awaited:
            return None
        return min(self._asked_at + ASK_NS, min(self._awaited.values()) + PATIENCE_NS)

    def _see_to_awaited(self, ports: AnnexPorts, rng: random.Random) -> None:
        now = ports.clock.now()
        overdue = [name for name, since in self._awaited.items() if now - since >= PATIENCE_NS]
        for name in overdue:
            self._clear(name)
        if overdue:
            ports.ready()
        peers = ports.peers()
        if self._awaited and peers and now - self._asked_at >= ASK_NS:
            self._asked_at = now
            for name in self._awaited:
                self._tell(rng.choice(peers).host, name, is_cleared=False)
            if not ports.leads() and not self._is_ending() and rng.random() < RENEWS and self._book:
                self._book.world.sometimes("an annex had the object renewed")
                ports.renew("the scenario wants it")

    def _order(self, ports: AnnexPorts, rng: random.Random) -> None:
        record, book = self._record, self._book
        assert record is not None
        assert book is not None
        # Counted by the book: a member may leave and come back to the same process with a new annex.
        parcel = Parcel(f"{self._process}/{len(book.made) + 1}", rng.randint(1, 3))
        book.made[record.group, parcel.name] = parcel
        self._clear(parcel.name)
        for peer in ports.peers():
            if rng.random() < CLEARED_AT_ONCE:
                self._tell(peer.host, parcel.name, is_cleared=True)
        ports.order(msgspec.msgpack.encode(parcel))

    def _tell(self, host: HostId, name: str, *, is_cleared: bool) -> None:
        assert self._ports is not None
        self._ports.tell(host, msgspec.msgpack.encode(Asked(name, is_cleared)))


def with_parcels(
    definition: Definition,
    record: GroupRecord,
    ports: NodePorts,
    book: ParcelBook,
    is_ending: Callable[[], bool],
) -> Definition:
    """The same definition, for a member in the process of *ports*."""
    rng = ports.random.stream(f"parcels/{record.group}")
    parcels = Parcels(record, f"{ports.name}#{ports.incarnation}", book, rng, is_ending)
    return replace(definition, annexes=(parcels,)) if definition.annexes else definition


_parcel: Final = msgspec.msgpack.Decoder(Parcel)
