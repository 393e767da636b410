"""The checkpoints of a store: which there are, writing the next, choosing one that is whole (D3).

The newest ``KEPT`` of each group are kept, so that when the newest has rotted the one before still serves;
the log keeps what lies behind the oldest of them (:meth:`CheckpointStore.floor`).

Marks that what is kept of a group is not its object: whoever starts next must not load it (E8).

A file beside the checkpoints, without content that matters: its name says up to where they are void. The
files themselves stay: the log begins where they stand, and a person may want to go on from them (V4).
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
    """The marks on one disk."""

    def __init__(self, disk: Disk, syncs: Syncs) -> None:
        self._disk = disk
        self._syncs = syncs
        self._marks: dict[GroupId, Position] = {}
        for group, up_to in filter(None, map(_read, disk.list())):
            self._marks[group] = max(up_to, self._marks.get(group, up_to))

    def up_to(self, group: GroupId) -> Position | None:
        """Checkpoints of *group* up to here are void; None when none is."""
        return self._marks.get(group)

    def mark(self, group: GroupId, up_to: Position) -> None:
        """They are; durable in a moment."""
        if self._marks.get(group, Position(-1)) >= up_to:
            return
        self._remove(group)
        name = _name(group, up_to)
        self._disk.append(name, _CONTENT)
        self._marks[group] = up_to
        self._syncs.after([name], lambda: None, directory=True)

    def lift(self, group: GroupId, position: Position, then: Callable[[], None]) -> None:
        """There is a checkpoint of another member's state there, in their place; *then* that is durable."""
        if group in self._marks and position >= self._marks[group]:
            self._remove(group)
            self._syncs.after((), then, directory=True)
        else:
            then()

    def forget(self, group: GroupId) -> None:
        """Nothing of it is kept any more; durable with that."""
        self._remove(group)

    def _remove(self, group: GroupId) -> None:
        self._marks.pop(group, None)
        for name in self._disk.list():
            found = _read(name)
            if found is not None and found[0] == group:
                self._disk.remove(name)


KEPT: Final = 2
SMALL_BYTES: Final = 1 << 20
"""So much is looked through in a millisecond or two."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The newest checkpoint that is whole, and what is wrong with newer ones: to be reported loudly."""

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
        """Checked against its hash. Raises ``Corruption``, and ``Unavailable`` once the file is gone."""
        self._check_there()
        return read_chunk(self._disk, self.checkpoint, number)

    def digest(self) -> bytes:
        self._check_there()
        return read_digest(self._disk, self.checkpoint)

    def _check_there(self) -> None:
        if self.position not in self._store.positions(self.checkpoint.group):
            raise Unavailable(f"{self.checkpoint.name} has been replaced by newer ones")


