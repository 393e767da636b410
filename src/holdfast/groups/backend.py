"""What a member stands on: who it is, and the log and checkpoints of the durability that its group has.

The grounds of one host, and which of them a group stands on: disk, memory, or something of both.

What members of groups in memory stand on: a log and checkpoints that end with the process (V4).
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
        """The newest state there is."""
        ...

    def opened(self, group: GroupId) -> Kept | None:
        """The newest state at the start of this process, with the log brought in line."""
        ...

    def keep(self, group: GroupId, captured: Captured) -> None:
        """A style's own, of a committed position; afterwards what lies before it may be let go."""
        ...

    def is_writing(self, group: GroupId) -> bool:
        """Whether one is on its way to where it is kept."""
        ...

    def void(self, group: GroupId, after: Position) -> None:
        """What was kept beyond *after* is not of the group's object (E8)."""
        ...

    def void_up_to(self, group: GroupId) -> Position | None:
        """What is kept up to here must not be loaded; None when it may."""
        ...

    def forget(self, group: GroupId, then: Callable[[], None]) -> None:
        """Forget all that is held of *group*, durably; *then* it may begin with nothing (V4)."""
        ...


@dataclass(frozen=True, slots=True)
class Backend:
    """Of all members of one durability on one host."""

    me: ViewMember
    ports: HostPorts
    keeping: KeepsCheckpoints
    is_doubtful: Callable[[], bool]
    """Whether the log's tail was cut when it was opened, and not compared since (D2)."""


Soon = Callable[[Callable[[], None]], None]


class MemoryCheckpoints:
    """The checkpoints of one process, each group's newest."""

    def __init__(self, log: MemoryLog, soon: Soon) -> None:
        self._log = log
        self._soon = soon
        self._states: dict[GroupId, Captured] = {}

    def newest(self, group: GroupId) -> Captured | None:
        return self._states.get(group)

    def opened(self, group: GroupId) -> Captured | None:
        """None: nothing outlives a process."""
        return None

    def void(self, group: GroupId, after: Position) -> None:
        """Nothing outlives a process, and within it the member knows."""
        return

    def void_up_to(self, group: GroupId) -> Position | None:
        return None

    def receive(self, group: GroupId, point: Point) -> "MemoryCheckpointReceiver":
        """A learner's state."""
        return MemoryCheckpointReceiver(point, partial(self._received, group))

    def keep(self, group: GroupId, captured: Captured) -> None:
        """A style's own, of a committed position; what lies before it is let go."""
        known = self._states.get(group)
        if known is not None and known.position > captured.position:
            return  # a learner's state came meanwhile, and stands for more than this one
        self._states[group] = captured
        self._soon(partial(self._prune, group, captured.position))

    def is_writing(self, group: GroupId) -> bool:
        return False

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
        if position > self._log.floor(group).position and self._log.point_at(group, position) is not None:
            self._log.set_floor(group, position)
            self._log.flush()


class MemoryCheckpointReceiver:
    """A learner's state on its way (:class:`holdfast.sequence.ports.Received`)."""

    unsynced_bytes: Final = 0

    def __init__(self, point: Point, finish: Callable[[Captured, Callable[[Kept], None]], None]) -> None:
        self._point = point
        self._finish = finish
        self._state = bytearray()

    def write(self, data: bytes) -> None:
        self._state += data

    def finish(self, then: Callable[[Kept], None]) -> None:
        self._finish(Captured(self._point.position, bytes(self._state)), then)

    def abandon(self) -> None:
        self._state.clear()


def with_checkpoints(
    memory: Backend, log: MemoryLog, checkpoints: CheckpointStore, journal: Journal
) -> Backend:
    """The same, with checkpoints on the host's disk: what a group restarts from that has lost its state."""
    keeping = CheckpointKeeper(checkpoints, log, memory.ports.durability, journal)
    return replace(memory, ports=replace(memory.ports, checkpoints=keeping), keeping=keeping)


def memory_ground(disk: Backend, soon: Soon) -> tuple[Backend, MemoryLog]:
    """Beside *disk*, and its log. The store is the process: one that is started again is another member."""
    durability = Durability(lambda: log.durable)
    log = MemoryLog(durability.on_durable)
    keeping = MemoryCheckpoints(log, soon)
    me = ViewMember(
        host=disk.me.host,
        store=memory_store(disk.me.host, disk.me.incarnation),
        incarnation=disk.me.incarnation,
        opening=Opening(0),
    )
    ports = replace(disk.ports, log=log, durability=durability, checkpoints=keeping)
    return Backend(me, ports, keeping, lambda: False), log


class Backends:
    """Beside *disk*, which is on *store*."""

    def __init__(self, disk: Backend, store: OpenStore, journal: Journal, soon: Soon) -> None:
        self._store = store
        self._disk = disk
        self._memory, self._memory_log = memory_ground(disk, soon)
        self._kept_memory = with_checkpoints(self._memory, self._memory_log, store.checkpoints, journal)

    def of(self, record: GroupRecord) -> Backend:
        """The ground of that group; who this process is on it depends on the member's stay here (M6)."""
        if record.durability == DISK:
            ground = self._disk
        else:
            ground = self._kept_memory if record.on_total_loss == RESTART else self._memory
        entry = record.placement(ground.me.host)
        if entry is None or not entry.number:
            return ground
        store = store_in_stay(ground.me.store, entry.number)
        return replace(ground, me=msgspec.structs.replace(ground.me, store=store))

    def flush(self) -> None:
        """Sync what was appended in this turn, wherever (S5)."""
        self._store.log.flush()
        self._memory_log.flush()
