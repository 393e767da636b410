"""Where a group's member keeps its data: the log, the checkpoints and the identity that fit its durability.

A :class:`Backend` serves all members of one durability on one host. :class:`Backends` has the three of a host
and chooses one for each group: on disk, in memory, or in memory with checkpoints on disk. The memory log and
:class:`MemoryCheckpoints`, with its scratch files, end with the process (V4).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import msgspec

from holdfast.authority.groups import DISK, RESTART, GroupRecord, store_in_stay
from holdfast.authority.views import ViewMember
from holdfast.groups.checkpoint_keeper import CheckpointKeeper, CheckpointReceiver
from holdfast.groups.ports import Journal, OpenStore
from holdfast.model.ids import GroupId, Opening, Position
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.ports import Captured, Checkpoints, Durability, HostPorts, Kept
from holdfast.sequence.view_state import memory_store
from holdfast.storage.checkpoint import Checkpoint, CheckpointWriter, Framing
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.record import Point
from holdfast.storage.scratch import ScratchState, ScratchStore


class KeepsCheckpoints(Checkpoints, Protocol):
    """The checkpoints of a host's groups."""

    def newest(self, group: GroupId) -> Kept | None:
        """Return the newest state of the group."""
        ...

    def opened(self, group: GroupId) -> Kept | None:
        """Return the newest state at the start of this process, after bringing the log in line with it."""
        ...

    def keep(self, group: GroupId, captured: Captured) -> None:
        """Keep a checkpoint that the style captured at a committed position. The log before it may be dropped
        afterwards."""
        ...

    def framing(self, group: GroupId, point: Point) -> tuple[str, Framing] | None:
        """Return the file name and the framing for a state that another process writes. None: there is no
        space for it now (D5)."""
        ...

    def adopt(self, group: GroupId, copied: Checkpoint, then: Callable[[], None]) -> None:
        """Keep a state of a committed position that another process has written. Calls *then* once it
        counts."""
        ...

    def discard(self, copied: Checkpoint) -> None:
        """Remove a state that another process has written and that is no longer wanted."""
        ...

    @property
    def outlives_process(self) -> bool:
        """Whether the next process of the host may load what is kept."""
        ...

    def is_writing(self, group: GroupId) -> bool:
        """Whether a checkpoint of the group is being written."""
        ...

    def void(self, group: GroupId, after: Position) -> None:
        """Mark the checkpoints after position *after* as void: they do not belong to the group's object
        (E8)."""
        ...

    def void_up_to(self, group: GroupId) -> Position | None:
        """Return the position up to which checkpoints must not be loaded, or None if all may be loaded."""
        ...

    def forget(self, group: GroupId, then: Callable[[], None]) -> None:
        """Durably forget everything held of *group*, then call *then*: the group may start here with nothing
        (V4)."""
        ...


@dataclass(frozen=True, slots=True)
class Backend:
    """What all members of one durability on one host share."""

    me: ViewMember
    ports: HostPorts
    keeping: KeepsCheckpoints
    is_doubtful: Callable[[], bool]
    """Whether the log's tail was cut when it was opened and has not been compared with other members since
    (D2)."""


Soon = Callable[[Callable[[], None]], None]


