"""The main file of an object's database: which of its chunks changed, and what it was while others fetch it
(W8).

The file changes only when what was flushed is brought into it, and the WAL says beforehand which pages that
will be. So a manifest costs what changed since the last one: other chunks keep their hashes. What others are
still fetching of an older manifest is put aside before it is overwritten, so no checkpoint waits for them and
no fetch has to begin anew (decision 67).

Nothing of this knowledge survives a process. The next one hashes the whole file before it relies on any hash.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from holdfast.execution.wal import WalMark, WalPages, pages_beyond
from holdfast.model.errors import NoSpace, Unavailable
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.shipping.manifest import Contents, describe, renewed
from holdfast.storage.segments import Readable

FILE: Final = "database"
"""The name of an object's file in its manifest."""


class Scratch(Readable, Protocol):
    """A directory in which files can be read and made, from any thread."""

    def append(self, name: str, data: bytes) -> None: ...


class OfferedFile:
    """The file as it was at one manifest, also after it has changed (:class:`Readable`).

    One thread reads while another keeps and overwrites. Whoever overwrites has kept before, and who reads
    looks at what was kept after it has read; so it never takes what was written for what was there.
    """

    def __init__(self, directory: Scratch, name: str, aside: str, contents: Contents) -> None:
        """What is overwritten goes into the file *aside*."""
        self.contents: Final = contents
        self.aside: Final = aside
        self._directory = directory
        self._name = name
        self._kept: dict[int, int] = {}
        """Where in that file a chunk is, by its offset here."""
        self._end = 0
        self._lost = ""
        self.wanted_ns: int | None = None
        """When a member was last told of the manifest: it may be about to fetch."""

    def list(self) -> list[str]:
        return [FILE]

    def size(self, name: str) -> int:
        return self.contents.bytes

    def read(self, name: str, offset: int, length: int) -> bytes:
        found = self._directory.read(self._name, offset, length)
        kept = self._kept.get(offset)
        if kept is not None:
            return self._directory.read(self.aside, kept, length)
        if self._lost:
            raise Unavailable(self._lost)
        return found

    def keep(self, chunks: Iterable[int]) -> None:
        """Put these chunks aside: they are about to be overwritten. On a full disk it is given up."""
        size, chunk_bytes = self.contents.bytes, self.contents.manifest.chunk_bytes
        for index in sorted(chunks):
            offset = index * chunk_bytes
            if offset >= size or offset in self._kept or self._lost:
                continue
            data = self._directory.read(self._name, offset, min(chunk_bytes, size - offset))
            try:
                self._directory.append(self.aside, data)
            except NoSpace as error:
                self._lost = f"what it was could not be kept: {error}"
                return
            self._kept[offset] = self._end
            self._end += len(data)

    def end(self) -> None:
        """Keep nothing any more: it is no longer offered."""
        self._lost = self._lost or "it is no longer offered"

    def cut(self, size: int) -> None:
        """Note that the file has only that size now: SQLite has given room back."""
        if size < self.contents.bytes:
            self._lost = self._lost or "the file has become shorter"


class ObjectFile:
    """What this process knows of one object's file. One settling at a time uses it, on whatever thread."""

    def __init__(self, group: GroupId, name: str, chunk_bytes: int) -> None:
        self.name: Final = name
        self.known: Contents | None = None
        """The manifest of the file as it was last settled or checked; None: every chunk is to be hashed."""
        self._group = group
        self._chunk_bytes = chunk_bytes
        self._mark = WalMark()
        self._pages = WalPages(b"", 0, 0, frozenset())
        self._written: set[int] = set()
        """The chunks that may have been written since :attr:`known`."""

    def about_to_settle(self, directory: Scratch, offers: Sequence[OfferedFile]) -> None:
        """Note which chunks will be written, and keep them for those who are fetching *offers*."""
        self._pages = pages_beyond(self._mark, directory, self.name)
        chunks = self._pages.chunks(self._chunk_bytes)
        self._written |= chunks
        for offer in offers:
            offer.keep(chunks)

    def settled(
        self,
        directory: Readable,
        frames: int,
        offers: Sequence[OfferedFile],
        position: Position,
        epoch: Epoch,
    ) -> Contents:
        """The manifest of the file, now that so many frames of the WAL are in it."""
        for offer in offers:
            offer.cut(directory.size(self.name))
        if self.known is None or frames > self._pages.frames:
            found = self.described(directory, position, epoch)
        else:
            written = {FILE: sorted(self._written)}
            found = renewed(
                self.known, OneFile(directory, self.name), written, epoch=epoch, position=position
            )
        self._mark = WalMark(self._pages.salts, frames)
        self._written = set()
        self.known = found
        return found

    def described(self, directory: Readable, position: Position, epoch: Epoch) -> Contents:
        """The manifest of the file, by every byte of it."""
        return describe(
            OneFile(directory, self.name),
            [FILE],
            subject=f"group {self._group}",
            epoch=epoch,
            position=position,
            chunk_bytes=self._chunk_bytes,
        )


class OneFile:
    """One file of a directory under the name that manifests give it (:class:`Readable`)."""

    def __init__(self, directory: Readable, name: str) -> None:
        self._directory = directory
        self._name = name

    def list(self) -> list[str]:
        return [FILE]

    def size(self, name: str) -> int:
        return self._directory.size(self._name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self._directory.read(self._name, offset, length)