class CheckpointStore:
    """All checkpoints on one disk. What a crash left unfinished is removed when this is built."""

    def __init__(
        self,
        disk: Disk,
        *,
        salt: int,
        on_failed: Callable[[HoldfastError], None],
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._disk = disk
        self._salt = salt
        self._chunk_bytes = chunk_bytes
        self._syncs = Syncs(disk, "checkpoint", on_failed)
        self._voiding = Voiding(disk, self._syncs)
        self._positions: dict[GroupId, list[Position]] = {}
        self._finished_here: dict[GroupId, list[Position]] = {}
        self._whole: dict[str, None] = {}
        """Names of those whose every hash was right, or was made, in this life."""
        for name in disk.list():
            found = checkpoint_of(name)
            if found is None:
                continue
            if name.endswith(UNFINISHED) or self._is_foreign(name):
                disk.remove(name)
            else:
                self._positions.setdefault(found[0], []).append(found[1])

    def positions(self, group: GroupId) -> list[Position]:
        """Where there are checkpoints of *group*, oldest first."""
        return list(self._positions.get(group, ()))

    def void(self, group: GroupId, after: Position) -> None:
        """Those beyond *after* are not of the group's object (E8). The mark is durable in a moment, and
        stands until there is one of another member's state in their place."""
        beyond = [position for position in self.positions(group) if position > after]
        if beyond:
            self._voiding.mark(group, beyond[-1])

    def void_up_to(self, group: GroupId) -> Position | None:
        """Those up to here must not be loaded; None when all may."""
        return self._voiding.up_to(group)

    def floor(self, group: GroupId) -> Position | None:
        """Up to here the log need not keep records: every checkpoint kept can do without them.

        Only those finished in this life count: the last one may have died because the sync of a name
        failed, and then that name is seen, but not on the disk.
        """
        finished = self._finished_here.get(group, [])
        return finished[-KEPT] if len(finished) >= KEPT else None

    def begin(self, group: GroupId, point: Point) -> CheckpointWriter:
        """A writer for the checkpoint of *group* at *point*; give it to :meth:`finish` at the end."""
        return CheckpointWriter(
            self._disk, self._syncs, group, point, salt=self._salt, chunk_bytes=self._chunk_bytes
        )

    def finish(self, writer: CheckpointWriter, then: Callable[[Checkpoint], None]) -> None:
        """End *writer*; *then* its checkpoint is durable, counts, and the oldest one too many is gone."""
        writer.finish(lambda done: self._finished(done, then))

    def framing(self, group: GroupId, point: Point) -> tuple[str, Framing]:
        """For a checkpoint that a copy of the process writes: under which name, and its bytes."""
        name = checkpoint_name(group, point.position) + COPIED
        return name, Framing(group, point, salt=self._salt, chunk_bytes=self._chunk_bytes)

    def adopt(self, copied: Checkpoint, then: Callable[[], None]) -> None:
        """Take over a checkpoint that was written so, and synced; *then* it is durable and counts."""
        self._disk.rename(copied.name + COPIED, copied.name)
        self._syncs.after((), lambda: self._finished(copied, lambda _: then()), directory=True)

    def take_copied(self, copied: Checkpoint) -> bytes:
        """The state of one that was written so, which is kept elsewhere from here on. Raises
        ``Corruption``."""
        self._disk.rename(copied.name + COPIED, copied.name)
        state = b"".join(read_chunks(self._disk, copied))
        self._disk.remove(copied.name)
        return state

    def discard(self, copied: Checkpoint) -> None:
        """Let go of one that was written so, and is not wanted any more."""
        self._disk.remove(copied.name + COPIED)

    def choose(self, group: GroupId) -> Chosen:
        """The newest one whose every hash is right. Damaged ones on the way are removed and reported.

        A large one that was written or looked through in this life is not looked through again: whoever
        reads it checks what is read.
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
        """The state, in chunks, each checked again. Raises ``Corruption``."""
        return read_chunks(self._disk, checkpoint)

    def stored(self, checkpoint: Checkpoint) -> StoredState:
        """Its state, for as long as it is kept."""
        return StoredState(self, self._disk, checkpoint)

    def forget(self, group: GroupId, then: Callable[[], None] | None = None) -> None:
        """The group has left this host; *then* nothing of it can come back after a power cut."""
        self._voiding.forget(group)
        for position in self.positions(group):
            self._remove(group, position)
        if then is not None:
            self._syncs.after((), then, directory=True)

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Take the disk's answer; False when it was not for a checkpoint."""
        return self._syncs.on_synced(token, ok)

    def _is_foreign(self, name: str) -> bool:
        """Whether a whole checkpoint is another store's: removed once, and a failed sync has undone that."""
        try:
            if read_header(self._disk, name).salt == self._salt:
                return False
            verify(self._disk, name)
            return True
        except Corruption:
            return False  # whose it is cannot be told; :meth:`choose` reports it

    def _finished(self, done: Checkpoint, then: Callable[[Checkpoint], None]) -> None:
        positions = self._positions.setdefault(done.group, [])
        if done.point.position not in positions:
            positions.append(done.point.position)
            positions.sort()
        self._whole[done.name] = None
        finished = self._finished_here.setdefault(done.group, [])
        finished.append(done.point.position)
        finished.sort()
        del finished[:-KEPT]
        for position in positions[:-KEPT]:
            self._remove(done.group, position)
        self._voiding.lift(done.group, done.point.position, lambda: then(done))

    def _remove(self, group: GroupId, position: Position) -> None:
        # Not synced: a checkpoint that comes back after a power cut is removed again by the next one.
        self._positions[group].remove(position)
        finished = self._finished_here.get(group, [])
        if position in finished:
            # What is gone holds no floor up: a group that begins anew (V4) comes by these positions again.
            finished.remove(position)
        self._whole.pop(checkpoint_name(group, position), None)
        self._disk.remove(checkpoint_name(group, position))