class MemoryCheckpoints:
    """The newest state of each group in memory: in the memory of this process if it is small, in a scratch
    file if it has more than *large_bytes*, so that no process holds a large state beside its object (E5).

    Only the newest state stays, and the one that is held because a member is being sent it (M4); the file of
    any other is removed as soon as it is replaced.
    """

    outlives_process: Final = False

    def __init__(
        self,
        log: MemoryLog,
        soon: Soon,
        scratch: ScratchStore,
        large_bytes: int,
        lacks_space: Callable[[], bool] = lambda: False,
    ) -> None:
        self._log = log
        self._soon = soon
        self._scratch = scratch
        self._large_bytes = large_bytes
        self._lacks_space = lacks_space
        self._states: dict[GroupId, Kept] = {}
        self._held: dict[GroupId, Position] = {}
        self._receiving: dict[GroupId, ScratchReceiver] = {}
        self._under_way: Counter[GroupId] = Counter()
        self._when_quiet: dict[GroupId, Callable[[], None]] = {}

    def newest(self, group: GroupId) -> Kept | None:
        return self._states.get(group)

    def opened(self, group: GroupId) -> Kept | None:
        """Always None, because nothing outlives a process."""
        return None

    def void(self, group: GroupId, after: Position) -> None:
        """Do nothing: no checkpoint outlives the process, and within it the member itself knows what is
        void."""
        return

    def void_up_to(self, group: GroupId) -> Position | None:
        return None

    def receive(
        self, group: GroupId, point: Point, size: int
    ) -> "MemoryCheckpointReceiver | ScratchReceiver | None":
        """Receive the state that a learner is sent."""
        if size <= self._large_bytes:
            return MemoryCheckpointReceiver(point, partial(self._received, group))
        if self._lacks_space():
            return None
        received = ScratchReceiver(self._scratch.begin(group, point), partial(self._finish, group))
        self._receiving[group] = received
        return received

    def keep(self, group: GroupId, captured: Captured) -> None:
        """Keep a checkpoint that the style captured at a committed position, and drop the log before it."""
        self._keep_newer(group, captured)

    def framing(self, group: GroupId, point: Point) -> tuple[str, Framing] | None:
        return None if self._lacks_space() else self._scratch.framing(group, point)

    def discard(self, copied: Checkpoint) -> None:
        self._scratch.discard(copied)

    def adopt(self, group: GroupId, copied: Checkpoint, then: Callable[[], None]) -> None:
        self._under_way[group] += 1
        self._scratch.adopt(copied, lambda: self._adopted(group, copied, then))

    def is_writing(self, group: GroupId) -> bool:
        return self._under_way[group] > 0

    def hold(self, group: GroupId, log: Position | None, state: Position | None) -> None:
        """Keep the log beyond the position *log*, and the state at *state*, for members that catch up; None:
        no longer (M4)."""
        if log is None:
            self._held.pop(group, None)
        else:
            self._held[group] = log
        self._scratch.hold(group, state)
        known = self._states.get(group)
        if known is not None:
            self._take(group, known)
            self._soon(partial(self._prune, group))

    def forget(self, group: GroupId, then: Callable[[], None]) -> None:
        """Forget everything held of *group*, then call *then*. A state whose file gets its name just now is
        awaited first: its name must not be given to a state of the group's next life."""
        if self._under_way[group]:
            self._when_quiet[group] = partial(self.forget, group, then)
            return
        receiving = self._receiving.pop(group, None)
        if receiving is not None:
            receiving.abandon()
        self._states.pop(group, None)
        self._held.pop(group, None)
        self._scratch.hold(group, None)
        self._scratch.forget(group)
        if group in self._log.groups():
            self._log.forget(group)
        self._soon(then)

    def _received(self, group: GroupId, captured: Captured, then: Callable[[Kept], None]) -> None:
        self._take(group, captured)
        self._soon(partial(then, captured))
        self._soon(partial(self._prune, group))

    def _finish(self, group: GroupId, writer: CheckpointWriter, then: Callable[[Kept], None]) -> None:
        self._receiving.pop(group, None)
        self._under_way[group] += 1
        self._scratch.finish(writer, lambda done: self._written(group, done, then))

    def _written(self, group: GroupId, done: Checkpoint, then: Callable[[Kept], None]) -> None:
        """Count a received state, whose file has its final name now."""
        kept = self._scratch.stored(done)
        self._take(group, kept)
        then(kept)
        self._soon(partial(self._prune, group))
        self._ended(group)

    def _adopted(self, group: GroupId, copied: Checkpoint, then: Callable[[], None]) -> None:
        self._keep_newer(group, self._scratch.stored(copied))
        then()
        self._ended(group)

    def _ended(self, group: GroupId) -> None:
        self._under_way[group] -= 1
        if group in self._when_quiet and not self._under_way[group]:
            self._when_quiet.pop(group)()

    def _keep_newer(self, group: GroupId, kept: Kept) -> None:
        """Take a state of this member's own, unless it has received a newer one in the meantime."""
        known = self._states.get(group)
        self._take(group, kept if known is None or known.position <= kept.position else known)
        self._soon(partial(self._prune, group))

    def _take(self, group: GroupId, kept: Kept) -> None:
        self._states[group] = kept
        self._scratch.keep_only(group, kept.position if isinstance(kept, ScratchState) else None)

    def _prune(self, group: GroupId) -> None:
        """Drop the log before the newest state, or before what is held."""
        known = self._states.get(group)
        if known is None:
            return  # the group was forgotten in the meantime
        position = min(known.position, self._held.get(group, known.position))
        if position > self._log.floor(group).position and self._log.point_at(group, position) is not None:
            self._log.set_floor(group, position)
            self._log.flush()


