"""A small record kept as one file and only ever replaced whole: aside, synced, renamed, names synced (D3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from holdfast.model.errors import Corruption, HoldfastError
from holdfast.model.ports import Disk, Token
from holdfast.storage.files import Readable
from holdfast.storage.syncing import Syncs

_CRC_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Form:
    """How a record is told from anything else; *magic* begins its file."""

    name: str
    what: str
    """The record, in words."""
    magic: bytes
    bytes_max: int

    def load(self, disk: Readable) -> bytes | None:
        """The record; None when there is none. Raises ``Corruption`` when it is not what was written."""
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
    """Writes one such file, one change after the other; each *then* follows when it is durable."""

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
        """Let *other*, which is durable, take the file's place."""
        self._disk.rename(other, self._form.name)
        self._syncs.after((), then, directory=True)

    def remove(self, then: Callable[[], None]) -> None:
        if self._form.name in self._disk.list():
            self._disk.remove(self._form.name)
        self._syncs.after((), then, directory=True)

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Take the disk's answer; False when it was not for this file."""
        return self._syncs.on_synced(token, ok)
