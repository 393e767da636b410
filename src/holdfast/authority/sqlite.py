"""The store of the embedded authority: the whole contract on one SQLite file.

The store is synchronous and has no event loop or clock: the time comes with each call.
:meth:`SqliteStore.apply` processes several requests in order inside one SQLite transaction and returns their
results only after its commit. This is group commit, and it ensures that no result is known before it is on
disk. Any error of SQLite becomes ``StoreFailed`` and ends the store (A6): SQLite reports a failed WAL sync
only once and would then continue to commit. Requests are checked before they reach SQLite, so no error is
harmless.

:class:`Leases` are durable, but their deadlines are only in memory (A4). Keeping a lease alive therefore
costs no sync, and after a restart every lease has its full time again: its holder may have been renewing it
while the authority was down. :class:`History` keeps a bounded number of revisions for watches to start from.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import apsw
import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import (
    Absent,
    Applied,
    Change,
    Changed,
    Compare,
    Delete,
    Elsewhere,
    Equals,
    Events,
    Get,
    Got,
    Invalid,
    KeyValue,
    LeaseGone,
    LeaseGrant,
    LeaseGranted,
    LeaseKeep,
    LeaseRevoke,
    List,
    Listed,
    Older,
    Plain,
    Put,
    Refused,
    Request,
    Result,
    Txn,
    broken_bound,
    granted_seconds,
    plain,
)
from holdfast.authority.identity import Identity
from holdfast.authority.move.seat import SeatState, seat_state
from holdfast.authority.sqlite_file import StoreFailed, integers, open_database, read_identity
from holdfast.model.ids import SECOND, LeaseId, Revision

_DECODER: Final = msgspec.msgpack.Decoder(tuple[Changed, ...])
_ENCODER: Final = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """How much history is kept. More history lets watchers be away longer; each revision costs disk space."""

    revisions_max: int = 100_000
    bytes_max: int = 64_000_000


class History:
    """The table of events: one row for each revision from the oldest kept to the newest, without gaps.

    The newest row is never removed: it also holds the revision counter.
    """

    def __init__(self, db: apsw.Connection, limits: HistoryLimits) -> None:
        self._db = db
        self._limits = limits
        oldest, newest, size = integers(
            db, "SELECT min(revision), max(revision), sum(length(changes)) FROM event"
        )
        self.oldest = Revision(oldest)
        self.newest = Revision(newest)
        self._bytes = size

    def append(self, changes: tuple[Changed, ...]) -> Events:
        """Store *changes* as the next revision."""
        self.newest = Revision(self.newest + 1)
        encoded = _ENCODER.encode(changes)
        self._db.execute("INSERT INTO event VALUES (?, ?)", (self.newest, encoded))
        self._bytes += len(encoded)
        return Events(self.newest, changes)

    def read(self, start: Revision, limit: int) -> list[Events]:
        """Read at most *limit* revisions from *start* on; *start* must not lie before the oldest."""
        rows = self._db.execute(
            "SELECT revision, changes FROM event WHERE revision >= ? ORDER BY revision LIMIT ?",
            (start, limit),
        )
        return [Events(Revision(revision), _DECODER.decode(changes)) for revision, changes in rows]

    def compact(self) -> None:
        """Drop the oldest eighth while a bound is exceeded. An eighth, so that this happens rarely."""
        while self._is_over() and self.oldest < self.newest:
            kept_from = min(self.newest, self.oldest + 1 + (self.newest - self.oldest) // 8)
            (freed,) = integers(
                self._db, "SELECT sum(length(changes)) FROM event WHERE revision < ?", (kept_from,)
            )
            self._db.execute("DELETE FROM event WHERE revision < ?", (kept_from,))
            self._bytes -= freed
            self.oldest = Revision(kept_from)

    def _is_over(self) -> bool:
        kept = self.newest - self.oldest + 1
        return kept > self._limits.revisions_max or self._bytes > self._limits.bytes_max


# A lease must not end here before its holder's clock says so, whatever the difference in clock rates. One
# part in this many is added (10,000 ppm; quartz clocks stay below 200).
RATE_MARGIN_DIVISOR: Final = 100


@dataclass(slots=True)
class _Held:
    seconds: int
    deadline_ns: int


class Leases:
    """All leases, by id. An id is never issued twice, not even after its lease has ended."""

    def __init__(self, db: apsw.Connection, now_ns: int) -> None:
        self._db = db
        self._held: dict[LeaseId, _Held] = {
            LeaseId(lease): _Held(seconds, _deadline(seconds, now_ns))
            for lease, seconds in db.execute("SELECT id, seconds FROM lease ORDER BY id")
        }

    def __contains__(self, lease: LeaseId) -> bool:
        return lease in self._held

    def grant(self, seconds: int, now_ns: int) -> LeaseId:
        (number,) = integers(self._db, "INSERT INTO lease (seconds) VALUES (?) RETURNING id", (seconds,))
        lease = LeaseId(number)
        self._held[lease] = _Held(seconds, _deadline(seconds, now_ns))
        return lease

    def keep(self, lease: LeaseId, now_ns: int) -> int | None:
        """Restart the lease's time. Return its seconds, or None when it has ended."""
        held = self._held.get(lease)
        if held is None:
            return None
        held.deadline_ns = _deadline(held.seconds, now_ns)
        return held.seconds

    def keep_all(self, now_ns: int) -> None:
        for lease in self._held:
            self.keep(lease, now_ns)

    def end(self, lease: LeaseId) -> None:
        del self._held[lease]
        self._db.execute("DELETE FROM lease WHERE id = ?", (lease,))

    def due(self, now_ns: int) -> list[LeaseId]:
        return [lease for lease, held in self._held.items() if held.deadline_ns <= now_ns]

    def remaining(self, now_ns: int) -> list[tuple[LeaseId, int, int]]:
        """Each lease with its seconds and its remaining nanoseconds."""
        return [(lease, held.seconds, held.deadline_ns - now_ns) for lease, held in self._held.items()]


