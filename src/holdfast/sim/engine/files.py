"""Simulated files and directories, which know what a power cut would keep and what it would lose.

Each write waits in a queue until a sync that began after the write covers it. A power cut decides at random,
sector by sector, which of the waiting writes reached the disk. A directory does the same with its entries.

:class:`Turns` makes durable writes one after the other, as a process's disk thread does: each begins when the
previous one has ended. Waiting writes are in the memory of the process. They are lost when the process dies,
and make no progress while it is paused.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.model.errors import DiskFailed, NoSpace

if TYPE_CHECKING:
    from holdfast.sim.engine.disk import DiskHandle


SECTOR: Final = 512
"""The disk writes a sector whole or not at all."""
KEPT_SHARES: Final = (0.0, 0.1, 0.5, 0.9, 1.0)
"""The shares of unsynced data that may survive a power cut; one is drawn for each file at each cut."""


class SimFile:
    """One file: its *content* as readers see it, and its *durable* image."""

    __slots__ = ("_pending", "_written", "content", "durable", "synced_at")

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = bytearray()
        self.synced_at = 0
        """When the last requested sync completes. The next sync completes no earlier."""
        # (number, offset, data) of each write that no sync has covered; data None means: resized to offset.
        self._pending: deque[tuple[int, int, bytes | None]] = deque()
        self._written = 0

    def write(self, offset: int, data: bytes) -> None:
        _place(self.content, offset, data)
        self._written += 1
        self._pending.append((self._written, offset, data))

    def resize(self, size: int) -> None:
        _resize(self.content, size)
        self._written += 1
        self._pending.append((self._written, size, None))

    def mark(self) -> int:
        """The number of the newest write, which is what a sync that begins now will cover."""
        return self._written

    def cover(self, mark: int) -> None:
        """Make all writes up to *mark* durable, because a sync has succeeded."""
        # Written out instead of calling _take: no other code of a run is called as often.
        pending, durable = self._pending, self.durable
        while pending and pending[0][0] <= mark:
            _, offset, data = pending.popleft()
            if data is None:
                _resize(durable, offset)
            else:
                _place(durable, offset, data)

    def lose(self, mark: int, rng: random.Random) -> None:
        """Handle a failed sync up to *mark*: the pages count as clean, so no later sync writes them.

        Some sectors have reached the disk and others have not. Whether readers still see the pages that have
        not is random, since file systems differ in this.
        """
        self._settle(self._take(mark), rng)
        if rng.random() < 0.5:
            self.content = bytearray(self.durable)
            for _, offset, data in self._pending:
                if data is None:
                    _resize(self.content, offset)
                else:
                    _place(self.content, offset, data)

    def power_cut(self, rng: random.Random) -> None:
        size = len(self.content)
        self._settle(self._take(self._written), rng)
        if len(self.durable) < size and rng.random() < 0.25:
            _resize(self.durable, size)  # the new length reached the disk, the data did not
        self.content = bytearray(self.durable)
        self.synced_at = 0

    def corrupt(self, offset: int, damage: bytes) -> None:
        """Overwrite durable bytes with *damage*, without any process noticing."""
        self.durable[offset : offset + len(damage)] = damage
        self.content[offset : offset + len(damage)] = damage

    def copy(self) -> "SimFile":
        """Copy the file for another disk. All content that a reader would see is durable in the copy."""
        twin = SimFile()
        twin.content = bytearray(self.content)
        twin.durable = bytearray(self.content)
        return twin

    def _take(self, mark: int) -> Iterator[tuple[int, bytes | None]]:
        pending = self._pending
        while pending and pending[0][0] <= mark:
            _, offset, data = pending.popleft()
            yield offset, data

    def _settle(self, writes: Iterator[tuple[int, bytes | None]], rng: random.Random) -> None:
        kept = rng.choice(KEPT_SHARES)
        for offset, data in writes:
            if data is None:
                if rng.random() < kept:
                    _resize(self.durable, offset)
                continue
            for at, piece in _sectors(offset, data):
                if rng.random() < kept:
                    _place(self.durable, at, piece)


class SimDirectory:
    """The names in one directory, and which of them would survive a power cut."""

    __slots__ = ("_durable", "_pending", "_written", "entries", "synced_at")

    def __init__(self) -> None:
        self.entries: dict[str, SimFile] = {}
        self.synced_at = 0
        self._durable: dict[str, SimFile] = {}
        # (number, file, name it gets or None, name it loses or None)
        self._pending: deque[tuple[int, SimFile, str | None, str | None]] = deque()
        self._written = 0

    def create(self, name: str) -> SimFile:
        file = SimFile()
        self._change(file, name, None)
        return file

    def rename(self, old: str, new: str) -> None:
        self._change(self.entries[old], new, old)

    def remove(self, name: str) -> None:
        self._change(self.entries[name], None, name)

    def mark(self) -> int:
        return self._written

    def cover(self, mark: int) -> None:
        for change in self._take(mark):
            _move(self._durable, *change)

    def lose(self, mark: int, rng: random.Random) -> None:
        """Handle a failed sync up to *mark*.

        Each change has reached the disk or not, and no later sync writes it.
        """
        for change in self._take(mark):
            if rng.random() < 0.5:
                _move(self._durable, *change)

    def power_cut(self, rng: random.Random) -> None:
        # Some file systems keep a prefix of the changes; POSIX promises nothing.
        in_order = rng.random() < 0.5
        prefix = rng.randint(0, len(self._pending))
        for index, change in enumerate(self._take(self._written)):
            if index < prefix if in_order else rng.random() < 0.5:
                _move(self._durable, *change)
        self.synced_at = 0
        self.entries = dict(self._durable)
        for name in sorted(self.entries):
            self.entries[name].power_cut(rng)

    def copy(self) -> "SimDirectory":
        twin = SimDirectory()
        twin.entries = {name: file.copy() for name, file in self.entries.items()}
        twin._durable = dict(twin.entries)
        return twin

    def _take(self, mark: int) -> Iterator[tuple[SimFile, str | None, str | None]]:
        pending = self._pending
        while pending and pending[0][0] <= mark:
            yield pending.popleft()[1:]

    def _change(self, file: SimFile, gained: str | None, lost: str | None) -> None:
        _move(self.entries, file, gained, lost)
        self._written += 1
        self._pending.append((self._written, file, gained, lost))


def _place(image: bytearray, offset: int, data: bytes) -> None:
    if offset > len(image):
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def _resize(image: bytearray, size: int) -> None:
    if size < len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))


def _sectors(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Split *data* at the sector boundaries of the file."""
    start = 0
    while start < len(data):
        length = SECTOR - (offset + start) % SECTOR
        yield offset + start, data[start : start + length]
        start += length


