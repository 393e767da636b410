"""The checkpoints of a host's groups: what a style or a learner gives is made durable, then the log let go.

While a state is on its way to the disk it is the newest one already: a style that gave it away may ask for it
at once. Per group one is written at a time; of those that come meanwhile only the last is written. On a slow
disk a learner's state may overtake it: the newest is the one that stands for most, not the one given last.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from holdfast.groups.ports import Journal
from holdfast.model.errors import Corruption
from holdfast.model.ids import GroupId, Position
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.ports import Captured, Durability, Kept
from holdfast.sequence.store import GroupStore
from holdfast.storage.checkpoint import Checkpoint, CheckpointWriter
from holdfast.storage.checkpoints import CheckpointStore, StoredState
from holdfast.storage.log import Log
from holdfast.storage.record import Point


@dataclass(slots=True)
class _Writing:
    """What is on its way to the disk, and what shall go next."""

    newest: Captured
    next: Captured | None = None


class CheckpointKeeper:
    """All checkpoints of one host."""

    def __init__(
        self, checkpoints: CheckpointStore, log: Log | MemoryLog, durability: Durability, journal: Journal
    ) -> None:
        self._checkpoints = checkpoints
        self._log = log
        self._durability = durability
        self._journal = journal
        self._writing: dict[GroupId, _Writing] = {}
        self._under_way: Counter[GroupId] = Counter()
        self._when_quiet: dict[GroupId, Callable[[], None]] = {}

    def newest(self, group: GroupId) -> Kept | None:
        """The newest state there is. Raises ``Corruption`` when the disk no longer has what it promised."""
        writing = self._writing.get(group)
        if writing is not None:
            given = writing.next or writing.newest
            if all(position <= given.position for position in self._checkpoints.positions(group)):
                return given
        chosen = self._checkpoints.choose(group)
        for damage in chosen.damaged:
            self._journal.error("a checkpoint is damaged", group=group, damage=str(damage))
        checkpoint = chosen.checkpoint
        position = checkpoint.point.position if checkpoint is not None else Position(0)
        if position < self._log.floor(group).position:
            raise _missing(group, self._log.floor(group).position, chosen.damaged)
        if checkpoint is None:
            return None
        return self._checkpoints.stored(checkpoint)

    def is_writing(self, group: GroupId) -> bool:
        """Whether a checkpoint of it is on its way to the disk."""
        return group in self._writing or self._under_way[group] > 0

    def opened(self, group: GroupId) -> Kept | None:
        """The newest state at the start of this process, with the log brought in line. Raises ``Corruption``.

        A learner may have ended between keeping the state it was given and taking it up.
        """
        found = self.newest(group)
        if not isinstance(found, StoredState):
            return None
        point = found.checkpoint.point
        store = GroupStore(group, self._log, self._durability)
        if store.point_at(found.position) != point:
            store.install(point)
        return found

    def void(self, group: GroupId, after: Position) -> None:
        """What was kept beyond *after* is not of the group's object (E8): whoever starts next does not load
        it. One that is on its way to the disk was found equal, or is of an object that has answered."""
        self._checkpoints.void(group, after)

    def void_up_to(self, group: GroupId) -> Position | None:
        return self._checkpoints.void_up_to(group)

    def receive(self, group: GroupId, point: Point) -> "CheckpointReceiver":
        """A learner's state (:class:`holdfast.sequence.ports.Checkpoints`)."""
        return CheckpointReceiver(
            self._checkpoints.begin(group, point), partial(self._finish_received, group)
        )

    def adopt(self, group: GroupId, copied: Checkpoint, then: Callable[[], None]) -> None:
        """One that a copy of the process has written, of a committed position; *then* it counts."""
        self._under_way[group] += 1
        self._checkpoints.adopt(copied, partial(self._written, group, partial(self._adopted, group, then)))

    def keep(self, group: GroupId, captured: Captured) -> None:
        """A style's own, of a committed position."""
        writing = self._writing.get(group)
        if writing is not None:
            writing.next = captured
            return
        self._writing[group] = _Writing(captured)
        self._write_own(group, captured)

    def raise_floor(self, group: GroupId) -> None:
        """There is a newer checkpoint: let go of the log that none needs any more."""
        floor = self._checkpoints.floor(group)
        if floor is not None and floor > self._log.floor(group).position:
            self._log.set_floor(group, floor)
            self._log.flush()

    def forget(self, group: GroupId, then: Callable[[], None]) -> None:
        """Forget all that is held of *group*, durably; *then* it may begin with nothing (V4).

        A checkpoint on its way to the disk is awaited first, and the log forgets before the checkpoints do:
        whatever a power cut leaves is of the history that is given up, and is given up again.
        """
        if self._under_way[group]:
            self._when_quiet[group] = partial(self.forget, group, then)
            return
        self._writing.pop(group, None)
        forgotten = partial(self._checkpoints.forget, group, then)
        if group in self._log.groups():
            self._durability.after(self._log.forget(group), forgotten)
            self._log.flush()
        else:
            forgotten()

    def _write_own(self, group: GroupId, captured: Captured) -> None:
        point = self._log.point_at(group, captured.position)
        if point is None:
            # A state from another member came meanwhile, and stands for more than this one.
            self._kept(group)
            return
        writer = self._checkpoints.begin(group, point)
        writer.write(captured.state)
        self._finish(group, writer, lambda _: self._kept(group))

    def _finish_received(
        self, group: GroupId, writer: CheckpointWriter, then: Callable[[Kept], None]
    ) -> None:
        def finished(done: Checkpoint) -> None:
            then(self._checkpoints.stored(done))
            self.raise_floor(group)  # a member that keeps its log has less need of it (E8)

        self._finish(group, writer, finished)

    def _finish(self, group: GroupId, writer: CheckpointWriter, then: Callable[[Checkpoint], None]) -> None:
        self._under_way[group] += 1
        self._checkpoints.finish(writer, lambda done: self._written(group, partial(then, done)))

    def _adopted(self, group: GroupId, then: Callable[[], None]) -> None:
        self.raise_floor(group)
        then()

    def _written(self, group: GroupId, then: Callable[[], None]) -> None:
        self._under_way[group] -= 1
        then()
        if group in self._when_quiet and not self._under_way[group]:
            self._when_quiet.pop(group)()

    def _kept(self, group: GroupId) -> None:
        writing = self._writing.pop(group, None)
        if writing is None:
            return  # forgotten meanwhile
        self.raise_floor(group)
        if writing.next is not None:
            self.keep(group, writing.next)


class CheckpointReceiver:
    """A learner's state on its way to the disk (:class:`holdfast.sequence.ports.Received`)."""

    def __init__(
        self,
        writer: CheckpointWriter,
        finish: Callable[[CheckpointWriter, Callable[[Kept], None]], None],
    ) -> None:
        self._writer = writer
        self._finish = finish

    @property
    def unsynced_bytes(self) -> int:
        return self._writer.unsynced_bytes

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def finish(self, then: Callable[[Kept], None]) -> None:
        self._finish(self._writer, then)

    def abandon(self) -> None:
        self._writer.abandon()


def _missing(group: GroupId, floor: Position, damaged: tuple[Corruption, ...]) -> Corruption:
    if damaged:
        return damaged[0]
    return Corruption(
        f"group {group} has no checkpoint where its log begins",
        file="checkpoints",
        offset=0,
        expected=f"one at position {floor} or later",
        found="none",
    )
