"""The database of a stored object: one SQLite file that trails the sequence and knows how far it is (W7).

Operations change it within one transaction that stays open. :meth:`ObjectDatabase.flush` ends the transaction
and, in the same one, writes the position that the changes reach and all that belongs to the object: replies,
timers, calls in line. So whatever ends the process, the file holds the object exactly as of one position, and
what was executed after that is rolled back and executed again from the log. A flush syncs nothing: until its
files were synced and hashed no checkpoint counts on it.

The file is in WAL mode and checkpointed by its owner alone, so between two of these moments the main file
does not change: it is the snapshot that other hosts fetch.

Members are compared by a sum over the rows that were written, minus those that were replaced: two members
that executed the same have the same sum, although SQLite lays out their files differently (decision 58).
"""

import re
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import apsw
import msgspec

from holdfast.execution.stored import Stored
from holdfast.model.errors import Corruption, DiskFailed, EndsProcess, HoldfastError, InvalidRequest, NoSpace
from holdfast.model.ids import Position

Value = str | int | float | bytes | None
Row = tuple[Any, ...]

WAL_PAGES_MAX: Final = 16_384
"""The most pages in the WAL, 64 MB: beyond, they are brought into the main file between two operations. While
operations follow each other without a pause, one is always under way that began before the last ones were
brought there, so that SQLite never begins the WAL anew by itself."""
ROWS_MAX: Final = 100_000
"""The most rows that one statement may return; more would hold up the host's loop."""
CACHE_KIB: Final = 16 << 10
"""How much of its database an object keeps in memory."""
HEAD_TABLE: Final = "holdfast_head"
_HEAD: Final = (
    f"CREATE TABLE {HEAD_TABLE} "
    "(id INTEGER PRIMARY KEY CHECK (id = 1), position INTEGER NOT NULL, head BLOB NOT NULL, sum BLOB)"
)
_SUM_BYTES: Final = 16
_SUM_MASK: Final = (1 << 8 * _SUM_BYTES) - 1

_UNREPEATABLE: Final = frozenset(
    {
        "random",
        "randomblob",
        "current_timestamp",
        "current_date",
        "current_time",
        "load_extension",
        "total_changes",
    }
)
"""Functions whose result differs from member to member."""
_OURS_ALONE: Final = frozenset({apsw.SQLITE_TRANSACTION, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH})
_PRAGMAS: Final = frozenset({"data_version", "table_info", "table_xinfo", "table_list"})
"""The settings that classes may read; full text tables read the first."""
_WRITES: Final = frozenset(
    {
        apsw.SQLITE_INSERT,
        apsw.SQLITE_UPDATE,
        apsw.SQLITE_DELETE,
        apsw.SQLITE_DROP_TABLE,
        apsw.SQLITE_ALTER_TABLE,
    }
)
_DISK: Final = (
    apsw.IOError,
    apsw.FullError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.NoMemError,
    apsw.ReadOnlyError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.ProtocolError,
)
_NESTS: Final = re.compile("savepoint|rollback|release", re.IGNORECASE)
"""What a statement has that begins or ends a savepoint; others may have it, too."""
_GAP: Final = r"(?:\s|/\*.*?\*/|--[^\n]*\n)"
_ROLLS_BACK: Final = re.compile(
    rf"\b(?:or|conflict){_GAP}+rollback\b|\braise{_GAP}*\({_GAP}*rollback\b", re.IGNORECASE | re.DOTALL
)
"""A statement that answers a conflict by rolling back everything since the last flush."""
STEP: Final = "holdfast_step"
"""The savepoint around those of a class."""
_encode: Final = msgspec.msgpack.Encoder().encode


class StorageFailed(EndsProcess):
    """Raised when an object's database cannot be used any more: the host ends (D1). It passes through the
    method that met it, because what the method has changed is not known."""

    def __init__(self, error: HoldfastError) -> None:
        super().__init__(str(error))
        self.error = error


class StorageLost(HoldfastError):
    """Raised when this host lacks the files that a checkpoint stands on: the member takes another's state."""

    code = "storage_lost"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a database is."""

    path: str
    vfs: str = ""
    """SQLite's name of the file system; empty for the machine's."""
    is_exclusive: bool = False
    """Whether the file system has no shared memory: then the object's connection is the only one."""


