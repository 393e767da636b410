"""Where a group's member keeps its data: the log, the checkpoints and the identity that fit its durability.

A :class:`Backend` serves all members of one durability on one host. :class:`Backends` has the three of a host
and chooses one for each group: on disk, in memory, or in memory with checkpoints on disk. The memory log and
:class:`MemoryCheckpoints` end with the process (V4).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import msgspec

from holdfast.authority.groups import DISK, RESTART, GroupRecord, store_in_stay
from holdfast.authority.views import ViewMember
from holdfast.groups.checkpoint_keeper import CheckpointKeeper
from holdfast.groups.ports import Journal, OpenStore
from holdfast.model.ids import GroupId, Opening, Position
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.ports import Captured, Checkpoints, Durability, HostPorts, Kept
from holdfast.sequence.view_state import memory_store
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.record import Point


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
    """The newest checkpoint of each group, held in the memory of one process."""

    def __init__(self, log: MemoryLog, soon: Soon) -> None:
        self._log = log
        self._soon = soon
        self._states: dict[GroupId, Captured] = {}
        self._held: dict[GroupId, Position] = {}

    def newest(self, group: GroupId) -> Captured | None:
        return self._states.get(group)

    def opened(self, group: GroupId) -> Captured | None:
        """Always None, because nothing outlives a process."""
        return None

    def void(self, group: GroupId, after: Position) -> None:
        """Do nothing: no checkpoint outlives the process, and within it the member itself knows what is
        void."""
        return

    def void_up_to(self, group: GroupId) -> Position | None:
        return None

    def receive(self, group: GroupId, point: Point) -> "MemoryCheckpointReceiver":
        """Receive the state that a learner is sent."""
        return MemoryCheckpointReceiver(point, partial(self._received, group))

    def keep(self, group: GroupId, captured: Captured) -> None:
        """Keep a checkpoint that the style captured at a committed position, and drop the log before it."""
        known = self._states.get(group)
        if known is not None and known.position > captured.position:
            return  # A newer state, received as a learner, arrived in the meantime.
        self._states[group] = captured
        self._soon(partial(self._prune, group, captured.position))

    def is_writing(self, group: GroupId) -> bool:
        return False

    def hold(self, group: GroupId, position: Position | None) -> None:
        """Keep the log beyond *position* for members that catch up; None: no longer (M4)."""
        if position is None:
            self._held.pop(group, None)
        else:
            self._held[group] = position
        known = self._states.get(group)
        if known is not None:
            self._soon(partial(self._prune, group, known.position))

    def forget(self, group: GroupId, then: Callable[[], None]) -> None:
        self._states.pop(group, None)
        if group in self._log.groups():
            self._log.forget(group)
        self._soon(then)

    def _received(self, group: GroupId, captured: Captured, then: Callable[[Kept], None]) -> None:
        self._states[group] = captured
        self._soon(partial(then, captured))
        self._soon(partial(self._prune, group, captured.position))

    def _prune(self, group: GroupId, position: Position) -> None:
        position = min(position, self._held.get(group, position))
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

    def write(self, data: bytes) -> None:
        self._state += data

    def finish(self, then: Callable[[Kept], None], failed: Callable[[], None]) -> None:
        self._finish(Captured(self._point.position, bytes(self._state)), then)

    def abandon(self) -> None:
        self._state.clear()


def with_checkpoints(
    memory: Backend, log: MemoryLog, checkpoints: CheckpointStore, journal: Journal
) -> Backend:
    """Return *memory* with checkpoints on the host's disk, from which a group that lost its state
    restarts."""
    keeping = CheckpointKeeper(checkpoints, log, memory.ports.durability, journal)
    return replace(memory, ports=replace(memory.ports, checkpoints=keeping), keeping=keeping)


def memory_backend(disk: Backend, soon: Soon) -> tuple[Backend, MemoryLog]:
    """Make the in-memory counterpart of *disk*, and its log. The process is the store, so a restarted process
    is a different member."""
    durability = Durability(lambda: log.durable)
    log = MemoryLog(durability.on_durable)
    keeping = MemoryCheckpoints(log, soon)
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

    def __init__(self, disk: Backend, store: OpenStore, journal: Journal, soon: Soon) -> None:
        self._store = store
        self._disk = disk
        self._memory, self._memory_log = memory_backend(disk, soon)
        self._kept_memory = with_checkpoints(self._memory, self._memory_log, store.checkpoints, journal)

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
        self._store.log.flush()
        self._memory_log.flush()
