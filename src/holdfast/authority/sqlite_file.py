"""The embedded authority's file: how it is opened, what its tables are, who it says it is.

WAL with ``synchronous=FULL``: a commit has returned only when its frames are synced (PROTOCOL A6). One
process serves the file, so it is locked exclusively, which also spares SQLite its shared memory.
Checkpoints are ours to start: SQLite's automatic ones swallow the errors that must end the process.
"""

from typing import Final, cast

import apsw
import msgspec

from holdfast.authority.contract import Changed, KeyValue
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import LeaseId, Revision

APPLICATION_ID: Final = 0x48464155  # "HFAU": `file authority.sqlite` can tell it from other databases
FORMAT: Final = 1
CACHE_KIB: Final = 16_384
IDENTITY_KEY: Final = "authority/identity"

# A restored file lacks changes that its clients saw. Continuing this far above keeps every revision and
# lease they remember from meaning something else now (A5).
RESTORE_STRIDE: Final = 1 << 32

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
    """Raised when the authority's file fails in any way; the process must end (PROTOCOL A6)."""

    code = "store_failed"


class Identity(msgspec.Struct, frozen=True):
    """Who this authority is, kept under ``authority/identity`` (A5)."""

    id: str
    generation: int = 1
    """Raised by every restore."""
    epoch_floor: int = 0
    """Epochs are issued above this one."""


def open_database(path: str, *, vfs: str | None = None, new_id: str | None = None) -> apsw.Connection:
    """The database at *path*, exclusively ours; an empty one is made when *new_id* names it.

    Raises ``StoreFailed`` when the file cannot be read, is in use, or is not an authority's.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if new_id else 0)
    try:
        db = apsw.Connection(path, flags, vfs, statementcachesize=64)
        _prepare(db)
        if _is_empty(db) and new_id:
            _create(db, Identity(id=new_id))
        _check_format(db, path)
    except apsw.Error as error:
        raise StoreFailed(f"cannot open the authority's file {path}: {error}") from error
    return db


def integers(db: apsw.Connection, sql: str, bindings: tuple[str | bytes | int, ...] = ()) -> tuple[int, ...]:
    """The one row that *sql* gives, all integers."""
    return cast(tuple[int, ...], db.execute(sql, bindings).fetchall()[0])


def read_identity(db: apsw.Connection) -> Identity:
    row = db.execute("SELECT value FROM item WHERE key = ?", (IDENTITY_KEY,)).fetchone()
    if row is None:
        raise StoreFailed("the authority's file holds no identity")
    return msgspec.json.decode(row[0], type=Identity)


def restored(identity: Identity, above_epoch: int) -> Identity:
    """The identity with which a restored file continues above *above_epoch* (A5)."""
    if above_epoch < identity.epoch_floor:
        raise InvalidRequest(f"the epoch floor is {identity.epoch_floor} already and never goes back")
    return Identity(id=identity.id, generation=identity.generation + 1, epoch_floor=above_epoch)


def restore(db: apsw.Connection, above_epoch: int) -> Identity:
    """Raise the generation and the floor of epochs, and forget what only clients of the lost file know.

    History starts anew, so every watch is told to list again. Leases stay: their holders may be alive.
    """
    identity = restored(read_identity(db), above_epoch)
    revision, lease = integers(
        db, "SELECT (SELECT max(revision) FROM event), coalesce((SELECT seq FROM sqlite_sequence), 0)"
    )
    with db:
        db.execute("DELETE FROM event")
        _write_identity(db, identity, Revision(revision + RESTORE_STRIDE))
        db.execute("DELETE FROM sqlite_sequence")
        db.execute("INSERT INTO sqlite_sequence VALUES ('lease', ?)", (lease + RESTORE_STRIDE,))
    return identity


def _prepare(db: apsw.Connection) -> None:
    # Before the first access, or WAL would open shared memory.
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    mode = db.execute("PRAGMA journal_mode = WAL").fetchall()[0][0]
    if mode != "wal":
        raise StoreFailed(f"SQLite offers journal mode {mode!r} here, not WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    db.execute("PRAGMA temp_store = MEMORY")


def _is_empty(db: apsw.Connection) -> bool:
    return integers(db, "SELECT count(*) FROM sqlite_schema") == (0,)


def _create(db: apsw.Connection, identity: Identity) -> None:
    with db:
        db.execute(SCHEMA)
        _write_identity(db, identity, Revision(1))


def _write_identity(db: apsw.Connection, identity: Identity, revision: Revision) -> None:
    value = msgspec.json.encode(identity)
    (created,) = integers(
        db, "SELECT coalesce((SELECT created FROM item WHERE key = ?), ?)", (IDENTITY_KEY, revision)
    )
    item = KeyValue(IDENTITY_KEY, value, Revision(created), revision, LeaseId(0))
    db.execute(
        "INSERT OR REPLACE INTO item VALUES (?, ?, ?, ?, ?)",
        (item.key, item.value, item.created, item.modified, item.lease),
    )
    event = msgspec.msgpack.encode((Changed(IDENTITY_KEY, item),))
    db.execute("INSERT INTO event VALUES (?, ?)", (revision, event))


def _check_format(db: apsw.Connection, path: str) -> None:
    (application,) = integers(db, "PRAGMA application_id")
    (version,) = integers(db, "PRAGMA user_version")
    if application != APPLICATION_ID:
        raise StoreFailed(f"{path} is not an authority's file")
    if version != FORMAT:
        raise StoreFailed(f"{path} has format {version}; this Holdfast reads {FORMAT}")
