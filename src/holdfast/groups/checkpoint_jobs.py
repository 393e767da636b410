"""Checkpoints that other processes write: copies of this process (E5), or processes that run older code (E7).

:class:`CopyJobs` is for states that are too large to be captured between two calls. :class:`ReplayJobs` has
the older version of a class make a checkpoint from the kept state and records. Both write a separate file,
hashed and synced. Renaming the file is what makes it a checkpoint, and that happens only if the log still
holds exactly that point; a copy's position must also be committed. So a process that is late, dies, or worked
on a history that did not become final leaves nothing but a file to remove. The file of a group in memory is a
scratch file (:mod:`holdfast.storage.scratch`).
"""

from collections.abc import Callable, Iterator

from holdfast.authority.groups import GroupRecord
from holdfast.groups.backend import KeepsCheckpoints
from holdfast.groups.ports import CopyPort, OldCodePort, Written
from holdfast.model.code import Code
from holdfast.model.ids import GroupId, Position
from holdfast.sequence.ports import GroupLog, Kept
from holdfast.storage.checkpoint import Checkpoint
from holdfast.storage.record import Record
from holdfast.styles.ports import Copied, NotCopied, Snapshot, Waits


class CopyJobs:
    """The copies of one group (:class:`holdfast.styles.ports.Copies`)."""

    def __init__(
        self,
        group: GroupId,
        port: CopyPort,
        log: GroupLog,
        keeping: KeepsCheckpoints,
    ) -> None:
        self._group = group
        self._port = port
        self._log = log
        self._keeping = keeping
        self._is_running = False
        self._written: Checkpoint | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a copy is being written, or waits to be kept."""
        return self._is_running or self._written is not None

    def begin(self, snapshot: Snapshot, then: Callable[[Copied | NotCopied], None]) -> bool:
        point = self._log.point_at(self._group, snapshot.position)
        if point is None or self._is_running or self._written is not None:
            return False
        file = self._keeping.framing(self._group, point)
        if file is None:
            return False
        self._is_running = self._port.begin(*file, snapshot, lambda result: self._ended(result, then))
        return self._is_running

    def keep(self, then: Callable[[bool], None]) -> None:
        written, self._written = self._written, None
        if written is None:
            then(False)
        elif self._log.point_at(self._group, written.point.position) != written.point:
            self._keeping.discard(written)
            then(False)
        else:
            self._keeping.adopt(self._group, written, lambda: then(True))

    def drop(self) -> None:
        if self._is_running:
            self._is_running = False
            self._port.cancel()
        if self._written is not None:
            self._keeping.discard(self._written)
            self._written = None

    def _ended(self, result: Written | NotCopied, then: Callable[[Copied | NotCopied], None]) -> None:
        self._is_running = False
        if isinstance(result, NotCopied):
            then(result)
        else:
            self._written = result.checkpoint
            then(Copied(result.checkpoint.size, result.digest))


Then = Callable[[Copied | NotCopied | Waits], None]


class ReplayJobs:
    """The replays of one group's records by older code (:class:`holdfast.styles.ports.OldCode`)."""

    def __init__(
        self,
        record: GroupRecord,
        port: OldCodePort,
        log: GroupLog,
        keeping: KeepsCheckpoints,
    ) -> None:
        self._record = record
        self.port = port
        self._log = log
        self._keeping = keeping
        self._is_running = False
        self._written: Checkpoint | None = None

    def is_kept(self, code: Code) -> bool:
        return self.port.is_kept(code)

    def begin(
        self,
        code: Code,
        kept: Kept | None,
        records: Iterator[Record],
        up_to: Position,
        then: Then,
        by: Code | None = None,
    ) -> bool:
        point = self._log.point_at(self._record.group, up_to)
        if point is None or self._is_running or self._written is not None:
            return False
        file = self._keeping.framing(self._record.group, point)
        if file is None:
            return False
        self._is_running = self.port.begin(
            self._record, code, kept, records, *file, lambda result: self._ended(result, then), by
        )
        return self._is_running

    def keep(self, then: Callable[[bool], None]) -> None:
        written, self._written = self._written, None
        if written is None:
            then(False)
        elif self._log.point_at(self._record.group, written.point.position) != written.point:
            self._keeping.discard(written)
            then(False)
        else:
            self._keeping.adopt(self._record.group, written, lambda: then(True))

    def drop(self) -> None:
        if self._is_running:
            self._is_running = False
            self.port.cancel()
        if self._written is not None:
            self._keeping.discard(self._written)
            self._written = None

    def _ended(self, result: Written | NotCopied | Waits, then: Then) -> None:
        self._is_running = False
        if isinstance(result, Written):
            self._written = result.checkpoint
            then(Copied(result.checkpoint.size, result.digest))
        else:
            then(result)
