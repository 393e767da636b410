"""Scratch files: large states of groups in memory, which only the process that keeps them reads (E5).

The store of a member in memory is its process (V4). A state of 100 MB is not held there beside the object:
it is a file in the host's store, framed and checked as a checkpoint is (D3), under a name of its own. Nothing
of it is meant for the next process, so opening the store removes whatever an earlier one left.

A scratch file that cannot be read as it was written is a failure of the disk (D1), not damage that a person
has to look at: the host ends, and its next process begins without the file.
"""

from collections.abc import Callable
from typing import Final

from holdfast.model.errors import Corruption, DiskFailed, HoldfastError
from holdfast.model.ids import GroupId, Position
from holdfast.model.ports import Disk, Token
from holdfast.storage.checkpoint import CHUNK_BYTES, Checkpoint, Framing
from holdfast.storage.checkpoints import CheckpointStore, StoredState
from holdfast.storage.record import Point

PREFIX: Final = "scratch-"
_ALL: Final = 1 << 30
"""More checkpoints than a group has: its keeper says which of them go (:meth:`ScratchStore.keep_only`)."""


class ScratchDisk:
    """The scratch files of a disk, under their names without the prefix
    (:class:`holdfast.model.ports.Disk`)."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def list(self) -> list[str]:
        return [name.removeprefix(PREFIX) for name in self._disk.list() if name.startswith(PREFIX)]

    def size(self, name: str) -> int:
        return self._disk.size(PREFIX + name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self._disk.read(PREFIX + name, offset, length)

    def allocate(self, name: str, size: int) -> None:
        self._disk.allocate(PREFIX + name, size)

    def append(self, name: str, data: bytes) -> None:
        self._disk.append(PREFIX + name, data)

    def write_at(self, name: str, offset: int, data: bytes) -> None:
        self._disk.write_at(PREFIX + name, offset, data)

    def write_durably(self, name: str, offset: int, data: bytes, then: Callable[[bool], None]) -> None:
        self._disk.write_durably(PREFIX + name, offset, data, then)

    def truncate(self, name: str, size: int) -> None:
        self._disk.truncate(PREFIX + name, size)

    def rename(self, old: str, new: str) -> None:
        self._disk.rename(PREFIX + old, PREFIX + new)

    def remove(self, name: str) -> None:
        self._disk.remove(PREFIX + name)

    def sync(self, name: str, token: Token) -> None:
        self._disk.sync(PREFIX + name, token)

    def sync_dir(self, token: Token) -> None:
        self._disk.sync_dir(token)


class ScratchState(StoredState):
    """A state in a scratch file. A damaged file raises ``DiskFailed``."""

    def chunk(self, number: int) -> bytes:
        try:
            return super().chunk(number)
        except Corruption as damage:
            raise DiskFailed(f"a scratch file is damaged: {damage}") from damage


class ScratchStore(CheckpointStore):
    """All scratch files on one disk. Creating it removes those of earlier processes."""

    def __init__(
        self,
        disk: Disk,
        *,
        salt: int,
        on_failed: Callable[[HoldfastError], None],
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        files = ScratchDisk(disk)
        for name in files.list():
            files.remove(name)
        super().__init__(
            files, salt=salt, on_failed=on_failed, chunk_bytes=chunk_bytes, kept=_ALL, owner="scratch"
        )

    def framing(self, group: GroupId, point: Point) -> tuple[str, Framing]:
        name, framing = super().framing(group, point)
        return PREFIX + name, framing

    def stored(self, checkpoint: Checkpoint) -> ScratchState:
        return ScratchState(self, self._disk, checkpoint)

    def keep_only(self, group: GroupId, position: Position | None) -> None:
        """Remove the files of *group* but the one at *position*; None: all of them. One that is held stays
        until it is let go (M4)."""
        for each in self.positions(group):
            if each not in (position, self._held.get(group)):
                self._remove(group, each)
