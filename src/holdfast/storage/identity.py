"""The identity of a store: its id, its host, and how often it has been opened (V5).

The authority numbers each opening before anything is acknowledged in it, so that the number reveals a disk
that was wiped, copied or restored from a backup. The order of an opening:

1. ``begin_opening`` writes the intent, (next number, nonce), durably;
2. the authority raises the number from exactly what the store holds (:mod:`holdfast.authority.stores`);
3. ``finish_opening`` writes the new number durably; only then is the log opened.

A crash between 2 and 3 leaves the authority one ahead, but with the nonce of the store's own intent; no copy
from before the intent knows that nonce. An intent is kept until it is finished, however many crashes happen
in between: the authority may still apply a request that seemed lost (A1). There is one limit: a disk that was
rolled back within one opening holds the right number, and its peers must notice.

The record is a :class:`WholeFile`, which is only ever replaced as a whole: written under another name,
synced, renamed, and the names synced (D3).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import msgspec

from holdfast.model.errors import Corruption, HoldfastError, invariant
from holdfast.model.ids import HostId, Nonce, Opening, StoreId
from holdfast.model.ports import Disk, Token
from holdfast.storage.checkpoint import checkpoint_of
from holdfast.storage.segments import Readable, file_number
from holdfast.storage.syncs import Syncs

_CRC_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Form:
    """The format of a record file; *magic* begins the file and identifies it."""

    name: str
    what: str
    """The name of the record in error messages."""
    magic: bytes
    bytes_max: int

    def load(self, disk: Readable) -> bytes | None:
        """Return the record, or None. Raises ``Corruption`` when it is not what was written."""
        if self.name not in disk.list():
            return None
        head = len(self.magic) + _CRC_BYTES
        data = disk.read(self.name, 0, head + self.bytes_max)
        stamp = int.from_bytes(data[len(self.magic) : head], "little")
        if data[: len(self.magic)] != self.magic or crc32(data[head:]) != stamp:
            raise self.damaged(f"{len(data)} other bytes")
        return data[head:]

    def damaged(self, found: str) -> Corruption:
        return Corruption(
            f"{self.what} is damaged", file=self.name, offset=0, expected="what was written", found=found
        )

    def encoded(self, record: bytes) -> bytes:
        return self.magic + crc32(record).to_bytes(_CRC_BYTES, "little") + record


class WholeFile:
    """Writes one such file, one change after another; each *then* is called when its change is durable."""

    def __init__(self, disk: Disk, form: Form, on_failed: Callable[[HoldfastError], None]) -> None:
        self._disk = disk
        self._form = form
        self._syncs = Syncs(disk, form.name, on_failed)

    def write(self, record: bytes, then: Callable[[], None]) -> None:
        aside = f"{self._form.name}.new"
        if aside in self._disk.list():
            self._disk.remove(aside)
        self._disk.append(aside, self._form.encoded(record))
        self._syncs.after([aside], lambda: self.rename(aside, then))

    def rename(self, other: str, then: Callable[[], None]) -> None:
        """Replace the file by *other*, which is durable."""
        self._disk.rename(other, self._form.name)
        self._syncs.after((), then, directory=True)

    def remove(self, then: Callable[[], None]) -> None:
        if self._form.name in self._disk.list():
            self._disk.remove(self._form.name)
        self._syncs.after((), then, directory=True)

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Process the disk's answer; return False when it was not for this file."""
        return self._syncs.on_synced(token, ok)


STORE_FILE: Final = "store"
_FORM: Final = Form(STORE_FILE, "the store's record", magic=b"HoldStore1", bytes_max=4096)


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """The store's own record of its identity."""

    store: StoreId
    host: HostId
    opening: Opening = Opening(0)
    nonce: Nonce = Nonce("")
    """The nonce of the last finished opening; the authority must hold it with that opening's number."""
    intent: Nonce | None = None
    """The nonce of the next opening, once it was begun."""


@dataclass(frozen=True, slots=True)
class Ours:
    """The store is the one that the authority knows: continue with its next opening."""

    store: Store


@dataclass(frozen=True, slots=True)
class Stranger:
    """The store is not the one that the authority knows: create a new store."""

    reason: str


@dataclass(frozen=True, slots=True)
class Behind:
    """The authority knows fewer openings than the store had: it was restored, and people decide (A5)."""

    reason: str


def plan(
    store: Store | None, host: HostId, recorded: tuple[Opening, Nonce] | None
) -> Ours | Stranger | Behind:
    """Compare the disk's record with what the authority has *recorded* for that store id."""
    if store is None:
        return Stranger("there is no store on this disk")
    if store.host != host:
        return Stranger(f"the store is a copy of {store.host}'s")
    number, nonce = recorded or (Opening(0), Nonce(""))
    if (number, nonce) == (store.opening, store.nonce):
        return Ours(store)
    if number == store.opening + 1 and store.intent is not None and nonce == store.intent:
        return Ours(store)
    if number < store.opening:
        return Behind(f"the store was opened {store.opening} times, the authority knows of {number}")
    return Stranger(f"the authority knows opening {number}, the disk {store.opening}: rolled back or copied")


def load(disk: Readable) -> Store | None:
    """Read the disk's record; None when there is none. Raises ``Corruption`` when it cannot be read."""
    record = _FORM.load(disk)
    if record is None:
        return None
    try:
        return msgspec.msgpack.decode(record, type=Store)
    except msgspec.DecodeError as error:
        raise _FORM.damaged(str(error)) from None


class StoreIdentity:
    """Writes the store's record, one change after another; *then* is called when a change is durable."""

    def __init__(self, disk: Disk, store: Store | None, on_failed: Callable[[HoldfastError], None]) -> None:
        self.store = store
        """The durable record."""
        self._disk = disk
        self._file = WholeFile(disk, _FORM, on_failed)
        self._syncs = Syncs(disk, "founding", on_failed)

    def found(self, store: StoreId, host: HostId, then: Callable[[], None]) -> None:
        """Create a new store on this disk, after removing the files of an earlier one.

        The old record is replaced last: until then, a crash leaves the disk as the stranger it was.
        """
        for name in self._disk.list():
            if file_number(name) is not None or checkpoint_of(name) is not None:
                self._disk.remove(name)
        new = Store(store=store, host=host)
        self._syncs.after((), lambda: self._write(new, then), directory=True)

    def begin_opening(self, nonce: Nonce, then: Callable[[], None]) -> None:
        """Write the intent to open. If there already is an intent, it is kept: use it instead of *nonce*.

        It is written again in any case: a record left by an earlier process may be visible without being
        durable.
        """
        invariant(self.store is not None, "only a store can be opened")
        assert self.store is not None  # for the type checker; the invariant has checked it
        self._write(msgspec.structs.replace(self.store, intent=self.store.intent or nonce), then)

    def finish_opening(self, then: Callable[[], None]) -> None:
        """Record that the authority has raised the number with the intent's nonce."""
        store = self.store
        invariant(store is not None and store.intent is not None, "an opening is begun before it is finished")
        assert store is not None  # for the type checker, as above
        assert store.intent is not None
        number = Opening(store.opening + 1)
        self._write(msgspec.structs.replace(store, opening=number, nonce=store.intent, intent=None), then)

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Process the disk's answer; return False when it was not for the identity."""
        return self._file.on_synced(token, ok) or self._syncs.on_synced(token, ok)

    def _write(self, store: Store, then: Callable[[], None]) -> None:
        def written() -> None:
            self.store = store
            then()

        self._file.write(msgspec.msgpack.encode(store), written)
