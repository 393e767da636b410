"""Makes the checkpoints of a host's groups durable, and then drops the log that they replace.

A state that is still being written already counts as the newest, because the style that handed it over may
ask for it at once. One checkpoint per group is written at a time; of those that arrive meanwhile, only the
last is written. On a slow disk a learner's state may overtake it, so the newest state is the one with the
highest position, not the one that was handed over last.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from holdfast.groups.ports import Journal
from holdfast.groups.stored_objects import StoredObjects
from holdfast.model.errors import Corruption
from holdfast.model.ids import GroupId, Position
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.ports import Captured, Durability, Kept, Received
from holdfast.sequence.store import GroupStore
from holdfast.storage.checkpoint import Checkpoint, CheckpointWriter, Framing
from holdfast.storage.checkpoints import CheckpointStore, StoredState
from holdfast.storage.log import Log
from holdfast.storage.record import Point


@dataclass(slots=True)
class _Writing:
    """The checkpoint that is being written, and the one to write next."""

    newest: Captured
    next: Captured | None = None


class CheckpointKeeper:
    """All checkpoints of one host."""

    outlives_process: Final = True

    def __init__(
        self,
        checkpoints: CheckpointStore,
        log: Log | MemoryLog,
        durability: Durability,
        journal: Journal,
        lacks_space: Callable[[], bool] = lambda: False,
    ) -> None:
        """*lacks_space*: whether no large state may be begun now, where nobody else looks at the disk's space
        (D5)."""
        self._lacks_space = lacks_space
        self._checkpoints = checkpoints
        self._log = log
        self._durability = durability
        self._journal = journal
        self._writing: dict[GroupId, _Writing] = {}
        self._held: dict[GroupId, Position] = {}
        self._under_way: Counter[GroupId] = Counter()
        self._when_quiet: dict[GroupId, Callable[[], None]] = {}
        self.files: StoredObjects | None = None
        """The files that checkpoints of stored objects stand on (W7)."""

    def newest(self, group: GroupId) -> Kept | None:
        """Return the newest state of the group. Raises ``Corruption`` if the disk no longer has what it
        promised."""
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
        """Whether a checkpoint of the group is being written to the disk."""
        return group in self._writing or self._under_way[group] > 0

    def opened(self, group: GroupId) -> Kept | None:
        """Return the newest state at the start of this process, after bringing the log in line. Raises
        ``Corruption``.

        A learner may have ended after it stored the state it was sent, but before it started to use it.
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
        """Mark the checkpoints after position *after* as void: they do not belong to the group's object, and
        the next process does not load them (E8). A checkpoint that is being written was found equal, or
        belongs to an object that has answered."""
        if self.files is not None:
            self.files.forget(group)
        self._checkpoints.void(group, after)

    def void_up_to(self, group: GroupId) -> Position | None:
        return self._checkpoints.void_up_to(group)

    def receive(self, group: GroupId, point: Point, size: int) -> Received | None:
        """Receive the state that a learner is sent (:class:`holdfast.sequence.ports.Checkpoints`)."""
        if self._lacks_space():
            return None
        received = CheckpointReceiver(
            self._checkpoints.begin(group, point), partial(self._finish_received, group)
        )
        return received if self.files is None else self.files.receiving(group, received)

    def framing(self, group: GroupId, point: Point) -> tuple[str, Framing] | None:
        return None if self._lacks_space() else self._checkpoints.framing(group, point)

    def discard(self, copied: Checkpoint) -> None:
        self._checkpoints.discard(copied)

    def adopt(self, group: GroupId, copied: Checkpoint, then: Callable[[], None]) -> None:
        """Keep a checkpoint that a copy of the process has written, of a committed position. Calls *then*
        once it counts."""
        self._under_way[group] += 1
        self._checkpoints.adopt(copied, partial(self._written, group, partial(self._adopted, group, then)))

    def keep(self, group: GroupId, captured: Captured) -> None:
        """Keep a checkpoint that the style captured at a committed position."""
        writing = self._writing.get(group)
        if writing is not None:
            writing.next = captured
            return
        self._writing[group] = _Writing(captured)
        self._write_own(group, captured)

    def shed(self, group: GroupId) -> None:
        """Keep one checkpoint of the group instead of two, and only the log after it, because the disk is
        short of space (D5)."""
        if group not in self._writing and group in self._log.groups():
            self.raise_floor(group, self._checkpoints.shed(group))

    def raise_floor(self, group: GroupId, floor: Position | None = None) -> None:
        """Drop the part of the log that no checkpoint needs any more, after a newer checkpoint; or the part
        up to *floor*."""
        floor = floor if floor is not None else self._checkpoints.floor(group)
        held = self._held.get(group)
        if floor is not None and held is not None:
            floor = min(floor, held)
        if floor is not None and floor > self._log.floor(group).position:
            self._log.set_floor(group, floor)
            self._log.flush()

    def hold(self, group: GroupId, log: Position | None, state: Position | None) -> None:
        """Keep the log beyond the position *log*, and the checkpoint at *state*, for members that catch up;
        None: no longer (M4). The state on offer may be none of the checkpoints, and then only the log is
        kept."""
        if log is None:
            self._held.pop(group, None)
        else:
            self._held[group] = log
        self._checkpoints.hold(group, state)
        if group in self._log.groups():
            self.raise_floor(group)

    def forget(self, group: GroupId, then: Callable[[], None]) -> None:
        """Durably forget everything held of *group*, then call *then*: the group may start here with nothing
        (V4).

        A checkpoint that is being written is awaited first, and the log forgets before the checkpoints do. So
        whatever a power cut leaves belongs to the history that is given up, and is given up again.
        """
        if self._under_way[group]:
            self._when_quiet[group] = partial(self.forget, group, then)
            return
        if self.files is not None:
            self.files.forget(group)
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
            # A state from another member arrived in the meantime, and it is newer than this one.
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
            self.raise_floor(group)  # a member that keeps its log needs less of it now (E8)

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
            return  # the group was forgotten in the meantime
        self.raise_floor(group)
        if writing.next is not None:
            self.keep(group, writing.next)


class CheckpointReceiver:
    """Writes the state that a learner receives to the disk (:class:`holdfast.sequence.ports.Received`)."""

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

    def when_synced(self, then: Callable[[], None]) -> None:
        self._writer.when_synced(then)

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def finish(self, then: Callable[[Kept], None], failed: Callable[[], None]) -> None:
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
