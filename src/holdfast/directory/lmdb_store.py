"""The store port on LMDB: one file, one writer thread, readers that wait for nobody.

An LMDB transaction belongs to the thread that began it, and its commit waits for the disk; so one thread of
its own writes. It takes all transactions that gathered while it last waited, in order, writes them in one
LMDB transaction and commits it once: they become durable, and visible, together. Then it hands the news to
the owner's loop. LMDB never writes over a page that a committed transaction uses, so a power cut leaves
the last commit whole.

Any error of a commit is final (D1): the owner hears ``ok=False`` of it and of all that follow, and ends.
"""

import os
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import lmdb

from holdfast.directory.store import BATCH_BYTES_MAX, Batch, MapName, Row
from holdfast.machine.files import make_durably, rename_durably
from holdfast.model.errors import DiskFailed, InvalidRequest, NoSpace
from holdfast.model.ports import Token

FILE: Final = "data.mdb"
LOCK: Final = "lock.mdb"
"""What LMDB calls its file."""
MAP_BYTES: Final = 64 << 30
"""How large the file may grow: address space alone, so far more than a suffix needs."""
SORTED_MIN: Final = 2_000
"""From how many rows on a transaction is written in the order of keys: with fewer, sorting gains nothing."""
READERS_MAX: Final = 1024
"""How many snapshots may be open at once: one for each search that is being answered in pages."""


def _make(directory: Path, names: tuple[MapName, ...]) -> None:
    """Make a new file aside, and give it its name when all of it is on the disk.

    LMDB writes a new file's first pages without a sync: a power cut then may leave half of them, which it
    takes for a file of something else ever after.
    """
    make_durably(directory)
    if (directory / FILE).exists():
        return
    aside = directory / "making"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    environment = lmdb.open(str(aside), max_dbs=len(names), mode=0o600)
    for name in names:
        environment.open_db(name.encode())
    environment.sync(True)
    environment.close()
    rename_durably(aside / FILE, directory / FILE)
    shutil.rmtree(aside)


class LmdbReader:
    """A snapshot of the environment."""

    def __init__(self, transaction: Any, maps: dict[MapName, Any]) -> None:
        self._transaction = transaction
        self._maps = maps
        self._cursors: dict[MapName, Any] = {}
        """For look-ups that end before the next begins."""

    def get(self, name: MapName, key: bytes) -> bytes | None:
        found = self._open().get(key, db=self._map(name))
        return None if found is None else bytes(found)

    def rows(
        self, name: MapName, *, start: bytes = b"", end: bytes | None = None, is_reversed: bool = False
    ) -> Iterator[Row]:
        with self._open().cursor(db=self._map(name)) as cursor:
            if is_reversed:
                # set_range stops at the first key that is not below the end: the one before it is the last.
                is_there = cursor.last() if end is None or not cursor.set_range(end) else cursor.prev()
                walk = cursor.iterprev()
            else:
                is_there = cursor.set_range(start) if start else cursor.first()
                walk = cursor.iternext()
            if not is_there:
                return
            for key, value in walk:
                if key < start or (end is not None and key >= end):
                    return
                yield key, value

    def tails(self, name: MapName, prefix: bytes, most: int) -> list[bytes]:
        cursor = self._cursors.get(name)
        if cursor is None:
            cursor = self._cursors[name] = self._open().cursor(db=self._map(name))
        found: list[bytes] = []
        if cursor.set_range(prefix) if prefix else cursor.first():
            size = len(prefix)
            for key in cursor.iternext(keys=True, values=False):
                if len(found) == most or key[:size] != prefix:
                    break
                found.append(key[size:])
        return found

    def close(self) -> None:
        if self._transaction is not None:
            self._cursors.clear()
            self._transaction.abort()
            self._transaction = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> Any:
        if self._transaction is None:
            raise InvalidRequest("the reader is closed")
        return self._transaction

    def _map(self, name: MapName) -> Any:
        found = self._maps.get(name)
        if found is None:
            raise InvalidRequest(f"the store has no map {name!r}")
        return found


def read_store(directory: Path, names: Iterable[MapName]) -> tuple[LmdbReader, Callable[[], None]]:
    """A snapshot of a store that another process may be writing to at the same time, and what closes it."""
    names = tuple(names)
    try:
        environment = lmdb.open(
            str(directory), readonly=True, max_dbs=len(names), max_readers=READERS_MAX, create=False
        )
        maps = {name: environment.open_db(name.encode(), create=False) for name in names}
        return LmdbReader(environment.begin(), maps), environment.close
    except lmdb.Error as fault:
        raise DiskFailed(f"{directory}: the store cannot be read: {fault}") from None


