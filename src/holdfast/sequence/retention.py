"""The table of requests and replies by which a call is executed exactly once (X).

Rules. The table is part of the object's state: every member builds the same one from the same sequence, and
a checkpoint carries it (X1). An entry stays until the group's own time has passed its expiration, or until
its client's floor has passed it; a request at or below either bound is refused, never executed (X2). Asking
for an outcome settles it: an id that has not run by then never will (X3). Time is the group's, taken from the
CSNs of its sequence, never from a clock (X4).

How. A client numbers its requests upwards and says with each the lowest number it still awaits (its floor)
and the latest expiration it has ever used (its horizon). Once the group's time has passed the horizon,
nothing of that client can still arrive unexpired, and it is forgotten altogether; so the table is bounded
by what clients await and by what may still come. Neither may lie further ahead than ``KEPT_S_MAX``: a request
that expires later is refused when it is ordered (FTC-95), and a later horizon counts as that. Whoever forgets
a client then forgets nothing that could be executed twice: what expires later was never executed.

What a group calls is not bounded so: its expiration is reckoned in the calling group's time, which may be
years ahead by itself (decision 0011).

Nearly every entry goes by its client's floor, long before it expires. So it is not the entries that are noted
for their expirations but the client, for the earliest of them, and all are looked through when that has come.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Final, Generic, TypeVar

import msgspec

from holdfast.model.errors import invariant
from holdfast.model.ids import ClientId, Position

Item = TypeVar("Item")

KEPT_S_MAX: Final = 3 * 24 * 3600
"""The longest that a reply is kept, by the group's time. Our own clients ask for two days at most, for the
duration of a request and for its outcome together: the third is for clocks that differ."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """Never seen: it may be ordered."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """It has been executed: this was the reply. Not to be told before *position* is committed (S4)."""

    reply: bytes
    position: Position


@dataclass(frozen=True, slots=True)
class InProgress:
    """It was ordered at this position and has no reply yet: wait for that one (X1)."""

    position: Position


@dataclass(frozen=True, slots=True)
class Refused:
    """It must never be executed."""

    why: str


Verdict = Fresh | Repeated | InProgress | Refused

FRESH: Final = Fresh()
EXPIRED: Final = Refused("the request has expired by the group's time")
ABANDONED: Final = Refused("the client no longer awaits this request")
TOO_LATE: Final = Refused(
    "it expires later than replies are kept: in more than three days of the group's time"
)
NEVER: Final = Refused(
    "it was not executed, and never will be, as its outcome was asked for before; "
    "unless it was a query: these leave no outcome, and can be asked again"
)
"""Queries have numbers as operations have, and stand in no table: nobody knows which have been answered."""


class _Entry(msgspec.Struct, array_like=True, gc=False):
    position: Position
    expiration_s: int
    reply: bytes | None = None
    never_runs: bool = False


_expiration: Final = attrgetter("expiration_s")
_FAR_S: Final = 1 << 62


class _Client(msgspec.Struct):
    floor: int = 1
    horizon_s: int = 0
    entries: dict[int, _Entry] = msgspec.field(default_factory=dict)
    due_s: int = _FAR_S
    """None of its entries expires before this second, when they are looked through."""


class _Saved(msgspec.Struct, array_like=True):
    """The table in a checkpoint. Clients and numbers in order, so that equal tables have equal bytes."""

    time_s: int
    clients: list[tuple[ClientId, int, int, list[tuple[int, _Entry]]]]


class Retention:
    """The table of one group. Every method but :meth:`judge` is called only for ordered operations."""

    def __init__(self) -> None:
        self.time_s = 0
        """The group's time: the newest CSN's, in seconds."""
        self._clients: dict[ClientId, _Client] = {}
        self._entries_due = _Calendar[ClientId]()
        self._clients_due = _Calendar[ClientId]()

    def __len__(self) -> int:
        return sum(len(client.entries) for client in self._clients.values())

    # --- deciding

    def judge(self, client: ClientId, number: int, expiration_s: int) -> Verdict:
        """What to do with a request that arrives. Changes nothing."""
        known = self._clients.get(client)
        entry = known.entries.get(number) if known is not None else None
        if entry is not None:
            if entry.never_runs:
                return NEVER
            if entry.reply is None:
                return InProgress(entry.position)
            return Repeated(entry.reply, entry.position)
        if expiration_s <= self.time_s:
            return EXPIRED
        if known is not None and number < known.floor:
            return ABANDONED
        return FRESH

    def reply_to(self, client: ClientId, number: int) -> bytes | None:
        """The reply that is kept for a request, if there is one."""
        known = self._clients.get(client)
        entry = known.entries.get(number) if known is not None else None
        return entry.reply if entry is not None else None

    # --- ordered operations

    def advance(self, time_s: int) -> None:
        """The group's time has moved on: forget what has expired by it."""
        if time_s <= self.time_s:
            return
        self.time_s = time_s
        for client in self._entries_due.take(time_s):
            known = self._clients[client]
            known.entries = {
                number: entry for number, entry in known.entries.items() if entry.expiration_s > time_s
            }
            known.due_s = _FAR_S
            self._note_earliest(client, known)
        for client in self._clients_due.take(time_s):
            del self._clients[client]

    def admit(self, client: ClientId, number: int, position: Position, expiration_s: int) -> Verdict:
        """As :meth:`judge`, and :meth:`begin` if it is fresh: in one, as every call goes through here."""
        known = self._clients.get(client)
        if known is None or number < known.floor or number in known.entries or expiration_s <= self.time_s:
            verdict = self.judge(client, number, expiration_s)
            if verdict is FRESH:
                if expiration_s > self._latest_s:
                    return TOO_LATE
                self.begin(client, number, position, expiration_s)
            return verdict
        if expiration_s > known.horizon_s:
            if expiration_s > self._latest_s:
                return TOO_LATE
            self._client(client, expiration_s)
        known.entries[number] = _Entry(position, expiration_s)
        if expiration_s < known.due_s:
            self._note_due(client, known, expiration_s)
        return FRESH

    def begin(self, client: ClientId, number: int, position: Position, expiration_s: int) -> None:
        """A fresh request was ordered at *position*."""
        known = self._clients.get(client)
        if known is None or expiration_s > known.horizon_s:
            known = self._client(client, expiration_s)
        if number in known.entries:
            invariant(False, f"request {client}#{number} is ordered once")
        self._keep(client, known, number, _Entry(position, expiration_s))

    def finish(self, client: ClientId, number: int, reply: bytes, position: Position | None = None) -> None:
        """It was executed; the reply is final with *position*, which is where it was ordered unless the reply
        has a record of its own (E1). One that expired meanwhile needs no reply any more."""
        known = self._clients.get(client)
        entry = known.entries.get(number) if known is not None else None
        if entry is not None:
            entry.reply = reply
            if position is not None:
                entry.position = position

    def raise_floor(self, client: ClientId, floor: int, horizon_s: int, *, is_nested: bool = False) -> None:
        """The client awaits nothing below *floor*, and no request of its expires after *horizon_s*.
        *is_nested*: it is an operation of another group."""
        known = self._client(client, horizon_s if is_nested else min(horizon_s, self._latest_s))
        if floor > known.floor:
            # Whichever is less: a client may leap, and it may leave thousands above its floor.
            passed: Sequence[int] = range(known.floor, floor)
            if len(passed) > len(known.entries):
                passed = [number for number in known.entries if number < floor]
            for number in passed:
                known.entries.pop(number, None)
            known.floor = floor

    def settle(self, client: ClientId, number: int, expiration_s: int) -> Verdict:
        """Answer for the outcome of a request, for good: what is fresh now will never run (X3)."""
        verdict = self.judge(client, number, expiration_s)
        if isinstance(verdict, Fresh):
            if expiration_s > self._latest_s:
                return TOO_LATE  # it would have to be remembered for longer than anything is
            known = self._client(client, expiration_s)
            self._keep(client, known, number, _Entry(Position(0), expiration_s, never_runs=True))
            return NEVER
        return verdict

    # --- in checkpoints

    def save(self) -> bytes:
        clients = [
            (client, known.floor, known.horizon_s, sorted(known.entries.items(), key=itemgetter(0)))
            for client, known in sorted(self._clients.items())
        ]
        return msgspec.msgpack.encode(_Saved(self.time_s, clients))

    @classmethod
    def load(cls, saved: bytes) -> "Retention":
        """The table that was saved. Raises ``msgspec.DecodeError`` for anything else."""
        table, found = cls(), msgspec.msgpack.decode(saved, type=_Saved)
        table.time_s = found.time_s
        for client, floor, horizon_s, entries in found.clients:
            known = table._clients[client] = _Client(floor, horizon_s, dict(entries))
            table._clients_due.add(horizon_s, client)
            table._note_earliest(client, known)
        return table

    # --- keeping

    @property
    def _latest_s(self) -> int:
        """No request may expire later than this."""
        return self.time_s + KEPT_S_MAX

    def _keep(self, client: ClientId, known: _Client, number: int, entry: _Entry) -> None:
        known.entries[number] = entry
        if entry.expiration_s < known.due_s:
            self._note_due(client, known, entry.expiration_s)

    def _note_earliest(self, client: ClientId, known: _Client) -> None:
        """Of a client that is noted for none of its entries."""
        if known.entries:
            self._note_due(client, known, min(map(_expiration, known.entries.values())))

    def _note_due(self, client: ClientId, known: _Client, due_s: int) -> None:
        self._entries_due.remove(known.due_s, client)
        self._entries_due.add(due_s, client)
        known.due_s = due_s

    def _client(self, client: ClientId, horizon_s: int) -> _Client:
        known = self._clients.get(client)
        if known is None:
            known = self._clients[client] = _Client()
        if horizon_s > known.horizon_s:
            self._clients_due.remove(known.horizon_s, client)
            self._clients_due.add(horizon_s, client)
            known.horizon_s = horizon_s
        return known


class _Calendar(Generic[Item]):
    """What falls due at which second; removing early costs nothing and leaves nothing behind."""

    def __init__(self) -> None:
        self._days: dict[int, dict[Item, None]] = {}

    def add(self, time_s: int, item: Item) -> None:
        day = self._days.get(time_s)
        if day is None:
            day = self._days[time_s] = {}
        day[item] = None

    def remove(self, time_s: int, item: Item) -> None:
        day = self._days.get(time_s)
        if day is not None:
            day.pop(item, None)
            if not day:
                del self._days[time_s]

    def take(self, time_s: int) -> list[Item]:
        """Everything due by *time_s*, earliest first."""
        past = sorted(day for day in self._days if day <= time_s)
        return [item for day in past for item in self._days.pop(day)]
