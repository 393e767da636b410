"""The checkpoints of a simulated host: those of its members, and those that learners are given."""

from collections import Counter
from collections.abc import Callable
from functools import partial

from holdfast.housing.keeping import Receiving
from holdfast.housing.memory import MemoryReceiving
from holdfast.model.ids import GroupId
from holdfast.sequence.ports import Captured, Kept
from holdfast.storage.checkpoint import Checkpoint, CheckpointWriter
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.log import Log
from holdfast.storage.record import Point


class OnDisk:
    """Of every group in one store; its log is pruned behind them."""

    def __init__(self, log: Log, checkpoints: CheckpointStore) -> None:
        self._log = log
        self._checkpoints = checkpoints
        self._under_way: Counter[GroupId] = Counter()

    def is_under_way(self, group: GroupId) -> bool:
        """Whether one of the group is being written: then its files must not be removed."""
        return self._under_way[group] > 0

    def receive(self, group: GroupId, point: Point) -> Receiving:
        """A learner's state."""
        return Receiving(self._checkpoints.begin(group, point), partial(self._finish, group))

    def keep(self, group: GroupId, captured: Captured) -> None:
        """A member's own state, and then no more of the log than lies behind it."""
        point = self._log.point_at(group, captured.position)
        assert point is not None
        received = self.receive(group, point)
        received.write(captured.state)
        received.finish(partial(self._raise_floor, group))

    def _finish(self, group: GroupId, writer: CheckpointWriter, then: Callable[[Kept], None]) -> None:
        self._under_way[group] += 1
        self._checkpoints.finish(writer, lambda done: self._finished(group, done, then))

    def _finished(self, group: GroupId, done: Checkpoint, then: Callable[[Kept], None]) -> None:
        self._under_way[group] -= 1
        then(self._checkpoints.stored(done))

    def _raise_floor(self, group: GroupId, _: Kept) -> None:
        floor = self._checkpoints.floor(group)
        if floor is not None and floor > self._log.floor(group).position:
            self._log.set_floor(group, floor)
            self._log.flush()


class InMemory:
    """Nothing is left of them: a member in memory ends with its process."""

    def receive(self, group: GroupId, point: Point) -> MemoryReceiving:
        return MemoryReceiving(point, lambda captured, then: then(captured))