def connect(place: Place, *, may_create: bool = False) -> apsw.Connection:
    """Open a database, which is made if it is not there and that is allowed. Raises apsw's errors."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if may_create else 0)
    connection = apsw.Connection(place.path, flags=flags, vfs=place.vfs or None)
    # Closing the last connection would bring the WAL into the main file, which others may be fetching.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    for pragma in (
        f"locking_mode={'EXCLUSIVE' if place.is_exclusive else 'NORMAL'}",
        "journal_mode=WAL",
        # The WAL is synced before its pages go into the main file, and not at each commit: a commit that a
        # power cut takes away is executed again from the log.
        "synchronous=NORMAL",
        "temp_store=MEMORY",
        f"cache_size=-{CACHE_KIB}",
        "foreign_keys=ON",
        "trusted_schema=OFF",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.wal_autocheckpoint(0)
    return connection


class ObjectDatabase:
    """One object's database. Nothing on disk is touched before it is first used."""

    def __init__(
        self,
        place: Place,
        schema: str,
        *,
        is_new: bool,
        prepare: Callable[["ObjectDatabase"], None] = lambda _: None,
    ) -> None:
        """*prepare* is called once before the file is opened: it ends whoever used it before, and removes
        what a new one replaces."""
        self.place = place
        self._schema = schema
        self._is_new = is_new
        self._prepare = prepare
        self._connection: apsw.Connection | None = None
        self._failure: HoldfastError | None = None
        self.is_closed = False
        """Whether the object was given up; what others still do with its file does not matter."""
        self._is_ours = self._is_asked = False
        self._step: Hashable = None
        self._is_nested = False
        """Whether the step under way has used savepoints."""
        self._sum = 0
        self._shadows: frozenset[str] = frozenset()
        self._wal_pages = 0
        self.position = Position(0)
        """The position that the file holds: that of the last flush."""
        self.head = b""
        """What was flushed with it."""
        self.is_changed = False
        """Whether anything was executed on it since it was opened."""

    # --- for the object's methods

    def execute(
        self, sql: str, values: tuple[Value, ...], *, is_query: bool, step: Hashable = None
    ) -> list[Row]:
        """Run one statement. Raises apsw's errors for what is wrong with it, ``InvalidRequest``,
        :class:`StorageFailed`.

        *step*: the part of an operation that runs in one go, of which this is a statement. Savepoints end
        with it, because flushes come between two steps, at a time of each member's own, and end them, too.
        """
        with self._guarded():
            connection = self._opened()
            may_nest = _NESTS.search(sql) is not None
            if may_nest:
                _refuse_roll_back(sql)
            if not is_query:
                self._begin(connection, step, may_nest=may_nest)
            cursor = connection.cursor()
            if is_query:
                cursor.exec_trace = _only_reading
            self._is_asked = is_query
            rows: list[Row] = []
            # A cached statement is not judged again, and whether this one may run depends on who runs it.
            for row in cursor.execute(sql, values, can_cache=not may_nest):
                if len(rows) == ROWS_MAX:
                    raise InvalidRequest(f"the statement gives more than {ROWS_MAX} rows: ask with LIMIT")
                rows.append(row)
            return rows

    def _begin(self, connection: apsw.Connection, step: Hashable, *, may_nest: bool) -> None:
        """Let a transaction be open, and the savepoints of an earlier step be over."""
        if not connection.in_transaction:
            self.is_changed = True
            self._run("BEGIN IMMEDIATE")
        if step != self._step:
            self._step = step
            if self._is_nested:
                self._run(f"RELEASE {STEP}")
                self._is_nested = False
            # A flush changes it, and so does the last step, which another member may have executed before it
            # was started again.
            connection.set_last_insert_rowid(0)
        if may_nest and not self._is_nested:
            self._run(f"SAVEPOINT {STEP}")
            self._is_nested = True

    # --- for the object's execution

    def open(self) -> None:
        """Open the file now and read how far it is. Raises :class:`StorageLost` when it cannot be read,
        :class:`StorageFailed`."""
        self._opened()

    def flush(self, position: Position, head: bytes) -> None:
        """Let the file hold everything executed up to *position*, together with *head*."""
        with self._guarded():
            connection = self._opened()
            self.is_changed = True
            if not connection.in_transaction:
                self._run("BEGIN IMMEDIATE")
            self._write_head(position, head)
            self._run("COMMIT")
            self._step, self._is_nested = None, False
            self._find_shadows()
        self.position, self.head = position, head

    def _write_head(self, position: Position, head: bytes) -> None:
        self._run(f"INSERT OR REPLACE INTO {HEAD_TABLE} VALUES (1, ?, ?, ?)", (position, head, self.digest()))

    @property
    def is_wal_long(self) -> bool:
        return self._wal_pages > WAL_PAGES_MAX

    def settle(self) -> int:
        """Bring everything flushed into the main file and sync it, where no other connection can be made
        (:attr:`Place.is_exclusive`) or the WAL is to be begun anew; returns what :func:`settle` does."""
        with self._guarded():
            return settle(self._opened())

    def digest(self) -> bytes:
        """The sum of the rows; equal for members that executed the same."""
        return self._sum.to_bytes(_SUM_BYTES, "big")

    def close(self) -> None:
        """Give up what was not flushed. The object is not used any more."""
        self.is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(True)

    # --- the connection

    def _opened(self) -> apsw.Connection:
        if self._connection is not None:
            return self._connection
        if self._failure is not None:
            raise StorageFailed(self._failure)
        if self.is_closed:
            raise InvalidRequest("this object was given up, and its database with it")
        _refuse_roll_back(self._schema)
        self._prepare(self)
        try:
            connection = connect(self.place, may_create=self._is_new)
            if self._is_new:
                self._make(connection)
            else:
                self._read_head(connection)
        except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
            raise StorageLost(f"the database of the object cannot be read: {error}") from error
        except _DISK as error:
            raise StorageFailed(self._failed(error)) from error
        connection.authorizer = self._may
        connection.preupdate_hook(self._changed)
        connection.set_wal_hook(self._note_wal)
        self._connection = connection
        self._find_shadows()
        return connection

    def _make(self, connection: apsw.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE", can_cache=False)
        connection.execute(_HEAD)
        try:
            connection.execute(self._schema)
        except _DISK:
            raise
        except apsw.Error as error:
            connection.close(True)
            raise InvalidRequest(f"the schema of the class cannot be used: {error}") from error

    def _read_head(self, connection: apsw.Connection) -> None:
        found = connection.execute(f"SELECT position, head, sum FROM {HEAD_TABLE} WHERE id = 1").fetchone()
        if found is None:
            raise StorageLost("the database of the object has never been flushed")
        self.position, self.head = Position(int(found[0])), bytes(found[1])
        self._sum = int.from_bytes(found[2], "big")

    def _run(self, sql: str, values: tuple[Value, ...] = ()) -> list[Row]:
        """Run a statement that only we may run. It is not cached, where a class's own could find it."""
        self._is_ours = True
        try:
            return list(self._opened().execute(sql, values, can_cache=False))
        finally:
            self._is_ours = False

    def _may(
        self, action: int, first: str | None, second: str | None, database: str | None, _: str | None
    ) -> int:
        """SQLite asks before it prepares a statement."""
        if self._is_ours:
            return apsw.SQLITE_OK
        is_denied = (
            action in _OURS_ALONE
            # What is temporary is in no flush: it is gone on the member that was started again.
            or (database or "").lower() == "temp"
            or (action == apsw.SQLITE_PRAGMA and (first or "").lower() not in _PRAGMAS)
            or (action == apsw.SQLITE_FUNCTION and (second or "").lower() in _UNREPEATABLE)
            or (action in _WRITES and (first or "").lower() == HEAD_TABLE)
            or (action == apsw.SQLITE_SAVEPOINT and (self._is_asked or (second or "").lower() == STEP))
        )
        return apsw.SQLITE_DENY if is_denied else apsw.SQLITE_OK

    def _changed(self, update: apsw.PreUpdate) -> None:
        table = update.table_name
        if table == HEAD_TABLE or table in self._shadows or update.database_name != "main":
            return
        if update.op != "INSERT":
            self._sum -= _number(table, update.old or ())
        if update.op != "DELETE":
            self._sum += _number(table, update.new or ())
        self._sum &= _SUM_MASK

    def _note_wal(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _find_shadows(self) -> None:
        """Find the tables that virtual tables keep for themselves: what is in them depends on when they were
        flushed."""
        found = self._run("SELECT name FROM pragma_table_list WHERE type = 'shadow'")
        self._shadows = frozenset(name for (name,) in found)

    # --- failures

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except _DISK as error:
            raise StorageFailed(self._failed(error)) from error

    def _failed(self, error: apsw.Error) -> HoldfastError:
        """Note the failure: this database is not used again, because SQLite may have rolled back."""
        self._failure = translated(error, self.place.path)
        self._connection = None
        return self._failure


def settle(connection: apsw.Connection) -> int:
    """Bring everything committed into the main file, and sync it; returns how many frames of the WAL are
    there. Raises apsw's errors."""
    frames, done = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    if done < frames:
        raise apsw.BusyError(f"only {done} of {frames} frames went into the main file")
    return done


def translated(error: apsw.Error, path: str) -> HoldfastError:
    """An error of SQLite's that is the disk's, as ours."""
    if isinstance(error, apsw.FullError):
        return NoSpace(f"{path}: {error}")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Corruption(
            f"an object's database: {error}", file=path, offset=0, expected="pages", found="damage"
        )
    return DiskFailed(f"{path}: {error}")


def _number(table: str, row: Row) -> int:
    return int.from_bytes(blake2b(_encode((table, row)), digest_size=_SUM_BYTES).digest(), "big")


def _only_reading(cursor: apsw.Cursor, sql: str, values: object) -> bool:
    if not cursor.is_readonly:
        raise InvalidRequest("a query changes nothing: let an operation do this")
    return True


def _refuse_roll_back(sql: str) -> None:
    """*Without it:* a conflict undoes the operations since the last flush, which is another one on every
    member."""
    if _ROLLS_BACK.search(sql) is not None:
        raise InvalidRequest(
            "OR ROLLBACK, ON CONFLICT ROLLBACK and RAISE(ROLLBACK, ...) would undo earlier operations, too: "
            "let a conflict ABORT, and use SAVEPOINT and ROLLBACK TO within a method"
        )


def check_schema(cls: type) -> None:
    """Make the tables of *cls* once, in memory. Raises ``InvalidRequest`` for a schema that makes none."""
    schema = cls.schema if issubclass(cls, Stored) else ""
    if not isinstance(schema, str):
        raise InvalidRequest(f"{cls.__name__}.schema is a {type(schema).__name__}; it is SQL, as text")
    tried = ObjectDatabase(Place(":memory:"), schema, is_new=True)
    tried.open()
    tried.close()
