"""What is written and not committed yet, over what is: how a master sees its own latest state.

Clients are shown what is committed. To judge the next operation the master must see all that it has accepted
before (G8), also what is still on its way to the disk: transactions are committed in order, so that what it
relies on is never lost alone.
"""

from collections.abc import Iterator, MutableMapping
from typing import Any, Final, cast

from holdfast.directory.entry import EntryState, decoded_entry, encoded_entry, glanced_entry
from holdfast.directory.primitives import EntryId
from holdfast.directory.replica.maps import ENTRIES
from holdfast.directory.store import Batch, MapName, Reader, Store

ENTRIES_KEPT_MAX: Final = 1_000
"""How many entries are kept decoded: those that are changed again soon. Decoded, a person takes 24 KB."""


class Overlay:
    """The rows of transactions on their way, by map and key, over the store's newest snapshot."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[tuple[MapName, bytes], tuple[int, bytes | None]] = {}
        self._written: dict[int, list[tuple[MapName, bytes]]] = {}
        self._reader: Reader | None = None

    def reader(self) -> Reader:
        """The newest snapshot; it is closed when something more is committed."""
        if self._reader is None:
            self._reader = self._store.read()
        return self._reader

    def get(self, name: MapName, key: bytes) -> bytes | None:
        found = self._rows.get((name, key))
        return self.reader().get(name, key) if found is None else found[1]

    def rows_after(self, name: MapName, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The committed rows of a map after a key, as they are on their way; those that are on their way for
        the first time are left out. Look at nothing else before it has ended."""
        for each, value in self.reader().rows(name, start=key + b"\x00" if key else b""):
            found = self._rows.get((name, each))
            newest = value if found is None else found[1]
            if newest is not None:
                yield each, newest

    def add(self, number: int, batch: Batch) -> None:
        """A transaction is on its way; numbers rise."""
        keys = [(name, key) for name, key, _ in batch.changes]
        for name, key, value in batch.changes:
            self._rows[name, key] = (number, value)
        self._written[number] = keys

    def committed(self, number: int) -> None:
        """Forget the rows of a transaction that the store's next snapshot has, unless they were written
        again."""
        self.close()
        for each in self._written.pop(number):
            if self._rows.get(each, (0, None))[0] == number:
                del self._rows[each]

    def pending(self, name: MapName) -> dict[bytes, bytes | None]:
        """The rows of one map that are on their way."""
        return {key: value for (each, key), (_, value) in self._rows.items() if each == name}

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class StoredEntries(MutableMapping[EntryId, EntryState]):
    """The states of all entries, read when they are asked for. What is set is written by the next
    transaction (:meth:`take_changed`)."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._known: dict[EntryId, EntryState] = {}
        self._changed: dict[EntryId, EntryState | None] = {}

    def __getitem__(self, entry: EntryId) -> EntryState:
        found = self.get(entry)
        if found is None:
            raise KeyError(entry)
        return cast("EntryState", found)

    def _read(self, entry: EntryId) -> EntryState | None:
        row = self._overlay.get(ENTRIES, entry)
        return None if row is None else self._remember(glanced_entry(row))

    def get(self, entry: EntryId, default: Any = None) -> Any:
        """As of every mapping; asked many times for each change, so without an exception for the absent."""
        if entry in self._changed:
            found = self._changed[entry]
        else:
            found = self._known.get(entry) or self._read(entry)
        return default if found is None else found

    def __setitem__(self, entry: EntryId, state: EntryState) -> None:
        self._changed[entry] = state

    def __delitem__(self, entry: EntryId) -> None:
        if entry not in self:
            raise KeyError(entry)
        self._changed[entry] = None

    def __iter__(self) -> Iterator[EntryId]:
        pending: dict[bytes, object] = dict(self._overlay.pending(ENTRIES))
        pending.update({bytes(entry): state for entry, state in self._changed.items()})
        for key, _ in self._overlay.reader().rows(ENTRIES):
            if EntryId(bytes(key)) not in pending:
                yield EntryId(bytes(key))
        yield from [EntryId(key) for key, value in pending.items() if value is not None]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def after(self, entry: EntryId | None) -> Iterator[EntryState]:
        """The entries after one, by id, for who looks at all of them: those that are kept decoded stay. New
        ones that are not committed yet are left out."""
        for _, row in self._overlay.rows_after(ENTRIES, entry or b""):
            yield decoded_entry(row)

    def take_changed(self) -> list[tuple[EntryId, bytes | None]]:
        """The rows of what has changed since this was last asked; None for an entry that is gone."""
        rows: list[tuple[EntryId, bytes | None]] = []
        for entry, state in self._changed.items():
            if state is None:
                rows.append((entry, None))
                self._known.pop(entry, None)
            else:
                rows.append((entry, encoded_entry(state)))
                self._remember(state)
        self._changed.clear()
        return rows

    def _remember(self, state: EntryState) -> EntryState:
        if len(self._known) >= ENTRIES_KEPT_MAX:
            for each in list(self._known)[: ENTRIES_KEPT_MAX // 4]:
                del self._known[each]
        self._known[state.id] = state
        return state
