"""A host's store as far as the authority is concerned: which opening it has had, which context it holds."""

from typing import Final

import msgspec
from msgspec import Struct

from holdfast.model.errors import DiskFailed
from holdfast.model.ids import Nonce, Opening, StoreId
from holdfast.sim.disk import DiskHandle, SimDisk

DIRECTORY: Final = "store"
_FILE: Final = "store"
_ASIDE: Final = "store.new"


class StoreRecord(Struct, frozen=True, kw_only=True):
    """What the host's disk says (V5, decision 0002)."""

    store: StoreId
    opening: Opening = Opening(0)
    nonce: Nonce = Nonce("")
    intent: Nonce = Nonce("")
    """The nonce under which the next opening is being asked for; empty when none is."""
    context_cas: int = 0


def is_opening(disk: SimDisk) -> bool:
    """Whether the store on this disk has said that it will be opened and not yet that it is."""
    directory = disk.copy().get(DIRECTORY)
    file = None if directory is None else directory.entries.get(_FILE)
    return file is not None and msgspec.json.decode(bytes(file.content), type=StoreRecord).intent != ""


class StoreFile:
    """The record on the host's disk, replaced as a whole and durable when :meth:`write` returns."""

    def __init__(self, disk: DiskHandle, new_store: StoreId) -> None:
        self._disk = disk
        found = disk.read(_FILE, 0, disk.size(_FILE)) if disk.exists(_FILE) else b""
        self.record = msgspec.json.decode(found, type=StoreRecord) if found else StoreRecord(store=new_store)

    def begin_anew(self, store: StoreId) -> None:
        """Forget everything: from here on this is another store."""
        self._replace(StoreRecord(store=store))

    def write(self, **changes: object) -> None:
        self._replace(msgspec.structs.replace(self.record, **changes))

    def _replace(self, record: StoreRecord) -> None:
        self.record = record
        if self._disk.exists(_ASIDE):
            self._disk.remove(_ASIDE)
        self._disk.write_at(_ASIDE, 0, msgspec.json.encode(self.record))
        if not self._disk.sync_now(_ASIDE):
            raise DiskFailed("the store's record could not be synced")
        self._disk.rename(_ASIDE, _FILE)
        self._disk.sync_dir_now()
