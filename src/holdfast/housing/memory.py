"""What members of groups in memory stand on: a log and checkpoints that end with the process (V4)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from holdfast.authority.views import ViewMember
from holdfast.housing.ground import Ground
from holdfast.housing.keeping import Keeping
from holdfast.housing.ports import Journal
from holdfast.model.ids import GroupId, Opening, Position
from holdfast.sequence.durability import Durability
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.ports import Captured, Kept
from holdfast.sequence.standing import memory_store
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.record import Point

Soon = Callable[[Callable[[], None]], None]


class MemoryKeeping:
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

    def receive(self, group: GroupId, point: Point) -> "MemoryReceiving":
        """A learner's state."""
        return MemoryReceiving(point, partial(self._received, group))

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


class MemoryReceiving:
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
    memory: Ground, log: MemoryLog, checkpoints: CheckpointStore, journal: Journal
) -> Ground:
    """The same, with checkpoints on the host's disk: what a group restarts from that has lost its state."""
    keeping = Keeping(checkpoints, log, memory.ports.durability, journal)
    return replace(memory, ports=replace(memory.ports, checkpoints=keeping), keeping=keeping)


def memory_ground(disk: Ground, soon: Soon) -> tuple[Ground, MemoryLog]:
    """Beside *disk*, and its log. The store is the process: one that is started again is another member."""
    durability = Durability(lambda: log.durable)
    log = MemoryLog(durability.on_durable)
    keeping = MemoryKeeping(log, soon)
    me = ViewMember(
        host=disk.me.host,
        store=memory_store(disk.me.host, disk.me.incarnation),
        incarnation=disk.me.incarnation,
        opening=Opening(0),
    )
    ports = replace(disk.ports, log=log, durability=durability, checkpoints=keeping)
    return Ground(me, ports, keeping, lambda: False), log
