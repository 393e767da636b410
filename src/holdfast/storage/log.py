"""The host's write-ahead log: all groups in one sequence of batches, with one sync for everything that waits.

Nothing is durable before the end of a sync that began after it was written (S3, S5). A failed write or sync
stops the log for good and is never retried (D1). Each batch says up to where the log was synced before it
(D2). Names are synced before anything in a new file counts (D3).

Records are collected until ``flush``, which writes them as one batch and begins a sync (:mod:`.writer`);
meanwhile the next batch is collected. Every append returns the record's number, and ``on_durable(n)`` says
that the first *n* records appended in this opening survive a power cut. Callers wait for their record's
number before they acknowledge anything.

Old files are removed when no group needs them, which :class:`Holds` tracks. A group that keeps an old file
alive is copied forward (D4).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final
from zlib import crc32

from holdfast.model.errors import (
    Conflict,
    HoldfastError,
    InvalidRequest,
    Overloaded,
    invariant,
)
from holdfast.model.ids import Epoch, GroupId, Opening, Position, StoreId
from holdfast.model.ports import Disk, NoTrace, Trace
from holdfast.model.validation import insist_valid
from holdfast.storage.batch import Place
from holdfast.storage.record import (
    CHECKSUM,
    CONTROL_BYTES,
    COVERED,
    ORIGIN,
    RECORD_BYTES,
    Kind,
    Point,
    Record,
    Unreadable,
    checked,
    encode,
    encode_point,
)
from holdfast.storage.record_map import GroupIndex, packed, read_records
from holdfast.storage.recovery import Recovered
from holdfast.storage.segments import LogConfig
from holdfast.storage.writer import Phase, Writer


class Holds:
    """The oldest file that each group needs, counted instead of searched: it is read after every sync."""

    def __init__(self, groups: Iterable[tuple[GroupId, GroupIndex]]) -> None:
        self._file_of: dict[GroupId, int] = {}
        self._groups_in: Counter[int] = Counter()
        for group, index in groups:
            self.update(group, index)

    def update(self, group: GroupId, index: GroupIndex) -> None:
        """Update a group whose floor, tail or anchor has moved."""
        self.release(group)
        file = self._file_of[group] = index.oldest_place().file
        self._groups_in[file] += 1

    def release(self, group: GroupId) -> None:
        file = self._file_of.pop(group, None)
        if file is not None:
            self._groups_in[file] -= 1

    def is_free(self, file: int) -> bool:
        """Whether no group needs *file*, given that no older file exists."""
        return not self._groups_in[file]

    def groups_needing(self, file: int) -> list[GroupId]:
        """The groups that need *file*."""
        return [group for group, needed in self._file_of.items() if needed == file]


_DATA: Final = int(Kind.DATA)
_pack_covered: Final = COVERED.pack
_pack_checksum: Final = CHECKSUM.pack
_NEVER: Final = 1 << 62


class Log:
    """A log that continues from what :func:`.recovery.scan` found. Append only after *on_open* was called."""

    def __init__(
        self,
        disk: Disk,
        recovered: Recovered,
        *,
        store: StoreId,
        opening: Opening,
        config: LogConfig,
        on_open: Callable[[], None],
        on_durable: Callable[[int], None],
        on_stopped: Callable[[HoldfastError], None],
        trace: Trace | None = None,
    ) -> None:
        insist_valid(config, "log")
        self._disk = disk
        self._config = config
        self._group_bytes_max = config.group_bytes_max
        self._trace = trace or NoTrace()
        self._groups = recovered.groups
        self._holds = Holds(self._groups.items())
        # How many of the oldest files are being removed, and the record that must be durable first.
        self._removing: tuple[int, int] | None = None
        self._copied_up_to = 0  # the newest file whose groups were copied forward
        self._writer = Writer(
            disk,
            recovered,
            store=store,
            opening=opening,
            config=config,
            on_open=on_open,
            on_durable=on_durable,
            on_long=self._maybe_prune,
            on_stopped=on_stopped,
            trace=self._trace,
        )
        self._gathering = self._writer.gathering
        self.on_synced = self._writer.on_synced
        self.flush = self._writer.flush
        """Writes and syncs the collected records; call it once per turn. While a sync runs, they wait
        (S5)."""

    def open(self) -> None:
        """Open the log; *on_open* follows. Raises ``Corruption`` for a damaged log: only reading works."""
        self._writer.open()

    @property
    def on_durable(self) -> Callable[[int], None]:
        """Called with how many records are durable. The host replaces it once its groups are there."""
        return self._writer.on_durable

    @on_durable.setter
    def on_durable(self, then: Callable[[int], None]) -> None:
        self._writer.on_durable = then

    @property
    def phase(self) -> Phase:
        return self._writer.phase

    @property
    def failure(self) -> HoldfastError | None:
        """The failure that stopped the log."""
        return self._writer.failure

    @property
    def is_doubtful(self) -> bool:
        """The tail was cut at some opening and has not been compared with other members since (D2)."""
        return self._writer.is_doubtful

    @property
    def durable(self) -> int:
        """How many of the records appended in this opening survive a power cut."""
        return self._writer.durable

    @property
    def mark(self) -> Place:
        """The place up to which the log is synced."""
        return self._writer.mark

    @property
    def files(self) -> list[int]:
        return list(self._writer.files)

    # --- appending

    def append(self, group: GroupId, epoch: Epoch, body: bytes, count: int = 1) -> int:
        """Append the next record of *group*, *count* operations after its tail; return the record's number.

        Raises ``Overloaded`` when the group, or the log as a whole, holds as much as it may.
        """
        size = RECORD_BYTES + len(body)
        gathering = self._gathering
        if gathering.offset + size > gathering.limit:
            self._make_room(size)
        index = self._groups.get(group)
        if index is None:
            index = self._begin_group(group)
        if index.live_bytes + size > self._group_bytes_max:
            raise Overloaded(f"group {group} holds {index.live_bytes} bytes in the log")
        if count < 1 or epoch < index.epoch:
            invariant(False, "epochs never fall, and a record holds a position")
        covered = _pack_covered(index.checksum, group, epoch, index.position + 1, count, _DATA, len(body))
        checksum = crc32(body, crc32(covered))
        gathering.pieces += (_pack_checksum(checksum), covered, body)
        index.add(count, epoch, checksum, gathering.packed_file + gathering.offset, size)
        gathering.offset += size
        gathering.records += 1
        return gathering.appended_before + gathering.records

    def append_received(self, encoded: bytes) -> int:
        """Append a record exactly as another member sent it (S2, S5).

        Raises ``Conflict`` when it does not continue the group's chain, ``InvalidRequest`` when it is no
        record.
        """
        try:
            checksum, previous, group, epoch, first, count = checked(encoded)
        except Unreadable as wrong:
            raise InvalidRequest(f"no record: {wrong}") from None
        size = len(encoded)
        gathering = self._gathering
        if gathering.offset + size > gathering.limit:
            self._make_room(size)
        index = self._groups.get(group)
        tail = index if index is not None else ORIGIN
        if first != tail.position + 1 or previous != tail.checksum or epoch < tail.epoch:
            point = Point(Position(first + count - 1), epoch, checksum)
            raise Conflict(f"{point} of group {group} does not continue {self.tail(group)}")
        if index is None:
            index = self._begin_group(group)
        if index.live_bytes + size > self._group_bytes_max:
            raise Overloaded(f"group {group} holds {index.live_bytes} bytes in the log")
        gathering.pieces.append(encoded)
        index.add(count, epoch, checksum, gathering.packed_file + gathering.offset, size)
        gathering.offset += size
        gathering.records += 1
        return gathering.appended_before + gathering.records

    def drop(self, group: GroupId, after: Position, epoch: Epoch) -> int:
        """Drop the records beyond *after* and follow *epoch* (S6, M3, V3). Durable with the number returned.

        *after* may be the tail: then only the epoch changes.
        """
        index = self._groups.get(group)
        point = index.point_at(after) if index is not None else (ORIGIN if after == 0 else None)
        if point is None:
            raise InvalidRequest(f"group {group}: no record ends at {after}")
        place = self._control(Kind.DROP, group, epoch, point)
        if index is None:
            index = self._groups[group] = GroupIndex(anchor=place)
        index.drop_after(point)
        index.followed = max(index.followed, epoch)
        self._holds.update(group, index)
        return self._gathering.appended

    def set_floor(self, group: GroupId, position: Position) -> int:
        """Record that a durable checkpoint holds everything up to *position*: the log need not keep it."""
        index = self._index(group)
        point = index.point_at(position)
        if point is None:
            raise InvalidRequest(f"group {group}: no record ends at {position}")
        return self.install(group, point)

    def install(self, group: GroupId, point: Point) -> int:
        """Like :meth:`set_floor`, for a checkpoint from another member, possibly beyond the tail (M3)."""
        index = self._groups.get(group)
        if index is not None and point.position <= index.position and index.point_at(point.position) != point:
            raise Conflict(f"group {group}: {point} is not in this log's history")
        followed = max(index.followed, point.epoch) if index is not None else point.epoch
        kept = index.records_after(point.position) if index is not None else 0
        place = self._control(Kind.FLOOR, group, followed, point, count=kept)
        if index is None:
            index = self._groups[group] = GroupIndex(point, anchor=place, followed=followed)
        else:
            index.raise_floor(point, place)
        self._holds.update(group, index)
        return self._gathering.appended

    def forget(self, group: GroupId) -> int:
        """Forget a group that has left this host, or that starts again here after a forced recovery (V4)."""
        self._control(Kind.FORGET, group, self._index(group).followed, ORIGIN)
        del self._groups[group]
        self._holds.release(group)
        return self._gathering.appended

    def settle(self) -> int:
        """Write an empty batch, whose mark proves that the last one is synced. For an idle or ending host."""
        self._make_room(0)
        self._gathering.put_mark()
        self.flush()
        return self._gathering.appended

    def clear_doubt(self) -> int:
        """Record that the tail has been compared with the other members, as D2 demands."""
        self._writer.is_doubtful = False
        return self.settle()

    # --- reading

    def groups(self) -> list[GroupId]:
        return sorted(self._groups)

    def tail(self, group: GroupId) -> Point:
        """The end of the group's records, durable or not; the origin for an unknown group."""
        index = self._groups.get(group)
        return index.tail if index is not None else ORIGIN

    def floor(self, group: GroupId) -> Point:
        index = self._groups.get(group)
        return index.floor if index is not None else ORIGIN

    def followed(self, group: GroupId) -> Epoch:
        """The highest epoch in any record of the group (V3)."""
        index = self._groups.get(group)
        return index.followed if index is not None else ORIGIN.epoch

    def live_bytes(self, group: GroupId) -> int:
        """The size of the group's records beyond its floor, at most ``group_bytes_max`` (D4)."""
        index = self._groups.get(group)
        return index.live_bytes if index is not None else 0

    def point_at(self, group: GroupId, position: Position) -> Point | None:
        """The point at *position*, by which two members find where their histories diverge (M3)."""
        return self._index(group).point_at(position)

    def read(self, group: GroupId, first: Position, last: Position) -> list[Record]:
        """Read the records that hold these positions, durable or not.

        Raises ``Corruption`` for rotted bytes, ``Overloaded`` while records wait for a new file.
        """
        index = self._index(group)
        if self.phase is Phase.OPEN and not self._writer.ensure_written(index.located(last, last)[0].place):
            raise self.failure or Overloaded("records wait for a new file of the log")
        return read_records(self._disk, group, index, first, last)

    # --- parts of appending

    def _control(self, kind: Kind, group: GroupId, epoch: Epoch, point: Point, count: int = 0) -> Place:
        self._make_room(CONTROL_BYTES)
        index = self._groups.get(group)
        return self._gathering.put(
            encode(
                kind,
                previous=index.checksum if index is not None else 0,
                group=group,
                epoch=epoch,
                first=point.position,
                count=count,
                body=encode_point(point),
            )
        )

    def _make_room(self, size: int) -> None:
        """The slow path of every append: the batch is full, or the log is not open."""
        self._writer.check_open()
        self._gathering.make_room(size)

    def _begin_group(self, group: GroupId) -> GroupIndex:
        index = self._groups[group] = GroupIndex(anchor=self._gathering.next_place)
        self._holds.update(group, index)
        return index

    def _index(self, group: GroupId) -> GroupIndex:
        index = self._groups.get(group)
        if index is None:
            raise InvalidRequest(f"no group {group} in this log")
        return index

    # --- pruning (D4)

    def _maybe_prune(self) -> None:
        if self._removing is None:
            free = self._free_files()
            if not free:
                self._maybe_copy_forward(self._writer.files[0])
                return
            # The records that make the files obsolete may not be durable yet.
            self._removing = (free, self._gathering.appended)
        free, needed = self._removing
        if self._writer.durable >= needed:
            self._removing = (free, _NEVER)
            self._remove(free)

    def _free_files(self) -> int:
        """How many of the oldest files no group needs. The log must be known to be synced beyond them."""
        free = 0
        for file in self._writer.files:
            if file >= self._writer.mark.file or not self._holds.is_free(file):
                break
            free += 1
        return free

    def _remove(self, count: int) -> None:
        # Remove files one by one, each durably: a missing file between two others would be damage.
        if count:
            self._writer.remove_oldest(partial(self._remove, count - 1))
        else:
            self._removing = None
            self._maybe_prune()

    def _maybe_copy_forward(self, file: int) -> None:
        """Copy forward what the groups keep in *file*, so that it can be removed."""
        if self._copied_up_to >= file or file >= self._writer.mark.file:
            return
        if not self._is_long() or not self._writer.write_all():
            return
        for group in self._holds.groups_needing(file):
            if not self._gathering.has_room_for(self._groups[group].live_bytes + CONTROL_BYTES):
                break
            self._copy_forward(group)
        else:
            self._copied_up_to = file
        self.flush()

    def _is_long(self) -> bool:
        """Whether the log is longer than allowed.

        It may always be twice as long as its live records: copying those again and again would keep the disk
        busy and free nothing.
        """
        files = len(self._writer.files)
        if files <= self._config.files_max or self.phase is not Phase.OPEN:
            return False
        live = sum(index.live_bytes for index in self._groups.values())
        return files > 2 * live // self._config.file_bytes + 2

    def _copy_forward(self, group: GroupId) -> None:
        """Append the group's live records again, at the end of the log, all at once."""
        old = self._groups[group]
        records: list[Record] = []
        if old.records:
            first, last = Position(old.floor.position + 1), Position(old.position)
            records = read_records(self._disk, group, old, first, last)
        place = self._control(Kind.COPY, group, old.followed, old.floor, count=len(records))
        new = GroupIndex(old.floor, anchor=place, followed=old.followed)
        for record in records:
            encoded = record.encoded()
            place = self._gathering.put(encoded)
            new.add(record.count, record.epoch, record.checksum, packed(place), len(encoded))
        self._groups[group] = new
        self._holds.update(group, new)
        self._trace.note("log_copied", group=group, records=len(records))
