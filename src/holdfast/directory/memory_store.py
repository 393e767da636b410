"""The store port in memory, with the rules of the simulated disk: a power cut takes back whole transactions.

The simulator decides when a transaction reaches the disk (:meth:`MemoryStore.commit`), whether it does at all
(:meth:`MemoryStore.fail`), and how many of those on their way survive a power cut (:meth:`StoreImage.cut`).
The image is the disk: it outlives the process, and can be copied and put back like one.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType

from holdfast.directory.store import Batch, MapName, Row
from holdfast.model.errors import DiskFailed, InvalidRequest, invariant
from holdfast.model.ports import Token


class OrderedMap:
    """One map: a dictionary, and its keys in order."""

    def __init__(self, rows: dict[bytes, bytes] | None = None, keys: list[bytes] | None = None) -> None:
        self.rows = rows or {}
        self.keys = keys or []

    def copy(self) -> "OrderedMap":
        return OrderedMap(dict(self.rows), list(self.keys))

    def set(self, key: bytes, value: bytes | None) -> None:
        is_there = key in self.rows
        if value is not None:
            self.rows[key] = value
            if not is_there:
                insort(self.keys, key)
        elif is_there:
            del self.rows[key]
            del self.keys[bisect_left(self.keys, key)]


class StoreImage:
    """What is on the disk."""

    def __init__(self, names: Iterable[MapName]) -> None:
        self.maps = {name: OrderedMap() for name in names}
        self.on_their_way: deque[Batch] = deque()
        """Transactions that the disk has heard of and not confirmed."""
        self._readers = 0

    def apply_next(self) -> None:
        """The oldest transaction on its way is on the disk now."""
        batch = self.on_their_way.popleft()
        if self._readers:
            # Open readers go on seeing the maps that they began with.
            self.maps = {name: each.copy() for name, each in self.maps.items()}
            self._readers = 0
        for name, key, value in batch.changes:
            self.maps[name].set(key, value)

    def snapshot(self) -> dict[MapName, OrderedMap]:
        self._readers += 1
        return self.maps

    def release(self, maps: dict[MapName, OrderedMap]) -> None:
        if maps is self.maps:
            self._readers -= 1

    def cut(self, survivors: int) -> None:
        """The power fails: the first *survivors* of the transactions on their way are there, the rest never
        were. The process that wrote them has ended."""
        for _ in range(min(survivors, len(self.on_their_way))):
            self.apply_next()
        self.on_their_way.clear()
        self._readers = 0

    def copy(self) -> "StoreImage":
        """What a backup of the disk has: nothing of what is still on its way."""
        image = StoreImage(())
        image.maps = {name: each.copy() for name, each in self.maps.items()}
        return image


class MemoryReader:
    """A snapshot of a memory store."""

    def __init__(self, image: StoreImage) -> None:
        self._image = image
        self._maps: dict[MapName, OrderedMap] | None = image.snapshot()

    def get(self, name: MapName, key: bytes) -> bytes | None:
        return self._map(name).rows.get(key)

    def rows(
        self, name: MapName, *, start: bytes = b"", end: bytes | None = None, is_reversed: bool = False
    ) -> Iterator[Row]:
        found = self._map(name)
        first = bisect_left(found.keys, start)
        last = len(found.keys) if end is None else bisect_left(found.keys, end)
        span = range(first, last)
        for index in reversed(span) if is_reversed else span:
            key = found.keys[index]
            yield key, found.rows[key]

    def tails(self, name: MapName, prefix: bytes, most: int) -> list[bytes]:
        keys = self._map(name).keys
        first = bisect_left(keys, prefix)
        span = keys[first : first + most]
        return [key[len(prefix) :] for key in span if key.startswith(prefix)]

    def close(self) -> None:
        if self._maps is not None:
            self._image.release(self._maps)
            self._maps = None

    def __enter__(self) -> "MemoryReader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _map(self, name: MapName) -> OrderedMap:
        if self._maps is None:
            raise InvalidRequest("the reader is closed")
        found = self._maps.get(name)
        if found is None:
            raise InvalidRequest(f"the store has no map {name!r}")
        return found


class MemoryStore:
    """One process's use of an image."""

    def __init__(self, image: StoreImage, on_committed: Callable[[Token, bool], None]) -> None:
        self._image = image
        self._on_committed = on_committed
        self._tokens: deque[Token] = deque()
        self._has_failed = False

    @property
    def on_its_way(self) -> int:
        """How many transactions are not committed yet."""
        return len(self._tokens)

    def read(self) -> MemoryReader:
        return MemoryReader(self._image)

    def write(self, batch: Batch, token: Token) -> None:
        if self._has_failed:
            raise DiskFailed("the store has failed: nothing is committed any more")
        for name, _, _ in batch.changes:
            if name not in self._image.maps:
                raise InvalidRequest(f"the store has no map {name!r}")
        self._image.on_their_way.append(batch)
        self._tokens.append(token)

    def commit(self, most: int | None = None) -> None:
        """The oldest *most* transactions reach the disk (all, if None), and the owner hears of each."""
        for _ in range(len(self._tokens) if most is None else min(most, len(self._tokens))):
            invariant(not self._has_failed, "a store that has failed commits nothing")
            self._image.apply_next()
            self._on_committed(self._tokens.popleft(), True)

    def fail(self) -> None:
        """The disk fails the oldest transaction, and so all that follow it."""
        self._has_failed = True
        self._image.on_their_way.clear()
        while self._tokens:
            self._on_committed(self._tokens.popleft(), False)
