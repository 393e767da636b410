"""The file of the embedded authority: how it is opened, its tables, its identity, and a summary for people.

WAL with ``synchronous=FULL``: a commit returns only after its frames are synced (A6). One process serves the
file, so it is locked exclusively, which also spares SQLite its shared memory. We start checkpoints ourselves:
SQLite's automatic ones hide the errors that must end the process.
"""

from hashlib import sha256
from typing import Final, cast

import apsw
import msgspec
from msgspec import Struct

from holdfast.authority import keys
from holdfast.authority.contract import Changed, KeyValue
from holdfast.authority.identity import Floors, Identity
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import MICROSECOND, Epoch, GroupId, Incarnation, LeaseId, Nonce, Revision, Term

APPLICATION_ID: Final = 0x48464155  # "HFAU", by which `file authority.sqlite` recognizes it
FORMAT: Final = 1
CACHE_KIB: Final = 16_384
REWRITE_BYTES: Final = 1 << 16  # SQLite's own file system writes less than 128 KiB at a time

LEASES_OF_FILE_BITS: Final = 22
"""Each file has four million lease numbers of its own, which is one a minute for eight years."""
RESTORE_STRIDE: Final = 1_000_000_000
"""The least distance between the numbers of one generation and those of the next; see :func:`restored`."""

SCHEMA: Final = f"""
CREATE TABLE item (
    key TEXT PRIMARY KEY, value BLOB NOT NULL,
    created INTEGER NOT NULL, modified INTEGER NOT NULL, lease INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX item_of_lease ON item (lease) WHERE lease <> 0;
CREATE TABLE lease (id INTEGER PRIMARY KEY AUTOINCREMENT, seconds INTEGER NOT NULL) STRICT;
CREATE TABLE event (revision INTEGER PRIMARY KEY, changes BLOB NOT NULL) STRICT;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
"""


class StoreFailed(HoldfastError):
    """Raised when the authority's file fails in any way; the process must end (A6)."""

    code = "store_failed"