class MemoryCheckpointReceiver:
    """Collects the state that a learner receives (:class:`holdfast.sequence.ports.Received`)."""

    unsynced_bytes: Final = 0

    def __init__(self, point: Point, finish: Callable[[Captured, Callable[[Kept], None]], None]) -> None:
        self._point = point
        self._finish = finish
        self._state = bytearray()

    def when_synced(self, then: Callable[[], None]) -> None:
        """Do nothing: nothing is ever unsynced."""

    def write(self, data: bytes) -> None:
        self._state += data

    def finish(self, then: Callable[[Kept], None], failed: Callable[[], None]) -> None:
        self._finish(Captured(self._point.position, bytes(self._state)), then)

    def abandon(self) -> None:
        self._state.clear()


class ScratchReceiver(CheckpointReceiver):
    """Writes a large state that a learner receives to a scratch file, until it is finished or given up, by
    the learner or with all that the host holds of the group."""

    _is_over = False

    def finish(self, then: Callable[[Kept], None], failed: Callable[[], None]) -> None:
        self._is_over = True
        super().finish(then, failed)

    def abandon(self) -> None:
        if not self._is_over:
            self._is_over = True
            super().abandon()


def with_checkpoints(
    memory: Backend,
    log: MemoryLog,
    checkpoints: CheckpointStore,
    journal: Journal,
    lacks_space: Callable[[], bool],
) -> Backend:
    """Return *memory* with checkpoints on the host's disk, from which a group that lost its state
    restarts."""
    keeping = CheckpointKeeper(checkpoints, log, memory.ports.durability, journal, lacks_space)
    return replace(memory, ports=replace(memory.ports, checkpoints=keeping), keeping=keeping)


def memory_backend(
    disk: Backend, soon: Soon, scratch: ScratchStore, large_bytes: int
) -> tuple[Backend, MemoryLog]:
    """Make the in-memory counterpart of *disk*, and its log. The process is the store, so a restarted process
    is a different member. States of more than *large_bytes* are scratch files."""
    durability = Durability()
    log = MemoryLog(durability.on_durable)
    keeping = MemoryCheckpoints(log, soon, scratch, large_bytes, disk.ports.lacks_space)
    me = ViewMember(
        host=disk.me.host,
        store=memory_store(disk.me.host, disk.me.incarnation),
        incarnation=disk.me.incarnation,
        opening=Opening(0),
    )
    ports = replace(
        disk.ports, log=log, durability=durability, checkpoints=keeping, lacks_space=lambda: False
    )
    return Backend(me, ports, keeping, lambda: False), log


class Backends:
    """The backends of one host: *disk*, which uses *store*, and its in-memory counterparts."""

    def __init__(
        self, disk: Backend, store: OpenStore, journal: Journal, soon: Soon, large_bytes: int
    ) -> None:
        self._log = store.log
        self._disk = disk
        self._memory, self._memory_log = memory_backend(disk, soon, store.scratch, large_bytes)
        self._kept_memory = with_checkpoints(
            self._memory, self._memory_log, store.checkpoints, journal, disk.ports.lacks_space
        )

    def of(self, record: GroupRecord) -> Backend:
        """Return the backend of the group. Its identity there includes the number of the member's stay on
        this host (M6)."""
        if record.durability == DISK:
            backend = self._disk
        else:
            backend = self._kept_memory if record.on_total_loss == RESTART else self._memory
        entry = record.placement(backend.me.host)
        if entry is None or not entry.number:
            return backend
        store = store_in_stay(backend.me.store, entry.number)
        return replace(backend, me=msgspec.structs.replace(backend.me, store=store))

    def flush(self) -> None:
        """Sync everything appended in this turn, in all logs (S5)."""
        self._log.flush()
        if self._memory_log.durable < self._memory_log.appended:
            self._memory_log.flush()