def _deadline(seconds: int, now_ns: int) -> int:
    full_ns = seconds * SECOND
    return now_ns + full_ns + full_ns // RATE_MARGIN_DIVISOR


CHECKPOINT_PAGES: Final = 1_000
"""The WAL size, in pages, after which a checkpoint copies the WAL into the file."""
ANSWER_BYTES_MAX: Final = 4_000_000
"""The most bytes of values in one answer, which must fit in one message."""
LIST_BYTES_MAX: Final = 2_000_000
"""A page of a list ends with the value that exceeds this size."""
_AFTER_ALL_TEXT: Final = b""  # SQLite orders every blob after every text

_COLUMNS: Final = "SELECT key, value, created, modified, lease FROM item"
_READ: Final = f"{_COLUMNS} WHERE key = ?"
_READ_RANGE: Final = f"{_COLUMNS} WHERE key >= ? AND key > ? AND key < ? ORDER BY key LIMIT ?"
_READ_LEASE: Final = "SELECT key FROM item WHERE lease = ? AND lease <> 0 ORDER BY key"
_PUT: Final = (
    "INSERT INTO item VALUES (?1, ?2, ?3, ?3, ?4) ON CONFLICT (key) DO UPDATE SET"
    " value = excluded.value, modified = excluded.modified, lease = excluded.lease RETURNING created"
)
_DELETE: Final = "DELETE FROM item WHERE key = ? RETURNING 1"


