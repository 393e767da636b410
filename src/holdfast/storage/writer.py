"""The writing side of the log: files, batches and syncs. It does not know what the records mean.

:class:`Gathering` holds records while a sync runs, laid out as on disk (S5). The place of every record is
known when it is appended: a batch begins where the one before ends, or in the next file when it does not fit.

:class:`Writer` begins an opening by rewriting what no mark covers: after a failed sync the system may show
bytes that never reached the disk. Then it writes a batch of its own, which marks everything before it as
synced. Only after that batch does it blank the remains of torn writes, so that a tail in doubt stays in doubt
across crashes. From then on, everything gathered is written with one write and one sync, while the next batch
gathers (S5).

The disk writes batches in order, none before the previous one is durable. Each batch can therefore say that
the log is synced up to its own beginning (D2), and only the last one can ever be torn. One batch may wait at
the disk behind the one being written, so that the disk need not wait for the owner's thread in between.
"""

import enum
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from holdfast.model.errors import (
    DiskFailed,
    HoldfastError,
    InvalidRequest,
    NoSpace,
    Overloaded,
    Unavailable,
    invariant,
)
from holdfast.model.ids import Opening, StoreId
from holdfast.model.ports import Disk, Trace
from holdfast.storage import batch as batches
from holdfast.storage.batch import BATCH_BYTES, SECTORS_MIN, TRAILER_BYTES, Batch, Flag, Place, padded
from holdfast.storage.record_map import packed
from holdfast.storage.recovery import Recovered
from holdfast.storage.segments import FileHeader, LogConfig, encode_file_header, file_name, salt_of
from holdfast.storage.syncs import Syncs


class Sealed(msgspec.Struct):
    """A batch that accepts no more records."""

    place: Place
    pieces: list[bytes]
    records: int
    length: int
    """The size of all records, in bytes."""
    appended: int
    """How many records the log had accepted up to the end of this batch."""
    end: Place


class Gathering:
    """The batch that accepts records now, and the full ones that wait to be written.

    The log's hot path adds to *pieces*, *offset* and *records* itself; all other code calls :meth:`put`.
    """

    def __init__(self, place: Place, config: LogConfig, size_of_file: Callable[[int], int]) -> None:
        self._config = config
        self._size_of_file = size_of_file
        self.sealed: deque[Sealed] = deque()
        """The full batches that wait to be written."""
        self.sealed_bytes = 0
        """The size of the records in them; whoever takes a batch subtracts its own."""
        self._is_shut = True
        self._begin_file(place.file)
        self._begin(place)

    def _begin_file(self, file: int) -> None:
        self.file = file
        self.packed_file = packed(Place(file, 0))
        self._size = self._size_of_file(file)

    def _begin(self, place: Place, *, marks: int = 0) -> None:
        sector = self._config.sector_bytes
        if place.file != self.file:
            self._begin_file(place.file)
        if self._size - place.offset < SECTORS_MIN * sector:
            place = Place(place.file + 1, sector)
            self._begin_file(place.file)
        room = self._size - place.offset - BATCH_BYTES - TRAILER_BYTES
        self._start = place
        self.pieces: list[bytes] = []
        """The records of the batch, in pieces."""
        self.records = 0
        self.appended_before = marks
        """The number of records accepted before this batch."""
        self.offset = place.offset + BATCH_BYTES
        """The offset of the next record, if it fits."""
        self._end = self.offset + min(room, self._config.batch_bytes_max)
        self.limit = 0 if self._is_shut else self._end
        """The end of the room for records; 0 while none are accepted, so that the hot path checks one
        thing."""
        self.is_due = False
        """Whether this batch is written even if it has no records."""

    def admit(self) -> None:
        """Accept records from now on."""
        self._is_shut = False
        self.limit = self._end

    @property
    def appended(self) -> int:
        """The number of records accepted so far, which is the number of the last one."""
        return self.appended_before + self.records

    @property
    def has_records(self) -> bool:
        return bool(self.sealed) or self.is_due or self.records > 0

    @property
    def next_place(self) -> Place:
        return Place(self.file, self.offset)

    def put(self, record: bytes) -> Place:
        """Accept one record."""
        self.make_room(len(record))
        place = self.next_place
        self.pieces.append(record)
        self.offset += len(record)
        self.records += 1
        return place

    def put_mark(self) -> None:
        """Ensure that a batch is written even if it has no records; it counts as one record."""
        self.appended_before += 1
        self.is_due = True

    def has_room_for(self, size: int) -> bool:
        """Whether *size* more bytes may wait for the disk."""
        return self.waiting_bytes + size <= self._config.gather_bytes_max

    def make_room(self, size: int) -> None:
        """Ensure that the batch has room for a record of *size* bytes, beginning a new batch if necessary."""
        if self.offset + size <= self.limit:
            return
        if size > self._config.batch_bytes_max:
            raise InvalidRequest(f"a record of {size} bytes; at most {self._config.batch_bytes_max} go")
        if not self.has_room_for(size):
            raise Overloaded(f"{self.sealed_bytes} bytes wait for the disk")
        self.seal()
        if self.offset + size > self.limit:
            next_file = Place(self._start.file + 1, self._config.sector_bytes)
            self._begin(next_file, marks=self.appended_before)

    def seal(self) -> None:
        """Close the batch, if there is anything to write, and begin the next one after it."""
        if not self.records and not self.is_due:
            return
        length = self.offset - self._start.offset - BATCH_BYTES
        appended = self.appended_before + self.records
        end = Place(self.file, self._start.offset + padded(length, self._config.sector_bytes))
        self.sealed.append(Sealed(self._start, self.pieces, self.records, length, appended, end))
        self.sealed_bytes += length
        self._begin(end, marks=appended)

    def shut(self) -> None:
        """Drop everything that waits, and accept nothing any more."""
        self.sealed.clear()
        self.pieces.clear()
        self.records, self.limit, self.is_due = 0, 0, False
        self._is_shut = True

    @property
    def waiting_bytes(self) -> int:
        """The size of all records that wait here, in bytes."""
        return self.sealed_bytes + self.offset - self._start.offset - BATCH_BYTES


