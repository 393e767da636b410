"""The bytes of one file: as programs see them, and as they would be after a power cut."""

import errno
import os
import random
from dataclasses import dataclass

SECTOR_BYTES = 512
"""What a disk writes whole or not at all; writes tear between sectors."""

_COPY_BYTES = 1 << 20
"""Growth beyond this is allocated anew: zero pages cost nothing until touched, and extending touches them."""


@dataclass(frozen=True, slots=True)
class Survival:
    """What a power cut did to changes that were not synced."""

    kept: int = 0
    lost: int = 0

    def __add__(self, other: "Survival") -> "Survival":
        return Survival(self.kept + other.kept, self.lost + other.lost)


class Content:
    """``data`` is what programs read. The disk has the same, except for the sectors in ``_platter``.

    Keeping only the *differences* makes a sync free however large the file: it forgets them.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self._durable_size = 0
        self._platter: dict[int, bytes] = {}  # sector -> what the disk has instead of what data says
        self._dirty: set[int] = set()  # sectors of _platter that the next sync will write
        self._unreadable: set[int] = set()

    def read(self, offset: int, length: int) -> bytes:
        if self._unreadable and not self._unreadable.isdisjoint(_sectors(offset, offset + length)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return bytes(self.data[offset : offset + length])

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        end = offset + len(payload)
        if offset > len(self.data):
            self._grow(offset)
        self._will_change(offset, end)
        self.data[offset:end] = payload

    def resize(self, size: int) -> None:
        if size < len(self.data):
            self._will_change(size, len(self.data))
            del self.data[size:]
        else:
            self._grow(size)

    def damage(self, offset: int, mask: int) -> None:
        """Flip the bits of *mask* in one byte, both in what programs read and on the disk."""
        self.data[offset] ^= mask
        sector, within = divmod(offset, SECTOR_BYTES)
        if within < len(self._platter.get(sector, b"")):
            held = bytearray(self._platter[sector])
            held[within] ^= mask
            self._platter[sector] = bytes(held)

    def spoil(self, offset: int) -> None:
        """Make the sector at *offset* unreadable; as on a drive, it is good again once written."""
        self._unreadable.add(offset // SECTOR_BYTES)

    def sync(self) -> None:
        """Make everything written so far durable, except what an earlier failed sync lost."""
        for sector in self._dirty:
            del self._platter[sector]
        self._dirty.clear()
        self._durable_size = len(self.data)
        for sector in list(self._platter):  # what was lost ends where the file now ends
            width = max(0, len(self.data) - sector * SECTOR_BYTES)
            self._platter[sector] = self._platter[sector][:width]

    def lose_sync(self) -> None:
        """Let a sync fail as on Linux: the pages stay readable but count as clean, so no later sync helps."""
        self._dirty.clear()

    def cut(self, torn: random.Random | None) -> Survival:
        """Cut the power: unsynced sectors are lost, all of them or (*torn*) a random part of them."""
        changed = len(self._platter)
        survivors = self._survivors(torn)
        size = self._size_after_cut(survivors, torn)
        if size < len(self.data):
            del self.data[size:]
        else:
            self._grow(size)
        for sector, held in self._platter.items():
            if sector not in survivors:
                self._restore(sector, held)
        self._platter.clear()
        self._dirty.clear()
        self._durable_size = size
        return Survival(kept=len(survivors), lost=changed - len(survivors))

    def _will_change(self, start: int, end: int) -> None:
        """Remember what the disk has where data is about to differ from it."""
        for sector in _sectors(start, end):
            if sector not in self._platter:
                at = sector * SECTOR_BYTES
                self._platter[sector] = bytes(self.data[at : at + SECTOR_BYTES])
            self._dirty.add(sector)
            self._unreadable.discard(sector)

    def _grow(self, size: int) -> None:
        # The disk must learn of zeros where an earlier, longer file left bytes.
        self._dirty.update(s for s in self._platter if s >= len(self.data) // SECTOR_BYTES)
        added = size - len(self.data)
        if added > _COPY_BYTES:
            grown = bytearray(size)
            grown[: len(self.data)] = self.data
            self.data = grown
        elif added > 0:
            self.data.extend(bytes(added))

    def _survivors(self, torn: random.Random | None) -> set[int]:
        if torn is None:
            return set()
        chance = torn.random()  # some cuts keep nearly all, some nearly nothing
        written = [sector for sector in sorted(self._dirty) if sector * SECTOR_BYTES < len(self.data)]
        return {sector for sector in written if torn.random() < chance}

    def _size_after_cut(self, survivors: set[int], torn: random.Random | None) -> int:
        size = len(self.data)
        if torn is None:
            return self._durable_size
        if torn.random() < 0.5:  # the new size had reached the disk, possibly ahead of the data
            return size
        reached = max(((sector + 1) * SECTOR_BYTES for sector in survivors), default=0)
        return max(self._durable_size, min(size, reached))

    def _restore(self, sector: int, held: bytes) -> None:
        start = sector * SECTOR_BYTES
        width = min(SECTOR_BYTES, len(self.data) - start)
        if width > 0:
            self.data[start : start + width] = held[:width].ljust(width, b"\0")


def _sectors(start: int, end: int) -> range:
    """Return the sectors that the bytes from *start* to *end* touch."""
    return range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES))