class LmdbStore:
    """One process's use of an environment. *post* runs a function on the owner's loop, from any thread."""

    def __init__(
        self,
        directory: Path,
        names: Iterable[MapName],
        on_committed: Callable[[Token, bool], None],
        post: Callable[[Callable[[], None]], None],
        *,
        map_bytes: int = MAP_BYTES,
    ) -> None:
        names = tuple(names)
        try:
            _make(directory, names)
            self._environment = lmdb.open(
                str(directory), map_size=map_bytes, max_dbs=len(names), max_readers=READERS_MAX, mode=0o600
            )
            self._maps = {name: self._environment.open_db(name.encode()) for name in names}
        except (lmdb.Error, OSError) as fault:
            raise DiskFailed(f"{directory}: the store cannot be opened: {fault}") from None
        self._on_committed = on_committed
        self._post = post
        self._waiting: deque[tuple[Batch, Token]] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._is_dropping = False
        self.failure: str | None = None
        """Why nothing is committed any more; None as long as all is well."""
        self._thread = threading.Thread(target=self._write_on, name="directory-store", daemon=True)
        self._thread.start()

    def read(self) -> LmdbReader:
        try:
            return LmdbReader(self._environment.begin(), self._maps)
        except lmdb.Error as fault:
            raise DiskFailed(f"the store cannot be read: {fault}") from None

    def write(self, batch: Batch, token: Token) -> None:
        for name, _, _ in batch.changes:
            if name not in self._maps:
                raise InvalidRequest(f"the store has no map {name!r}")
        with self._changed:
            if self.failure is not None or self._is_closing:
                raise DiskFailed(f"nothing is committed any more: {self.failure or 'the store is closed'}")
            self._waiting.append((batch, token))
            self._changed.notify()

    def copy(self, directory: Path) -> None:
        """Write a compacted copy of what is committed into *directory*, on the disk when this returns. From
        any thread; writers go on meanwhile."""
        try:
            make_durably(directory)
            self._environment.copy(str(directory), compact=True)
            for each in (directory / FILE, directory):
                descriptor = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
        except (lmdb.Error, OSError) as fault:
            raise DiskFailed(f"{directory}: the store cannot be copied: {fault}") from None

    def close(self, *, is_dropping: bool = False) -> None:
        """Commit what waits (or drop it, as a crash would) and close the file. Readers must be closed."""
        with self._changed:
            self._is_closing = True
            self._is_dropping = is_dropping
            self._changed.notify()
        self._thread.join()
        self._environment.close()

    # --- the writer's thread

    def _write_on(self) -> None:
        while gathered := self._gathered():
            fault = self._committed([batch for batch, _ in gathered])
            if fault is not None:
                with self._changed:
                    self.failure = fault
                    gathered += self._waiting
                    self._waiting.clear()
            if self._is_dropping:
                return  # as in a crash: it may be on the disk, and nobody hears of it
            self._tell([token for _, token in gathered], fault is None)
            if fault is not None:
                return

    def _gathered(self) -> list[tuple[Batch, Token]]:
        """All that waits, up to the size of one transaction; empty when the store closes."""
        with self._changed:
            while not self._waiting and not self._is_closing:
                self._changed.wait()
            found: list[tuple[Batch, Token]] = []
            size = 0
            while self._waiting and not self._is_dropping:
                size += self._waiting[0][0].bytes
                if found and size > BATCH_BYTES_MAX:
                    break
                found.append(self._waiting.popleft())
            return found

    def _committed(self, batches: list[Batch]) -> str | None:
        """Commit *batches* as one; return what went wrong."""
        try:
            with self._environment.begin(write=True) as transaction:
                if sum(len(batch.changes) for batch in batches) >= SORTED_MIN:
                    self._put_sorted(transaction, batches)
                    return None
                for batch in batches:
                    for name, key, value in batch.changes:
                        if value is None:
                            transaction.delete(key, db=self._maps[name])
                        else:
                            transaction.put(key, value, db=self._maps[name])
        except lmdb.MapFullError:
            return NoSpace.code
        except Exception as fault:  # whatever it was: it is not on the disk, and the owner must not think so
            return f"{type(fault).__name__}: {fault}"
        return None

    def _put_sorted(self, transaction: Any, batches: list[Batch]) -> None:
        """Write many rows map by map in the order of their keys, so that neighbours share a walk down."""
        rows: dict[MapName, dict[bytes, bytes | None]] = {name: {} for name in self._maps}
        for batch in batches:
            for name, key, value in batch.changes:
                rows[name][key] = value
        for name, found in rows.items():
            with transaction.cursor(db=self._maps[name]) as cursor:
                # By the key alone: comparing pairs takes several times as long.
                pairs = sorted(found.items(), key=itemgetter(0))
                cursor.putmulti([each for each in pairs if each[1] is not None])
            for key, value in found.items():
                if value is None:
                    transaction.delete(key, db=self._maps[name])

    def _tell(self, tokens: list[Token], ok: bool) -> None:
        def tell() -> None:
            for token in tokens:
                self._on_committed(token, ok)

        self._post(tell)