REWRITE_BYTES: Final = 1 << 20


class Phase(enum.Enum):
    NEW = "new"
    OPENING = "opening"
    OPEN = "open"
    STOPPED = "stopped"


class Writer:
    """Writes what *gathering* holds. *on_durable(n)* says that the first *n* records survive a power cut.
    *on_long* is called after that when the log is synced beyond its oldest file."""

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
        on_long: Callable[[], None],
        on_stopped: Callable[[HoldfastError], None],
        trace: Trace,
    ) -> None:
        self.phase = Phase.NEW
        self.failure: HoldfastError | None = None
        self.is_doubtful = recovered.is_doubtful
        self.durable = 0
        self.mark = recovered.end
        """The place up to which the log is synced."""
        self.files = [file for file in recovered.files if _is_in_use(file, recovered)]
        """The numbers of the files, oldest first; the last may still be in the making."""
        self._disk = disk
        self._recovered = recovered
        self._opening = opening
        self._config = msgspec.structs.replace(config, sector_bytes=recovered.sector)
        self._salt = salt_of(store)
        self._on_open = on_open
        self.on_durable = on_durable
        self._on_long = on_long
        self._on_stopped = on_stopped
        self._trace = trace
        self._syncs = Syncs(disk, "log", self._stop)
        self.on_synced = self._syncs.on_synced
        """Processes the disk's answer; returns False when it was not for the log."""
        self._ready = dict.fromkeys(self.files)
        self._number = recovered.last.number if recovered.last is not None else 0
        self._checksum = recovered.last.checksum if recovered.last is not None else 0
        self._written = (0, recovered.end)  # records and place that were given to the disk
        # sizes of the batches that the disk has and that are not durable yet
        self._under_way: deque[int] = deque()
        start = recovered.end if self.files else Place(recovered.end.file or 1, self._config.sector_bytes)
        # A file whose end was cut off has fewer whole sectors than it was made with.
        sector = self._config.sector_bytes
        self._sizes = {file: disk.size(file_name(file)) // sector * sector for file in self.files}
        self.gathering = Gathering(start, self._config, self._size_of_file)

    # --- calls of the log

    def open(self) -> None:
        """Open the log; *on_open* follows. Raises ``Corruption`` for a damaged log: only reading works."""
        invariant(self.phase is Phase.NEW, "a log is opened once")
        if self._recovered.is_damaged:
            raise self._recovered.damage[0].error()
        self.phase = Phase.OPENING
        self.guarded(self._remove_unused)

    def check_open(self) -> None:
        """Raise the failure that stopped the log, or ``Unavailable`` before it is open."""
        if self.phase is not Phase.OPEN:
            raise self.failure or Unavailable("the log is not open yet")

    def flush(self) -> None:
        """Give the gathered records to the disk, unless it is busy and more may come meanwhile."""
        gathering = self.gathering
        if self.phase is not Phase.OPEN or not (gathering.records or gathering.sealed or gathering.is_due):
            return
        if not self._under_way or self._is_disk_eager():
            gathering.seal()
            try:  # as `guarded` does, without a call of Python code
                self._write_sealed()
            except (NoSpace, DiskFailed) as error:
                self._stop(error)

    def write_all(self) -> bool:
        """Give the gathered records to the disk, however busy it is; False if some could not be written."""
        self.gathering.seal()
        self.guarded(self._write_sealed)
        return self.phase is Phase.OPEN and not self.gathering.has_records

    def ensure_written(self, place: Place) -> bool:
        """Ensure that the disk has the record at *place*, so that it can be read; False if it cannot."""
        return place < self._written[1] or self.write_all()

    def remove_oldest(self, then: Callable[[], None]) -> None:
        """Remove the oldest file and call *then* when the removal is durable."""
        file = self.files.pop(0)
        del self._ready[file]
        self._disk.remove(file_name(file))
        self._trace.note("log_removed", file=file)
        self._syncs.after((), partial(self.guarded, then), directory=True)

    def guarded(self, work: Callable[[], None]) -> None:
        """Run *work*; an error of the disk stops the log (D1)."""
        try:
            work()
        except (NoSpace, DiskFailed) as error:
            self._stop(error)

    # --- opening

    def _remove_unused(self) -> None:
        """Remove files that were made ahead and never used; they are made again.

        An earlier process may have failed to sync their names, and syncing them again would not help.
        """
        found = self._recovered
        unused = [file_name(file) for file in found.files if file not in self.files]
        for name in found.unusable:
            self._disk.remove(name)
        self._remove_last(unused)

    def _remove_last(self, names: list[str]) -> None:
        """Remove the last file first, each durably: a file that came back alone would show a gap."""
        if not names:
            self._rewrite_unproven()
            return
        self._disk.remove(names[-1])
        self._syncs.after((), partial(self.guarded, partial(self._remove_last, names[:-1])), directory=True)

    def _rewrite_unproven(self) -> None:
        found = self._recovered
        touched = [file for file in self.files if found.mark.file <= file <= found.end.file]
        for file in touched:
            start = max(found.mark, Place(file, 0)).offset
            end = found.end.offset if file == found.end.file else self._size_of_file(file)
            self._rewrite(file, start, end)
        names = map(file_name, touched)
        self._syncs.after(names, partial(self.guarded, self._make_place_for_opening), directory=True)

    def _rewrite(self, file: int, start: int, end: int) -> None:
        for offset in range(start, end, REWRITE_BYTES):
            data = self._disk.read(file_name(file), offset, min(REWRITE_BYTES, end - offset))
            self._disk.write_at(file_name(file), offset, data)

    def _make_place_for_opening(self) -> None:
        if self.gathering.file in self._ready:
            self._write_opening()
        else:
            self._make_file(self.gathering.file, partial(self.guarded, self._write_opening))

    def _write_opening(self) -> None:
        self.gathering.put_mark()
        self.write_all()

    def _blank_remains(self) -> None:
        blank = self._recovered.blank
        for file, (start, end) in blank.items():
            self._blank(file, max(self._written[1], Place(file, start)), end)
        self._syncs.after(map(file_name, blank), self._opened)

    def _blank(self, file: int, start: Place, end: int) -> None:
        if start.file == file:
            for offset in range(start.offset, end, REWRITE_BYTES):
                self._disk.write_at(file_name(file), offset, bytes(min(REWRITE_BYTES, end - offset)))

    def _opened(self) -> None:
        self.phase = Phase.OPEN
        self.gathering.admit()
        self._trace.note(
            "log_open",
            opening=self._opening,
            at=(self.mark.file, self.mark.offset),
            doubtful=self.is_doubtful,
        )
        self._on_open()
        self.guarded(self._make_next_file)
        self.flush()

    # --- batches

    def _is_disk_eager(self) -> bool:
        """Whether to give the disk another batch behind those that it has.

        Behind a batch being written, only one that is at least as large: a smaller one should gather further,
        because each batch costs a sync and accepts no more records.
        """
        under_way = self._under_way
        return len(under_way) == 1 and self.gathering.waiting_bytes >= under_way[0]

    def _on_batch(self, appended: int, end: Place, ok: bool) -> None:
        """Handle the disk's answer for the oldest batch under way."""
        if not ok or self._syncs.is_failed:
            self._syncs.fail(file_name(end.file))
            return
        self._under_way.popleft()
        self.durable, self.mark = appended, end
        if self.phase is Phase.OPENING:
            self.guarded(self._blank_remains)
            return
        # The next batch comes first: the disk works while the waiting callers are told.
        if self.gathering.records or self.gathering.sealed or self.gathering.is_due:
            self.flush()
        self.on_durable(appended)
        if self.files[0] < self.mark.file:
            self.guarded(self._on_long)

    def _write_sealed(self) -> None:
        """Give the full batches to the disk, as far as their files are ready."""
        gathering = self.gathering
        while gathering.sealed and gathering.sealed[0].place.file in self._ready:
            sealed = gathering.sealed.popleft()
            gathering.sealed_bytes -= sealed.length
            file, offset = sealed.place.file, sealed.place.offset
            self._number += 1
            batch = Batch(
                salt=self._salt,
                file=file,
                records=sealed.records,
                number=self._number,
                opening=self._opening,
                mark=self._written[1],
                previous=self._checksum,
                flags=Flag.DOUBTFUL if self.is_doubtful else Flag.NONE,
                oldest=self.files[0],
            )
            size = sealed.end.offset - offset
            self._checksum, data = batches.encode(batch, b"".join(sealed.pieces), size)
            self._written = (sealed.appended, sealed.end)
            self._under_way.append(sealed.length)
            self._disk.write_durably(file_name(file), offset, data, partial(self._on_batch, *self._written))
            if self.phase is Phase.OPEN and self.files[-1] <= sealed.end.file:
                self._make_next_file()

    # --- files

    def _size_of_file(self, file: int) -> int:
        return self._sizes.get(file, self._config.file_bytes)

    def _make_next_file(self) -> None:
        """Have the next file ready before it is needed."""
        if self.files[-1] <= self._written[1].file:
            self._make_file(self.files[-1] + 1, self.flush)

    def _make_file(self, number: int, then: Callable[[], None]) -> None:
        name = file_name(number)
        self.files.append(number)
        self._disk.allocate(name, self._config.file_bytes)
        header = FileHeader(self._config.sector_bytes, self._config.file_bytes, number, self._salt)
        self._disk.write_at(name, 0, encode_file_header(header))
        self._syncs.after([name], partial(self._file_made, number, then), directory=True)

    def _file_made(self, number: int, then: Callable[[], None]) -> None:
        self._ready[number] = None
        then()

    # --- stopping

    def _stop(self, error: HoldfastError) -> None:
        """Stop for good (D1): nothing is retried, nothing more is accepted, and those who wait are told."""
        if self.phase is not Phase.STOPPED:
            self.phase = Phase.STOPPED
            self.failure = error
            self.gathering.shut()
            self._trace.note("log_stopped", reason=str(error))
            self._on_stopped(error)


def _is_in_use(file: int, recovered: Recovered) -> bool:
    """Whether any batch was ever written to the file."""
    return file in recovered.blank or (recovered.last is not None and file <= recovered.end.file)
