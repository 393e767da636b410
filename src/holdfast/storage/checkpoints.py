"""The checkpoints of a store: which exist, writing the next one, and choosing an intact one (D3).

The newest ``KEPT`` checkpoints of each group are kept, so that the one before can serve when the newest has
rotted. The log keeps the records after the oldest of them (:meth:`CheckpointStore.floor`).

A checkpoint may hold a state that is not the group's object; no later process may load it (E8).
:class:`Voiding` marks this with a file next to the checkpoints whose name says up to which position they are
void. The checkpoint files stay: the log begins at their positions, and a person may want to continue from
them (V4).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from holdfast.model.errors import Corruption, HoldfastError, Unavailable
from holdfast.model.ids import GroupId, Position
from holdfast.model.ports import Disk, Token
from holdfast.storage.checkpoint import (
    CHUNK_BYTES,
    COPIED,
    UNFINISHED,
    Checkpoint,
    CheckpointWriter,
    Framing,
    checkpoint_name,
    checkpoint_of,
    read_chunk,
    read_chunks,
    read_digest,
    read_header,
    verify,
)
from holdfast.storage.record import Point
from holdfast.storage.syncs import Syncs

_PREFIX: Final = "void-"
_CONTENT: Final = b"void\n"


def _name(group: GroupId, up_to: Position) -> str:
    return f"{_PREFIX}{group:020d}-{up_to:020d}"


def _read(name: str) -> tuple[GroupId, Position] | None:
    parts = name.removeprefix(_PREFIX).split("-")
    is_mark = name.startswith(_PREFIX) and len(parts) == 2
    if not is_mark or not all(len(part) == 20 and part.isascii() and part.isdigit() for part in parts):
        return None
    return GroupId(int(parts[0])), Position(int(parts[1]))


class Voiding:
    """The void marks on one disk."""

    def __init__(self, disk: Disk, syncs: Syncs) -> None:
        self._disk = disk
        self._syncs = syncs
        self._marks: dict[GroupId, Position] = {}
        for group, up_to in filter(None, map(_read, disk.list())):
            self._marks[group] = max(up_to, self._marks.get(group, up_to))

    def up_to(self, group: GroupId) -> Position | None:
        """Checkpoints of *group* up to this position are void; None when none is."""
        return self._marks.get(group)

    def mark(self, group: GroupId, up_to: Position) -> None:
        """Mark the checkpoints up to *up_to* as void; the mark becomes durable soon after."""
        if self._marks.get(group, Position(-1)) >= up_to:
            return
        self._remove(group)
        name = _name(group, up_to)
        self._disk.append(name, _CONTENT)
        self._marks[group] = up_to
        self._syncs.after([name], lambda: None, directory=True)

    def lift(self, group: GroupId, position: Position, then: Callable[[], None]) -> None:
        """Remove the mark because a checkpoint at *position* replaces the void ones.

        That checkpoint holds another member's state. Call *then* when the removal is durable.
        """
        if group in self._marks and position >= self._marks[group]:
            self._remove(group)
            self._syncs.after((), then, directory=True)
        else:
            then()

    def forget(self, group: GroupId) -> None:
        """Remove the mark of a group whose checkpoints go; it becomes durable together with that."""
        self._remove(group)

    def _remove(self, group: GroupId) -> None:
        self._marks.pop(group, None)
        for name in self._disk.list():
            found = _read(name)
            if found is not None and found[0] == group:
                self._disk.remove(name)


KEPT: Final = 2
SMALL_BYTES: Final = 1 << 20
"""A checkpoint up to this size is verified in a millisecond or two."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The newest intact checkpoint, and the damage found in newer ones, which must be reported loudly."""

    checkpoint: Checkpoint | None
    damaged: tuple[Corruption, ...]