def open_database(path: str, *, vfs: str | None = None, new_id: str | None = None) -> apsw.Connection:
    """Open the database at *path* exclusively; create it when *new_id* gives it an identity.

    Raises ``StoreFailed`` when the file cannot be read, is in use, or is not an authority's.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if new_id else 0)
    try:
        db = apsw.Connection(path, flags, vfs, statementcachesize=64)
        # Set this before the first access, or WAL would open shared memory.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        is_new = new_id is not None and integers(db, "SELECT count(*) FROM sqlite_schema") == (0,)
        if not is_new:
            _check_format(db, path)
        _prepare(db)
        if new_id is not None and is_new:
            _create(db, new_id)
        settle(db, vfs)
    except apsw.Error as error:
        raise StoreFailed(f"cannot open the authority's file {path}: {error}") from error
    return db


def integers(db: apsw.Connection, sql: str, bindings: tuple[str | bytes | int, ...] = ()) -> tuple[int, ...]:
    """Return the single row of integers that *sql* selects."""
    return cast(tuple[int, ...], db.execute(sql, bindings).fetchall()[0])


def read_identity(db: apsw.Connection) -> Identity:
    row = db.execute("SELECT value FROM item WHERE key = ?", (keys.IDENTITY,)).fetchone()
    if row is None:
        raise StoreFailed("the authority's file holds no identity")
    return msgspec.json.decode(row[0], type=Identity)


def restored(identity: Identity, above_epoch: Epoch, *, nonce: Nonce, wall_ns: int) -> Identity:
    """The identity with which a restored file continues above *above_epoch* (A5).

    Epochs start where the operator says. All other numbers start at the wall clock's microseconds. That is
    above every number the lost part of the file issued, and above those of another restoration of the same
    copy.
    """
    if above_epoch < identity.floors.epoch:
        raise InvalidRequest(f"epochs up to {identity.floors.epoch} are in use already; say no lower number")
    start = max(wall_ns // MICROSECOND, identity.generation * RESTORE_STRIDE)
    floors = Floors(
        epoch=above_epoch, incarnation=Incarnation(start), group=GroupId(start), term=Term(start), cas=start
    )
    return Identity(
        id=identity.id,
        generation=identity.generation + 1,
        floors=identity.floors.raised_to(floors),
        nonce=nonce,
    )


def restore(db: apsw.Connection, above_epoch: Epoch, *, nonce: Nonce, wall_ns: int) -> Identity:
    """Begin the next generation, above every number that the lost part of this file may have issued.

    The history starts anew, so every watch must list again. Leases stay: their holders may be alive.
    """
    identity = restored(read_identity(db), above_epoch, nonce=nonce, wall_ns=wall_ns)
    revision, lease = integers(
        db, "SELECT (SELECT max(revision) FROM event), coalesce((SELECT seq FROM sqlite_sequence), 0)"
    )
    start = identity.floors.incarnation
    with db:
        db.execute("DELETE FROM event")
        _write_identity(db, identity, Revision(max(revision + RESTORE_STRIDE, start)))
        db.execute("DELETE FROM sqlite_sequence")
        db.execute("INSERT INTO sqlite_sequence VALUES ('lease', ?)", (lease + start,))
    return identity


def settle(db: apsw.Connection, vfs: str | None) -> None:
    """Make durable what an ended process left in the WAL, before any client is told of it.

    When SQLite opens the file it takes every whole frame for committed, synced or not, and a power cut could
    undo an answer that came from an unsynced frame. A checkpoint syncs the WAL first, then the file.
    """
    rewrite_wal(db.filename_wal, vfs)
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def rewrite_wal(path: str, vfs: str | None) -> None:
    """Overwrite the WAL with its own bytes and sync it. We must hold the file's lock.

    After a failed sync the system counts the lost pages as written: it still shows them but does not sync
    them until they are written again (D1). A checkpoint from such frames followed by a power cut would leave
    the file ahead of its WAL, and older frames would overwrite it.
    """
    flags = [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL, 0]
    try:
        wal = apsw.VFSFile(vfs or "", path, flags)
    except apsw.CantOpenError:
        return  # there is no WAL
    for offset in range(0, wal.xFileSize(), REWRITE_BYTES):
        wal.xWrite(wal.xRead(min(REWRITE_BYTES, wal.xFileSize() - offset), offset), offset)
    wal.xSync(apsw.SQLITE_SYNC_FULL)
    wal.xClose()


def _prepare(db: apsw.Connection) -> None:
    mode = db.execute("PRAGMA journal_mode = WAL").fetchall()[0][0]
    if mode != "wal":
        raise StoreFailed(f"SQLite offers journal mode {mode!r} here, not WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    db.execute("PRAGMA temp_store = MEMORY")


def _create(db: apsw.Connection, new_id: str) -> None:
    identity = Identity(id=new_id, generation=1, floors=Floors(), nonce=Nonce(new_id))
    with db:
        db.execute(SCHEMA)
        db.execute("INSERT INTO sqlite_sequence VALUES ('lease', ?)", (first_lease(new_id),))
        _write_identity(db, identity, Revision(1))


def first_lease(new_id: str) -> int:
    """Where a new file begins to count its leases.

    No two files issue the same number (A8). A process that holds a lease of one authority and is granted
    another by the next would take the two for one.
    """
    drawn = int.from_bytes(sha256(new_id.encode()).digest()[:5], "big")
    return drawn << LEASES_OF_FILE_BITS


def _write_identity(db: apsw.Connection, identity: Identity, revision: Revision) -> None:
    value = msgspec.json.encode(identity)
    (created,) = integers(
        db, "SELECT coalesce((SELECT created FROM item WHERE key = ?), ?)", (keys.IDENTITY, revision)
    )
    item = KeyValue(keys.IDENTITY, value, Revision(created), revision, LeaseId(0))
    db.execute(
        "INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?, ?)",
        (item.key, item.value, item.created, item.modified, item.lease),
    )
    event = msgspec.msgpack.encode((Changed(keys.IDENTITY, item),))
    db.execute("INSERT INTO event VALUES (?, ?)", (revision, event))


def _check_format(db: apsw.Connection, path: str) -> None:
    (application,) = integers(db, "PRAGMA application_id")
    (version,) = integers(db, "PRAGMA user_version")
    if application != APPLICATION_ID:
        raise StoreFailed(f"{path} is not an authority's file")
    if version != FORMAT:
        raise StoreFailed(f"{path} has format {version}; this Holdfast reads {FORMAT}")


_ITEMS: Final = (
    "SELECT key, value, created, modified, lease FROM item WHERE substr(key, 1, ?) = ? ORDER BY key LIMIT ?"
)
_LEASES: Final = (
    "SELECT id, seconds, (SELECT count(*) FROM item WHERE item.lease = lease.id AND item.lease <> 0)"
    " FROM lease ORDER BY id"
)


class LeaseSummary(Struct, frozen=True):
    id: int
    seconds: int
    keys: int
    """How many keys stand under this lease."""


class Contents(Struct, frozen=True, kw_only=True):
    """A summary of everything in the file."""

    identity: Identity
    revision: int
    oldest_event: int
    """The first revision from which a watch can start."""
    leases: tuple[LeaseSummary, ...]
    items: tuple[KeyValue, ...]
    more: bool
    """There are more items than were requested."""


def read_contents(db: apsw.Connection, *, prefix: str, limit: int) -> Contents:
    """Read everything except the values' history; return at most *limit* items that start with *prefix*."""
    oldest, newest = integers(db, "SELECT min(revision), max(revision) FROM event")
    items = [KeyValue(*row) for row in db.execute(_ITEMS, (len(prefix), prefix, limit + 1))]
    return Contents(
        identity=read_identity(db),
        revision=newest,
        oldest_event=oldest,
        leases=tuple(LeaseSummary(*cast(tuple[int, int, int], row)) for row in db.execute(_LEASES)),
        items=tuple(items[:limit]),
        more=len(items) > limit,
    )