class SqliteStore:
    """One authority's keys, leases and history. Use it from one thread; the module states its guarantees."""

    def __init__(
        self,
        path: str,
        *,
        now_ns: int,
        new_id: str | None = None,
        vfs: str | None = None,
        limits: HistoryLimits | None = None,
        checkpoint_pages: int = CHECKPOINT_PAGES,
    ) -> None:
        """Open *path*, or create it when *new_id* is given. Leases start with their full time (A4)."""
        self._failure: str | None = None
        self._db = open_database(path, vfs=vfs, new_id=new_id)
        self._wal_pages = 0
        self._checkpoint_pages = checkpoint_pages
        self._fresh: list[Events] = []
        self._db.set_wal_hook(self._on_wal)
        with self._guard():
            self._history = History(self._db, limits or HistoryLimits())
            self._leases = Leases(self._db, now_ns)
            self.identity: Identity = read_identity(self._db)
            self._seat = self._stored_seat()
        self._is_unsealed = False

    @property
    def revision(self) -> Revision:
        return self._history.newest

    @property
    def seat(self) -> KeyValue | None:
        """What the key of the seat holds (A8)."""
        return self._seat

    @property
    def oldest(self) -> Revision:
        """The first revision whose events are still known."""
        return self._history.oldest

    def apply(self, requests: Sequence[Request], now_ns: int) -> list[Result]:
        """Return the results of *requests*, processed in order, all durable on return."""
        with self._guard():
            results = [self._judge(request, now_ns) for request in requests]
            self._commit()
        if self._is_unsealed:
            # Nobody could renew a lease while no request was carried out (A4, A8).
            self._is_unsealed = False
            self._leases.keep_all(now_ns)
        return results

    def expire(self, now_ns: int) -> list[LeaseId]:
        """End every lease whose time is over; each that held keys gets its own revision.

        A sealed authority ends none: what it holds is being copied, and its leases cannot be renewed (A8).
        """
        if seat_state(self._seat) is SeatState.SEALED:
            return []
        with self._guard():
            ended = self._leases.due(now_ns)
            for lease in ended:
                self._end_lease(lease)
            self._commit()
        return ended

    def keep_all_leases(self, now_ns: int) -> None:
        """Give every lease its full time, because this process could not hear their holders (A4)."""
        self._leases.keep_all(now_ns)

    def take_events(self) -> list[Events]:
        """The revisions committed since the last call, in order."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def history(self, start: Revision, limit: int) -> list[Events]:
        """Read at most *limit* revisions from *start*, which is between ``oldest`` and ``revision + 1``."""
        with self._guard():
            return self._history.read(start, limit)

    def leases(self, now_ns: int) -> list[tuple[LeaseId, int, int]]:
        """Each lease with its seconds and its remaining nanoseconds."""
        return self._leases.remaining(now_ns)

    def maintain(self) -> None:
        """Copy the WAL into the file when it has grown. Call it when no client is waiting."""
        if self._wal_pages >= self._checkpoint_pages:
            with self._guard():
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._wal_pages = 0

    def close(self) -> None:
        """Close the file cleanly; a failed one is left as it is."""
        if self._failure is None:
            with self._guard():
                self._db.close()
            self._failure = "it is closed"

    # --- one request

    def _judge(self, asked: Request, now_ns: int) -> Result:
        broken = broken_bound(asked)
        if broken is not None:
            return broken
        seat, request = plain(asked)
        if seat != (0 if self._seat is None else self._seat.modified):
            return Elsewhere(self._seat)
        return self._carry_out(request, now_ns)

    def _carry_out(self, request: Plain, now_ns: int) -> Result:
        if isinstance(request, Txn):
            return self._txn(request)
        if isinstance(request, Get):
            return Got(self._read(request.key), self.revision)
        if isinstance(request, LeaseKeep):
            return self._lease_keep(request.lease, now_ns)
        if isinstance(request, List):
            return self._list(request)
        if isinstance(request, LeaseGrant):
            return self._lease_grant(request.seconds, now_ns)
        return self._lease_revoke(request)

    def _read(self, key: str) -> KeyValue | None:
        row = self._db.execute(_READ, (key,)).fetchone()
        return None if row is None else KeyValue(*row)

    def _list(self, request: List) -> Listed:
        bounds = (request.prefix, request.after, _end_of(request.prefix), request.limit + 1)
        items: list[KeyValue] = []
        size = 0
        for row in self._db.execute(_READ_RANGE, bounds):
            if len(items) == request.limit or size > LIST_BYTES_MAX:
                return Listed(tuple(items), self.revision, more=True)
            items.append(KeyValue(*row))
            size += len(items[-1].value)
        return Listed(tuple(items), self.revision)

    def _txn(self, txn: Txn) -> Result:
        found = tuple([self._read(compare.key) for compare in txn.compares])
        if not all(map(_holds, txn.compares, found)):
            return self._refused(found)
        for change in txn.changes:
            if isinstance(change, Put) and change.lease and change.lease not in self._leases:
                return LeaseGone(change.lease)
        return Applied(self._change(txn.changes))

    def _refused(self, found: tuple[KeyValue | None, ...]) -> Refused | Invalid:
        if sum([len(item.value) for item in found if item is not None]) > ANSWER_BYTES_MAX:
            return Invalid(
                f"refused, and what was compared is longer than the {ANSWER_BYTES_MAX} of an answer"
            )
        return Refused(found, self.revision)

    def _lease_grant(self, asked: int, now_ns: int) -> LeaseGranted:
        seconds = granted_seconds(asked)
        self._begin()
        return LeaseGranted(self._leases.grant(seconds, now_ns), seconds)

    def _lease_keep(self, lease: LeaseId, now_ns: int) -> LeaseGranted | LeaseGone:
        seconds = self._leases.keep(lease, now_ns)
        return LeaseGone(lease) if seconds is None else LeaseGranted(lease, seconds)

    def _lease_revoke(self, request: LeaseRevoke) -> Applied | LeaseGone | Invalid:
        if request.lease not in self._leases:
            return LeaseGone(request.lease)
        return Applied(self._end_lease(request.lease))

    # --- changes, inside a transaction

    def _end_lease(self, lease: LeaseId) -> Revision:
        self._begin()
        leased = [key for (key,) in self._db.execute(_READ_LEASE, (lease,))]
        self._leases.end(lease)
        return self._change(tuple([Delete(key) for key in leased]))

    def _change(self, changes: tuple[Change, ...]) -> Revision:
        self._begin()
        revision = Revision(self.revision + 1)
        changed = [after for change in changes if (after := self._change_one(change, revision)) is not None]
        if changed:
            self._fresh.append(self._history.append(tuple(changed)))
        return self.revision

    def _change_one(self, change: Change, revision: Revision) -> Changed | None:
        if isinstance(change, Put):
            (created,) = integers(self._db, _PUT, (change.key, change.value, revision, change.lease))
            item = KeyValue(change.key, change.value, Revision(created), revision, change.lease)
            if change.key == keys.SEAT:
                self._take_seat(item)
            return Changed(change.key, item)
        if change.key == keys.SEAT:
            self._seat = None
        existed = self._db.execute(_DELETE, (change.key,)).fetchall()
        return Changed(change.key, None) if existed else None

    def _stored_seat(self) -> KeyValue | None:
        return self._read(keys.SEAT)

    def _take_seat(self, item: KeyValue) -> None:
        self._seat = item
        self._is_unsealed = seat_state(item) is SeatState.SERVING

    # --- the transaction itself

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")

    def _commit(self) -> None:
        if self._db.in_transaction:
            self._history.compact()
            self._db.execute("COMMIT")

    def _on_wal(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """End this store for good when anything goes wrong inside (A6)."""
        if self._failure is not None:
            raise StoreFailed(f"the authority's file is out of use: {self._failure}")
        try:
            yield
        except apsw.Error as error:
            self._failure = f"{type(error).__name__}: {error}"
            raise StoreFailed(f"the authority's file failed: {self._failure}") from error
        except BaseException as error:
            self._failure = repr(error)
            raise


def _holds(compare: Compare, found: KeyValue | None) -> bool:
    if isinstance(compare, Absent):
        return found is None
    if found is None:
        return False
    if isinstance(compare, Older):
        return found.modified < compare.revision
    return found.value == compare.value if isinstance(compare, Equals) else found.modified == compare.modified


def _end_of(prefix: str) -> str | bytes:
    """The least text that is greater than every text starting with *prefix*."""
    for place in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[place])
        if code < 0x10FFFF:
            # U+D800 to U+DFFF are not characters.
            return prefix[:place] + chr(0xE000 if code == 0xD7FF else code + 1)
    return _AFTER_ALL_TEXT
