"""The store port: ordered maps of bytes, changed in transactions that survive whole or not at all.

Entries, changes and vectors of a replica are written in one transaction, so that none of them ever tells of
what the others have lost. Bindings: :mod:`.lmdb_store`, and :mod:`.memory_store` with the rules of the
simulated disk. ``tests/unit/directory_store_contract.py`` has what each must do.

- ``write`` queues a transaction. Transactions are applied in the order of the calls.
  ``on_committed(token, ok)`` follows each, in that order, when it is on the disk.
- A reader sees all transactions that are committed, each whole, and no others. It is a snapshot: it sees the
  same until it is closed.
- After a power cut every committed transaction is there. Of the others some may be: the first ones, in order.
- After ``ok=False`` nothing more is committed, and the owner must stop (D1).
- A look-up that fails raises; it never says that nothing is there (G2).
"""

from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Final, Protocol, Self

from holdfast.model.errors import InvalidRequest
from holdfast.model.ports import Token

STORE_KEY_BYTES_MAX: Final = 511
"""The longest key: LMDB's own bound, which cannot be raised without building it anew."""
BATCH_BYTES_MAX: Final = 64 << 20
"""How much one transaction writes at most: what a disk of 100 MB/s writes while a client still waits."""

MapName = str
Row = tuple[bytes, bytes]


class Batch:
    """The changes of one transaction, in order; the last one of a key counts."""

    def __init__(self) -> None:
        self.changes: list[tuple[MapName, bytes, bytes | None]] = []
        """Map, key, and the value; None erases the key."""
        self.bytes = 0

    def put(self, name: MapName, key: bytes, value: bytes) -> None:
        self._add(name, key, value, len(value))

    def put_keys(self, name: MapName, keys: Collection[bytes]) -> None:
        """Put many keys without a value, as indexes have them: looked at together, which is quicker."""
        if not keys:
            return
        shortest, longest = min(map(len, keys)), max(map(len, keys))
        if shortest == 0 or longest > STORE_KEY_BYTES_MAX:
            wrong = longest if shortest else 0
            raise InvalidRequest(f"a key has 1 to {STORE_KEY_BYTES_MAX} bytes, not {wrong}")
        self._grow(sum(map(len, keys)))
        self.changes.extend([(name, key, b"") for key in keys])

    def erase(self, name: MapName, key: bytes) -> None:
        """Remove a key; one that is not there changes nothing."""
        self._add(name, key, None, 0)

    def _add(self, name: MapName, key: bytes, value: bytes | None, length: int) -> None:
        if not 0 < len(key) <= STORE_KEY_BYTES_MAX:
            raise InvalidRequest(f"a key has 1 to {STORE_KEY_BYTES_MAX} bytes, not {len(key)}")
        self._grow(len(key) + length)
        self.changes.append((name, key, value))

    def _grow(self, size: int) -> None:
        if self.bytes + size > BATCH_BYTES_MAX:
            raise InvalidRequest(f"a transaction writes at most {BATCH_BYTES_MAX} bytes; begin another")
        self.bytes += size


class Reader(Protocol):
    """A snapshot of the store. Close it soon: what it can see takes up space until then."""

    def get(self, name: MapName, key: bytes) -> bytes | None: ...

    def rows(
        self, name: MapName, *, start: bytes = b"", end: bytes | None = None, is_reversed: bool = False
    ) -> Iterator[Row]:
        """The rows with start <= key < end, by key."""
        ...

    def tails(self, name: MapName, prefix: bytes, most: int) -> list[bytes]:
        """What follows *prefix* in the first *most* keys that begin with it, by key."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Store(Protocol):
    """The maps of one replica. The owner hears ``on_committed(token, ok)``."""

    def read(self) -> Reader: ...

    def write(self, batch: Batch, token: Token) -> None: ...


def prefix_end(prefix: bytes) -> bytes | None:
    """The end of the range of all keys that begin with *prefix*; None if there is no greater key."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