def _move(names: dict[str, SimFile], file: SimFile, gained: str | None, lost: str | None) -> None:
    if lost is not None and names.get(lost) is file:
        del names[lost]
    if gained is not None:
        names[gained] = file


@dataclass(slots=True, eq=False)
class Turn:
    """One durable write. It also serves as the token of its sync."""

    name: str
    offset: int
    data: bytes
    then: Callable[[bool], None]


class Turns:
    """The unfinished durable writes of one process, in order; only the first has begun."""

    __slots__ = ("_disk", "_turns")

    def __init__(self, disk: "DiskHandle") -> None:
        self._disk = disk
        self._turns: deque[Turn] = deque()

    def add(self, turn: Turn) -> None:
        if not self._turns:
            self._begin(turn)  # may raise; then the turn is not added
        self._turns.append(turn)

    def on_synced(self, turn: Turn, ok: bool) -> None:
        """Handle the end of the first turn's sync, and begin the next turn."""
        self._turns.popleft()
        if ok and self._turns:
            try:
                self._begin(self._turns[0])
            except (NoSpace, DiskFailed):
                turn.then(True)
                self._fail()
                return
        turn.then(ok)
        if not ok:
            self._fail()

    def overlaid(self, name: str, offset: int, found: bytes) -> bytes:
        """Return *found*, which was read at *offset*, with waiting writes applied.

        The writer must see its own writes.
        """
        result = bytearray(found)
        for turn in self._turns:
            start, end = max(turn.offset, offset), min(turn.offset + len(turn.data), offset + len(found))
            if turn.name == name and start < end:
                result[start - offset : end - offset] = turn.data[start - turn.offset : end - turn.offset]
        return bytes(result)

    def _begin(self, turn: Turn) -> None:
        self._disk.write_at(turn.name, turn.offset, turn.data)
        self._disk.sync(turn.name, turn)

    def _fail(self) -> None:
        """Report every waiting turn as failed; none of them reaches the disk."""
        while self._turns:
            self._turns.popleft().then(False)
