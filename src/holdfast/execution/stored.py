"""Stored objects: classes that keep their state in a database of their own (W7).

A class that inherits :class:`Stored` has ``self.database``. Its methods are ordinary ones and change that
database; other attributes are kept with it. The sequence is the truth: what the database holds trails it,
and says how far it is. A checkpoint of such an object is small. It has what belongs to the object and the
manifest of its file; the file itself stays where it is, and another host fetches it by its hashes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec

from holdfast.execution.capture import UNCAPTURED, Capture, NotCapturable
from holdfast.execution.context import scope_now
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Position

if TYPE_CHECKING:  # a client imports classes that are stored, and has no SQLite
    from holdfast.execution.database import ObjectDatabase, Row, Value


class Database:
    """What a method sees of its object's database."""

    def __init__(self, database: "ObjectDatabase") -> None:
        self.under = database

    def execute(self, sql: str, *values: "Value") -> "list[Row]":
        """Run one statement with *values* for its question marks; returns its rows.

        In a query it may only read. Transactions are Holdfast's: what an operation changes is there for the
        next one, and survives when the operation is committed by its group. Raises what SQLite finds wrong.
        """
        scope = scope_now.get()
        if scope is None:
            raise InvalidRequest("the database is used by methods, and not by __init__: write a `schema`")
        # A method goes on in another step when a group that it called has answered: others may run meanwhile.
        step = (scope.client, scope.number, scope.calls)
        return self.under.execute(sql, values, is_query=scope.timers is None, step=step)

    def one(self, sql: str, *values: "Value") -> "Row | None":
        """The first row of what :meth:`execute` returns; None when there is none."""
        return next(iter(self.execute(sql, *values)), None)


class Stored:
    """The base of classes with a database of their own."""

    schema: ClassVar[str] = ""
    """The statements that make the tables of a new object."""

    @property
    def database(self) -> Database:
        found = self.__dict__.get(UNCAPTURED)
        if not isinstance(found, Database):
            raise InvalidRequest("this object has no database: the database is used by methods of a group")
        return found


def attach(instance: object, database: "ObjectDatabase") -> None:
    """Let *instance* have that database."""
    instance.__dict__[UNCAPTURED] = Database(database)


def database_of(instance: object) -> "ObjectDatabase | None":
    """The database that *instance* has, if it has one."""
    found = getattr(instance, "__dict__", {}).get(UNCAPTURED)
    return found.under if isinstance(found, Database) else None


class StoredState(msgspec.Struct, frozen=True, array_like=True):
    """The state of a stored object, as a checkpoint holds it."""

    attributes: bytes
    """The attributes besides the database."""
    manifest: bytes = b""
    """The manifest of the database's file; empty for an object as at creation."""
    home: str = ""
    """Which file it was, on the host that made the checkpoint."""


def stored_state(state: bytes) -> StoredState:
    """Raises ``msgspec.DecodeError``."""
    return msgspec.msgpack.decode(state, type=StoredState)


class ObjectFiles(Protocol):
    """The files of one group's object on this host."""

    def fresh(self) -> "ObjectDatabase":
        """A new database, which replaces everything there is once it is used."""
        ...

    def opened(self, state: bytes, position: Position) -> "ObjectDatabase":
        """The database that a checkpoint at *position* stands on, which holds that position or a later one.
        Raises :class:`.database.StorageLost`."""
        ...


class StoredCapture(Capture):
    """Captures the attributes of stored objects. Their databases are captured as files."""

    def __init__(self, cls: type) -> None:
        super().__init__(cls)
        if self.is_checkpointable:
            raise NotCapturable(f"{cls.__name__} is a stored class, so it has no get_state and set_state")

    def state_of(self, instance: object, fresh: Callable[[], Any] | None = None, version: str = "") -> bytes:
        return msgspec.msgpack.encode(StoredState(super().state_of(instance, fresh, version)))

    def restored(self, state: bytes, fresh: Callable[[], Any], version: str = "") -> Any:
        return super().restored(stored_state(state).attributes, fresh, version)

    def digest_of(self, instance: object) -> bytes:
        database = database_of(instance)
        return super().digest_of(instance) + (database.digest() if database is not None else b"")


def capture_of(cls: type) -> Capture:
    """How objects of *cls* are captured. Raises ``NotCapturable``."""
    return StoredCapture(cls) if issubclass(cls, Stored) else Capture(cls)
