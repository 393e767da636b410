"""Gathering: records wait here while a sync runs, laid out as they will lie on the disk (S5).

The place of every record is known when it is appended: batches follow one another without gaps, so a batch
begins where the one before ends, or in the next file when it no longer fits.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.storage.batch import BATCH_BYTES, SECTORS_MIN, TRAILER_BYTES, Place, padded
from holdfast.storage.files import LogConfig
from holdfast.storage.index import packed


@dataclass(slots=True)
class Sealed:
    """A batch that takes no more records."""

    place: Place
    pieces: list[bytes]
    records: int
    length: int
    """Bytes of all records."""
    appended: int
    """How many records the log had taken up to the end of this batch."""
    end: Place


class Gathering:
    """The batch that takes records now, and those that are full and wait to be written.

    The log's hot path adds to *pieces*, *offset* and *records* itself; everything else calls :meth:`put`.
    """

    def __init__(self, place: Place, config: LogConfig, size_of_file: Callable[[int], int]) -> None:
        self._config = config
        self._size_of_file = size_of_file
        self._sealed: deque[Sealed] = deque()
        self._sealed_bytes = 0
        self._is_shut = True
        self._begin(place)

    def _begin(self, place: Place, *, marks: int = 0) -> None:
        size, sector = self._size_of_file(place.file), self._config.sector_bytes
        if size - place.offset < SECTORS_MIN * sector:
            place = Place(place.file + 1, sector)
            size = self._size_of_file(place.file)
        room = size - place.offset - BATCH_BYTES - TRAILER_BYTES
        self._start = place
        self.file = place.file
        self.packed_file = packed(Place(place.file, 0))
        self.pieces: list[bytes] = []
        """The records of the batch, in pieces."""
        self.records = 0
        self.appended_before = marks
        """Records taken before those of this batch."""
        self.offset = place.offset + BATCH_BYTES
        """Where the next record goes, if it fits."""
        self._end = self.offset + min(room, self._config.batch_bytes_max)
        self.limit = 0 if self._is_shut else self._end
        """Records end here at the latest; 0 while none are taken, so that the hot path asks one thing."""
        self._is_due = False

    def admit(self) -> None:
        """Take records from now on."""
        self._is_shut = False
        self.limit = self._end

    @property
    def appended(self) -> int:
        """How many records were taken so far: the number of the last one."""
        return self.appended_before + self.records

    @property
    def has_records(self) -> bool:
        return bool(self._sealed) or self._is_due or self.records > 0

    @property
    def next_place(self) -> Place:
        return Place(self.file, self.offset)

    def put(self, record: bytes) -> Place:
        """Take one record."""
        self.make_room(len(record))
        place = self.next_place
        self.pieces.append(record)
        self.offset += len(record)
        self.records += 1
        return place

    def put_mark(self) -> None:
        """See that a batch goes down even if it has no records; it counts as one."""
        self.appended_before += 1
        self._is_due = True

    def has_room_for(self, size: int) -> bool:
        """Whether so many bytes more may wait for the disk."""
        return self.waiting_bytes + size <= self._config.gather_bytes_max

    def make_room(self, size: int) -> None:
        """See that the batch has room for a record of *size* bytes; it may be a new batch."""
        if self.offset + size <= self.limit:
            return
        if size > self._config.batch_bytes_max:
            raise InvalidRequest(f"a record of {size} bytes; at most {self._config.batch_bytes_max} go")
        if not self.has_room_for(size):
            raise Overloaded(f"{self._sealed_bytes} bytes wait for the disk")
        self.seal()
        if self.offset + size > self.limit:
            next_file = Place(self._start.file + 1, self._config.sector_bytes)
            self._begin(next_file, marks=self.appended_before)

    def seal(self) -> None:
        """Close the batch, if there is anything to write, and begin the next behind it."""
        if not self.records and not self._is_due:
            return
        length = self._length
        end = Place(self.file, self._start.offset + padded(length, self._config.sector_bytes))
        self._sealed.append(Sealed(self._start, self.pieces, self.records, length, self.appended, end))
        self._sealed_bytes += length
        self._begin(end, marks=self.appended)

    def take_sealed(self, may_write: Callable[[int], bool]) -> Sealed | None:
        """The next batch to write, unless there is none or its file is not ready."""
        if not self._sealed or not may_write(self._sealed[0].place.file):
            return None
        sealed = self._sealed.popleft()
        self._sealed_bytes -= sealed.length
        return sealed

    def shut(self) -> None:
        """Take nothing any more."""
        self._sealed.clear()
        self.pieces.clear()
        self.records, self.limit, self._is_due = 0, 0, False
        self._is_shut = True

    @property
    def waiting_bytes(self) -> int:
        """Bytes of all records that wait here."""
        return self._sealed_bytes + self._length

    @property
    def _length(self) -> int:
        return self.offset - self._start.offset - BATCH_BYTES
