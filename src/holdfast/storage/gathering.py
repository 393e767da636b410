"""Gathering: records wait here while a sync runs, laid out as they will lie on the disk (PROTOCOL S5).

The place of every record is known when it is appended: batches follow one another without gaps, so a batch
begins where the one before ends, or in the next file when it no longer fits.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.storage.batch import BATCH_BYTES, TRAILER_BYTES, Place, padded
from holdfast.storage.files import LogConfig


@dataclass(slots=True)
class Sealed:
    """A batch that takes no more records."""

    place: Place
    pieces: list[bytes]
    records: int
    appended: int
    """How many records the log had taken up to the end of this batch."""
    end: Place


class Gathering:
    """The batch that takes records now, and those that are full and wait to be written."""

    def __init__(self, place: Place, config: LogConfig, size_of_file: Callable[[int], int]) -> None:
        self._config = config
        self._size_of_file = size_of_file
        self._sealed: deque[Sealed] = deque()
        self._waiting_bytes = 0
        self.appended = 0
        """Records taken so far; their numbers are the log's sequence numbers."""
        self.pieces: list[bytes] = []
        """The records of the batch, in pieces; whoever adds to it calls :meth:`took`."""
        self.file = place.file
        self.offset = 0
        """Where the next record goes, if it fits."""
        self.room = 0
        """Bytes of records the batch still takes; 0 while the log takes none at all."""
        self._begin(place, 0)

    @property
    def has_records(self) -> bool:
        return bool(self._sealed) or self._is_due or self._records > 0

    @property
    def next_place(self) -> Place:
        return Place(self.file, self.offset)

    def put(self, record: bytes) -> Place:
        """Take one record."""
        if len(record) > self.room:
            self.make_room(len(record))
        place = self.next_place
        self.pieces.append(record)
        self.took(len(record))
        return place

    def put_mark(self) -> None:
        """See that a batch goes down even if it has no records; it counts as one."""
        self.appended += 1
        self._is_due = True

    def has_room_for(self, size: int) -> bool:
        """Whether so many bytes more may wait for the disk."""
        return self._waiting_bytes + self._length + size <= self._config.gather_bytes_max

    def took(self, size: int) -> None:
        """A record of *size* bytes was added to *pieces*."""
        self.appended += 1
        self._records += 1
        self.offset += size
        self.room -= size

    def make_room(self, size: int) -> None:
        """See that the batch has room for a record of *size* bytes; it may be a new batch."""
        if size > self._config.batch_bytes_max:
            raise InvalidRequest(f"a record of {size} bytes; at most {self._config.batch_bytes_max} go")
        if not self.has_room_for(size):
            raise Overloaded(f"{self._waiting_bytes} bytes wait for the disk")
        self.seal()
        if size > self.room:
            self._begin(Place(self._start.file + 1, self._config.sector_bytes), size)

    def seal(self) -> None:
        """Close the batch, if there is anything to write, and begin the next behind it."""
        if not self._records and not self._is_due:
            return
        end = Place(self.file, self._start.offset + padded(self._length, self._config.sector_bytes))
        self._sealed.append(Sealed(self._start, self.pieces, self._records, self.appended, end))
        self._waiting_bytes += self._length
        self._begin(end, 0)

    def take_sealed(self, may_write: Callable[[int], bool]) -> Sealed | None:
        """The next batch to write, unless there is none or its file is not ready."""
        if not self._sealed or not may_write(self._sealed[0].place.file):
            return None
        sealed = self._sealed.popleft()
        self._waiting_bytes -= sum(map(len, sealed.pieces))
        return sealed

    def shut(self) -> None:
        """Take nothing any more."""
        self._sealed.clear()
        self.pieces.clear()
        self.room, self._records, self._is_due = 0, 0, False

    @property
    def _length(self) -> int:
        return self.offset - self._start.offset - BATCH_BYTES

    def _begin(self, place: Place, least: int) -> None:
        frame = BATCH_BYTES + TRAILER_BYTES
        room = self._size_of_file(place.file) - place.offset - frame
        # An empty batch takes two sectors whatever it holds.
        if room < max(least, 2 * self._config.sector_bytes - frame):
            place = Place(place.file + 1, self._config.sector_bytes)
            room = self._size_of_file(place.file) - place.offset - frame
        self._start = place
        self.file, self.offset = place.file, place.offset + BATCH_BYTES
        self.pieces = []
        self._records = 0
        self._is_due = False
        self.room = min(room, self._config.batch_bytes_max)
