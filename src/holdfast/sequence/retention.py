"""The retention table: the requests and replies by which each call is executed exactly once (X).

Rules. The table is part of the object's state: every member builds the same table from the same sequence, and
a checkpoint includes it (X1). An entry stays until the group's own time has passed its expiration, or until
its client's floor has passed it. A request at or below either bound is refused, never executed (X2). Asking
for an outcome settles it: a request id that has not run by then never will (X3). Time is the group's time,
taken from the CSNs of its sequence, never from a clock (X4).

How. A client numbers its requests upwards. With each request it sends the lowest number that it still awaits
(its floor) and the latest expiration that it has ever used (its horizon). Once the group's time has passed
the horizon, no request of that client can still arrive unexpired, and the client is forgotten. So the table
is bounded by what clients await and by what may still arrive. Expiration and horizon may lie at most
``KEPT_S_MAX`` ahead: a request that expires later is refused when it is ordered (FTC-95), and a later horizon
is cut to that limit. So forgetting a client never allows a second execution, because a request that expires
later was never executed.

Calls made by groups have no such limit: their expiration is computed in the calling group's time, which may
legitimately be years ahead (decision 0011).

Nearly every entry is removed by its client's floor, long before it expires. So the calendar of expirations
lists clients, not entries: each client by its earliest expiration, when all its entries are checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Final, Generic, TypeVar

import msgspec

from holdfast.model.errors import invariant
from holdfast.model.ids import ClientId, Position
from holdfast.sequence.keyed_replies import ENTRY_BYTES, KeyedReplies, caller_of

Item = TypeVar("Item")

KEPT_S_MAX: Final = 3 * 24 * 3600
"""The longest time for which a reply is kept, by the group's time. Our own clients use at most two days, for
the duration of a request and for its outcome together; the third day allows for clocks that differ.
"""


@dataclass(frozen=True, slots=True)
class Fresh:
    """The request was never seen: it may be ordered."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """The request has been executed with this reply, which nobody may be told before *position* is committed
    (S4)."""

    reply: bytes
    position: Position


@dataclass(frozen=True, slots=True)
class InProgress:
    """The request was ordered at this position and has no reply yet: wait for it (X1)."""

    position: Position


@dataclass(frozen=True, slots=True)
class Refused:
    """The request must never be executed."""

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
"""Queries have numbers like operations but are in no table, so nobody knows which have been answered."""


class Entry(msgspec.Struct, array_like=True, gc=False):
    """What is kept of one request."""

    position: Position
    expiration_s: int
    reply: bytes | None = None
    never_runs: bool = False


_expiration: Final = attrgetter("expiration_s")
_FAR_S: Final = 1 << 62


class ClientEntries(msgspec.Struct):
    """What is kept of one client."""

    floor: int = 1
    horizon_s: int = 0
    entries: dict[int, Entry] = msgspec.field(default_factory=dict)
    due_s: int = _FAR_S
    """No entry of this client expires before this second; then all its entries are checked."""
    caller: str = ""
    """Whose key this client stands for; empty if it is a client that tells what it has received."""


class _Saved(msgspec.Struct, array_like=True):
    """The table in a checkpoint. Clients and numbers are sorted, so that equal tables have equal bytes."""

    time_s: int
    clients: list[tuple[ClientId, int, int, list[tuple[int, Entry]]]]


class Retention:
    """The retention table of one group. Only ordered operations call its methods, except :meth:`judge`."""

    def __init__(self) -> None:
        self.time_s = 0
        """The group's time: that of the newest CSN, in seconds."""
        self._clients: dict[ClientId, ClientEntries] = {}
        self._entries_due = _Calendar[ClientId]()
        self._clients_due = _Calendar[ClientId]()
        self.keyed = KeyedReplies()
        """The bytes kept for calls under keys. They follow from the entries; no checkpoint carries them."""

    def __len__(self) -> int:
        return sum(len(client.entries) for client in self._clients.values())

    # --- deciding

    def judge(self, client: ClientId, number: int, expiration_s: int) -> Verdict:
        """Decide what to do with a request that arrives. Changes nothing."""
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
        """The stored reply to a request, if there is one."""
        known = self._clients.get(client)
        entry = known.entries.get(number) if known is not None else None
        return entry.reply if entry is not None else None

    # --- ordered operations

    def advance(self, time_s: int) -> None:
        """Advance the group's time, and forget what has expired by it."""
        if time_s <= self.time_s:
            return
        self.time_s = time_s
        for client in self._entries_due.take(time_s):
            known = self._clients[client]
            before, known.entries = (
                known.entries,
                {number: entry for number, entry in known.entries.items() if entry.expiration_s > time_s},
            )
            if known.caller:
                self.keyed.add(known.caller, _bytes_of(known.entries) - _bytes_of(before))
            known.due_s = _FAR_S
            self._note_earliest(client, known)
        for client in self._clients_due.take(time_s):
            known = self._clients.pop(client)
            if known.caller:
                self.keyed.add(known.caller, -_bytes_of(known.entries))

    def admit(self, client: ClientId, number: int, position: Position, expiration_s: int) -> Verdict:
        """Do :meth:`judge`, and :meth:`begin` if the request is fresh, in one step, as every call passes
        here."""
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
        known.entries[number] = Entry(position, expiration_s)
        if known.caller or expiration_s < known.due_s:
            self._account(client, known, expiration_s)
        return FRESH

    def begin(self, client: ClientId, number: int, position: Position, expiration_s: int) -> None:
        """Record that a fresh request was ordered at *position*."""
        known = self._clients.get(client)
        if known is None or expiration_s > known.horizon_s:
            known = self._client(client, expiration_s)
        if number in known.entries:
            invariant(False, f"request {client}#{number} is ordered once")
        self._keep(client, known, number, Entry(position, expiration_s))

    def finish(self, client: ClientId, number: int, reply: bytes, position: Position | None = None) -> None:
        """Record the reply to an executed request. The reply is final with *position*; that is where the
        request was ordered, unless the reply has a record of its own (E1). A request that has expired needs
        no reply any more."""
        known = self._clients.get(client)
        entry = known.entries.get(number) if known is not None else None
        if known is not None and entry is not None:
            if known.caller:
                self.keyed.add(known.caller, len(reply) - len(entry.reply or b""))
            entry.reply = reply
            if position is not None:
                entry.position = position

    def raise_floor(
        self, client: ClientId, floor: int, horizon_s: int, *, is_nested: bool = False
    ) -> ClientEntries:
        """Record that the client awaits nothing below *floor* and that none of its requests expires after
        *horizon_s*. *is_nested*: the client is an operation of another group. Returns what is kept of the
        client: a frame of calls is judged by it as :meth:`admit` does one call, without a function for
        each."""
        known = self._client(client, horizon_s if is_nested else min(horizon_s, self.time_s + KEPT_S_MAX))
        if floor > known.floor:
            # Walk whichever is shorter: a client's floor may jump far, or thousands of entries may lie above
            # it.
            passed: Sequence[int] = range(known.floor, floor)
            if len(passed) > len(known.entries):
                passed = [number for number in known.entries if number < floor]
            before = _bytes_of(known.entries) if known.caller else 0
            for number in passed:
                known.entries.pop(number, None)
            if known.caller:
                self.keyed.add(known.caller, _bytes_of(known.entries) - before)
            known.floor = floor
        return known

    def settle(self, client: ClientId, number: int, expiration_s: int) -> Verdict:
        """Answer for good what became of a request: if it is fresh now, it will never run (X3)."""
        verdict = self.judge(client, number, expiration_s)
        if isinstance(verdict, Fresh):
            if expiration_s > self._latest_s:
                return TOO_LATE  # it would have to be remembered for longer than anything is
            known = self._client(client, expiration_s)
            self._keep(client, known, number, Entry(Position(0), expiration_s, never_runs=True))
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
        """Load a saved table. Raises ``msgspec.DecodeError`` for anything else."""
        table, found = cls(), msgspec.msgpack.decode(saved, type=_Saved)
        table.time_s = found.time_s
        for client, floor, horizon_s, entries in found.clients:
            known = ClientEntries(floor, horizon_s, dict(entries), caller=caller_of(client))
            table._clients[client] = known
            if known.caller:
                table.keyed.add(known.caller, _bytes_of(known.entries))
            table._clients_due.add(horizon_s, client)
            table._note_earliest(client, known)
        return table

    # --- internal

    @property
    def _latest_s(self) -> int:
        """The latest allowed expiration of a request."""
        return self.time_s + KEPT_S_MAX

    def _keep(self, client: ClientId, known: ClientEntries, number: int, entry: Entry) -> None:
        known.entries[number] = entry
        self._account(client, known, entry.expiration_s)

    def _account(self, client: ClientId, known: ClientEntries, expiration_s: int) -> None:
        """Note what a new entry costs, and when it expires."""
        if known.caller:
            self.keyed.add(known.caller, ENTRY_BYTES)
        if expiration_s < known.due_s:
            self.note_due(client, known, expiration_s)

    def _note_earliest(self, client: ClientId, known: ClientEntries) -> None:
        """Enter the client by its earliest expiration; it must not be in the calendar of entries."""
        if known.entries:
            self.note_due(client, known, min(map(_expiration, known.entries.values())))

    def note_due(self, client: ClientId, known: ClientEntries, due_s: int) -> None:
        """Note that an entry of the client expires at *due_s*, earlier than all others."""
        self._entries_due.remove(known.due_s, client)
        self._entries_due.add(due_s, client)
        known.due_s = due_s

    def _client(self, client: ClientId, horizon_s: int) -> ClientEntries:
        known = self._clients.get(client)
        if known is None:
            known = self._clients[client] = ClientEntries(caller=caller_of(client))
        if horizon_s > known.horizon_s:
            self._clients_due.remove(known.horizon_s, client)
            self._clients_due.add(horizon_s, client)
            known.horizon_s = horizon_s
        return known


def _bytes_of(entries: dict[int, Entry]) -> int:
    """What these entries cost."""
    return sum(ENTRY_BYTES + len(entry.reply or b"") for entry in entries.values())


class _Calendar(Generic[Item]):
    """Items by the second at which they are due. Removing one early is cheap and leaves nothing behind."""

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
        """Remove and return everything due by *time_s*, earliest first."""
        past = sorted(day for day in self._days if day <= time_s)
        return [item for day in past for item in self._days.pop(day)]