class StoredState:
    """The state of a checkpoint, read chunk by chunk (:class:`holdfast.sequence.ports.Kept`)."""

    def __init__(self, store: "CheckpointStore", disk: Disk, checkpoint: Checkpoint) -> None:
        self._store = store
        self._disk = disk
        self.checkpoint = checkpoint

    @property
    def position(self) -> Position:
        return self.checkpoint.point.position

    @property
    def size(self) -> int:
        return self.checkpoint.size

    @property
    def chunk_bytes(self) -> int:
        return self.checkpoint.chunk_bytes

    def chunk(self, number: int) -> bytes:
        """Read one chunk and check it. Raises ``Corruption``, and ``Unavailable`` once the file is gone."""
        self._check_there()
        return read_chunk(self._disk, self.checkpoint, number)

    def digest(self) -> bytes:
        self._check_there()
        return read_digest(self._disk, self.checkpoint)

    def _check_there(self) -> None:
        if self.position not in self._store.positions(self.checkpoint.group):
            raise Unavailable(f"{self.checkpoint.name} has been replaced by newer ones")


class CheckpointStore:
    """All checkpoints on one disk. Creating it removes files that a crash left unfinished."""

    def __init__(
        self,
        disk: Disk,
        *,
        salt: int,
        on_failed: Callable[[HoldfastError], None],
        chunk_bytes: int = CHUNK_BYTES,
        kept: int = KEPT,
        owner: str = "checkpoint",
    ) -> None:
        """*kept*: how many checkpoints of each group are kept. *owner* marks its syncs, so that two stores
        may share a disk."""
        self._disk = disk
        self._salt = salt
        self._chunk_bytes = chunk_bytes
        self._kept = kept
        self._syncs = Syncs(disk, owner, on_failed)
        self._voiding = Voiding(disk, self._syncs)
        self._positions: dict[GroupId, list[Position]] = {}
        self._finished_here: dict[GroupId, list[Position]] = {}
        self._held: dict[GroupId, Position] = {}
        """The position of a checkpoint that is kept although newer ones have replaced it, for each group."""
        self._whole: dict[str, None] = {}
        """The names of the checkpoints that this process has verified or written completely."""
        for name in disk.list():
            found = checkpoint_of(name)
            if found is None:
                continue
            if name.endswith(UNFINISHED) or self._is_foreign(name):
                disk.remove(name)
            else:
                self._positions.setdefault(found[0], []).append(found[1])

    def positions(self, group: GroupId) -> list[Position]:
        """The positions of the checkpoints of *group*, oldest first."""
        return list(self._positions.get(group, ()))

    def void(self, group: GroupId, after: Position) -> None:
        """Mark the checkpoints beyond *after* as not being of the group's object (E8).

        The mark becomes durable soon after, and stays until a checkpoint of another member's state replaces
        them.
        """
        beyond = [position for position in self.positions(group) if position > after]
        if beyond:
            self._voiding.mark(group, beyond[-1])

    def void_up_to(self, group: GroupId) -> Position | None:
        """Checkpoints up to this position must not be loaded; None when all may."""
        return self._voiding.up_to(group)

    def floor(self, group: GroupId) -> Position | None:
        """The position up to which the log need not keep records, because no kept checkpoint needs them.

        Only checkpoints finished by this process count: the previous process may have ended because the sync
        of a name failed, and then the name is visible but not on the disk.
        """
        finished = self._finished_here.get(group, [])
        return finished[-self._kept] if len(finished) >= self._kept else None

    def hold(self, group: GroupId, position: Position | None) -> None:
        """Keep the checkpoint at *position*, if there is one, until another is held; None: keep no more than
        the newest."""
        if position is None:
            self._held.pop(group, None)
        else:
            self._held[group] = position
        self._remove_surplus(group)

    def begin(self, group: GroupId, point: Point) -> CheckpointWriter:
        """A writer for the checkpoint of *group* at *point*; pass it to :meth:`finish` at the end."""
        return CheckpointWriter(
            self._disk, self._syncs, group, point, salt=self._salt, chunk_bytes=self._chunk_bytes
        )

    def finish(self, writer: CheckpointWriter, then: Callable[[Checkpoint], None]) -> None:
        """End *writer*. Call *then* when its checkpoint is durable and surplus old ones are removed."""
        writer.finish(lambda done: self._finished(done, then))

    def framing(self, group: GroupId, point: Point) -> tuple[str, Framing]:
        """The file name and the framing for a checkpoint that a forked copy of the process writes."""
        name = checkpoint_name(group, point.position) + COPIED
        return name, Framing(group, point, salt=self._salt, chunk_bytes=self._chunk_bytes)

    def adopt(self, copied: Checkpoint, then: Callable[[], None]) -> None:
        """Take over a checkpoint that a forked copy wrote and synced; call *then* when it is durable."""
        self._disk.rename(copied.name + COPIED, copied.name)
        self._syncs.after((), lambda: self._finished(copied, lambda _: then()), directory=True)

    def discard(self, copied: Checkpoint) -> None:
        """Remove a checkpoint that a forked copy wrote and that is no longer wanted."""
        self._disk.remove(copied.name + COPIED)

    def choose(self, group: GroupId) -> Chosen:
        """Choose the newest checkpoint whose every hash is right. Damaged ones are removed and reported.

        A large checkpoint that this process wrote or verified is not verified again: its reader checks each
        chunk.
        """
        damaged: list[Corruption] = []
        for position in reversed(self.positions(group)):
            name = checkpoint_name(group, position)
            try:
                found = read_header(self._disk, name)
                if found.size <= SMALL_BYTES or name not in self._whole:
                    verify(self._disk, name)
                    self._whole[name] = None
                return Chosen(found, tuple(damaged))
            except Corruption as error:
                damaged.append(error)
                self._remove(group, position)
        return Chosen(None, tuple(damaged))

    def read(self, checkpoint: Checkpoint) -> Iterator[bytes]:
        """Yield the state in chunks, each checked again. Raises ``Corruption``."""
        return read_chunks(self._disk, checkpoint)

    def stored(self, checkpoint: Checkpoint) -> StoredState:
        """The state of *checkpoint*, readable while the file is kept."""
        return StoredState(self, self._disk, checkpoint)

    def forget(self, group: GroupId, then: Callable[[], None] | None = None) -> None:
        """Remove everything of a group; call *then* when no power cut can bring it back."""
        self._voiding.forget(group)
        for position in self.positions(group):
            self._remove(group, position)
        if then is not None:
            self._syncs.after((), then, directory=True)

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Process the disk's answer; return False when it was not for a checkpoint."""
        return self._syncs.on_synced(token, ok)

    def _is_foreign(self, name: str) -> bool:
        """Whether an intact checkpoint belongs to another store: its removal was undone by a failed sync."""
        try:
            if read_header(self._disk, name).salt == self._salt:
                return False
            verify(self._disk, name)
            return True
        except Corruption:
            return False  # its owner cannot be determined; :meth:`choose` reports the damage

    def _finished(self, done: Checkpoint, then: Callable[[Checkpoint], None]) -> None:
        positions = self._positions.setdefault(done.group, [])
        if done.point.position not in positions:
            positions.append(done.point.position)
            positions.sort()
        self._whole[done.name] = None
        finished = self._finished_here.setdefault(done.group, [])
        if done.point.position not in finished:  # it would count twice for the floor, and is one file
            finished.append(done.point.position)
            finished.sort()
        del finished[: -self._kept]
        self._remove_surplus(done.group)
        self._voiding.lift(done.group, done.point.position, lambda: then(done))

    def _remove_surplus(self, group: GroupId) -> None:
        for position in self.positions(group)[: -self._kept]:
            if position != self._held.get(group):
                self._remove(group, position)

    def _remove(self, group: GroupId, position: Position) -> None:
        # Not synced: if a power cut brings the checkpoint back, the next one removes it again.
        self._positions[group].remove(position)
        finished = self._finished_here.get(group, [])
        if position in finished:
            # A removed checkpoint defines no floor: a group that starts again (V4) passes its position again.
            finished.remove(position)
        self._whole.pop(checkpoint_name(group, position), None)
        self._disk.remove(checkpoint_name(group, position))
