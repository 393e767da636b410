"""Checkpoints of states too large to be captured between two calls: written by a copy of the process (E5).

The copy writes a file of its own, hashed and synced, and ends. It becomes a checkpoint by its name alone, and
only once its position is committed and the log still holds that very point: so a copy that is late, dies, or
was made of a history that did not become final leaves nothing behind but a file to remove.
"""

from collections.abc import Callable

from holdfast.housing.keeping import Keeping
from holdfast.housing.ports import CopyPort, Written
from holdfast.model.ids import GroupId
from holdfast.storage.checkpoint import Checkpoint
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.log import Log
from holdfast.styles.ports import Copied, NotCopied, Snapshot


class GroupCopies:
    """The copies of one group (:class:`holdfast.styles.ports.Copies`)."""

    def __init__(
        self, group: GroupId, port: CopyPort, checkpoints: CheckpointStore, log: Log, keeping: Keeping
    ) -> None:
        self._group = group
        self._port = port
        self._checkpoints = checkpoints
        self._log = log
        self._keeping = keeping
        self._is_running = False
        self._written: Checkpoint | None = None

    def begin(self, snapshot: Snapshot, then: Callable[[Copied | NotCopied], None]) -> bool:
        point = self._log.point_at(self._group, snapshot.position)
        if point is None or self._is_running or self._written is not None:
            return False
        name, framing = self._checkpoints.framing(self._group, point)
        self._is_running = self._port.begin(name, framing, snapshot, lambda result: self._ended(result, then))
        return self._is_running

    def keep(self, then: Callable[[bool], None]) -> None:
        written, self._written = self._written, None
        if written is None:
            then(False)
        elif self._log.point_at(self._group, written.point.position) != written.point:
            self._checkpoints.discard(written)
            then(False)
        else:
            self._keeping.adopt(self._group, written, lambda: then(True))

    def drop(self) -> None:
        if self._is_running:
            self._is_running = False
            self._port.cancel()
        if self._written is not None:
            self._checkpoints.discard(self._written)
            self._written = None

    def _ended(self, result: Written | NotCopied, then: Callable[[Copied | NotCopied], None]) -> None:
        self._is_running = False
        if isinstance(result, NotCopied):
            then(result)
        else:
            self._written = result.checkpoint
            then(Copied(result.checkpoint.size, result.digest))
