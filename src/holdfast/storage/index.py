"""Where the records of one group lie in the log, and the chain they form.

The records kept are those after the *floor* (what lies up to it is in a checkpoint) up to the *tail*.
Columns of plain numbers: a host may hold millions of records, and a tuple for each would cost ten times
the memory.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Epoch, Position
from holdfast.storage.batch import Place
from holdfast.storage.record import ORIGIN, Point

_FILE_SHIFT = 32
_OFFSET_MASK = (1 << _FILE_SHIFT) - 1
# The front of the columns is cut off once so many trimmed records lie there, and they are half of it.
_COMPACT_FROM = 1024


def packed(place: Place) -> int:
    """A place as one number; adding to it moves on in the file."""
    return place.file << _FILE_SHIFT | place.offset


@dataclass(frozen=True, slots=True)
class Located:
    """A record's bytes: where they lie and which positions they hold."""

    first: int
    place: Place
    size: int


class GroupIndex:
    """One group's records. Positions are continuous: each record begins where the one before ended."""

    __slots__ = (
        "_checksums",
        "_epochs",
        "_firsts",
        "_places",
        "_sizes",
        "_start",
        "_tail",
        "anchor",
        "checksum",
        "epoch",
        "floor",
        "followed",
        "live_bytes",
        "position",
    )

    def __init__(self, floor: Point = ORIGIN, *, anchor: Place, followed: Epoch = ORIGIN.epoch) -> None:
        self.floor = floor
        self.position: int = floor.position
        """The last position held; with *epoch* and *checksum* of its record, the tail."""
        self.epoch = floor.epoch
        self.checksum = floor.checksum
        self.followed = max(followed, floor.epoch)
        """The highest epoch in any record (V3)."""
        self.anchor = anchor
        """Where the record lies that says where this group's history begins: a scan must come by it."""
        self.live_bytes = 0
        self._tail = floor
        self._firsts = array("Q")
        self._places = array("Q")
        self._sizes = array("I")
        self._checksums = array("I")
        self._epochs: list[tuple[int, Epoch]] = []  # (first position, epoch) of each change of epoch
        self._start = 0

    @property
    def tail(self) -> Point:
        """Asked for many times between two records: so it is made once for each."""
        tail = self._tail
        if tail.position != self.position or tail.checksum != self.checksum or tail.epoch != self.epoch:
            tail = self._tail = Point(Position(self.position), self.epoch, self.checksum)
        return tail

    @property
    def records(self) -> int:
        return len(self._firsts) - self._start

    @property
    def entries(self) -> int:
        """Records in memory: those kept, and trimmed ones not yet given back."""
        return len(self._firsts)

    def add(self, count: int, epoch: Epoch, checksum: int, packed_place: int, size: int) -> None:
        """The next record; the hot path. Its place as :func:`packed` gives it."""
        first = self.position + 1
        self._firsts.append(first)
        self._places.append(packed_place)
        self._sizes.append(size)
        self._checksums.append(checksum)
        if epoch != self.epoch or not self._epochs:
            self._epochs.append((first, epoch))
            self.epoch = epoch
            self.followed = max(self.followed, epoch)
        self.position += count
        self.checksum = checksum
        self.live_bytes += size

    def point_at(self, position: int) -> Point | None:
        """The point where a record ends at *position*; None when none does, or the log no longer knows."""
        if position == self.floor.position:
            return self.floor
        if position == self.position:
            return self.tail
        at = bisect_right(self._firsts, position, self._start) - 1
        if at < self._start or at + 1 == len(self._firsts) or self._firsts[at + 1] != position + 1:
            return None
        return Point(Position(position), self._epoch_at(position), self._checksums[at])

    def drop_after(self, point: Point) -> None:
        """Forget what lies beyond *point*, which is one of this group's."""
        keep = bisect_right(self._firsts, point.position, self._start)
        self.live_bytes -= sum(self._sizes[keep:])
        for column in (self._firsts, self._places, self._sizes, self._checksums):
            del column[keep:]
        while self._epochs and self._epochs[-1][0] > point.position:
            self._epochs.pop()
        self.position, self.epoch, self.checksum = point.position, point.epoch, point.checksum

    def records_after(self, position: int) -> int:
        """How many records lie beyond *position*."""
        return len(self._firsts) - bisect_right(self._firsts, position, self._start)

    def raise_floor(self, point: Point, anchor: Place) -> None:
        """Forget what lies up to *point*; a point beyond the tail replaces everything (M3)."""
        self.anchor = anchor
        if point.position > self.position:
            fresh = GroupIndex(point, anchor=anchor, followed=self.followed)
            for name in self.__slots__:
                setattr(self, name, getattr(fresh, name))
            return
        start = bisect_right(self._firsts, point.position, self._start)
        self.live_bytes -= sum(self._sizes[self._start : start])
        self.floor, self._start = point, start
        if start >= _COMPACT_FROM and start * 2 >= len(self._firsts):
            for column in (self._firsts, self._places, self._sizes, self._checksums):
                del column[:start]
            self._start = 0
        while len(self._epochs) > 1 and self._epochs[1][0] <= point.position + 1:
            del self._epochs[0]

    def located(self, first: int, last: int) -> list[Located]:
        """The records that hold the positions *first* to *last*."""
        if not self.floor.position < first <= last <= self.position:
            raise InvalidRequest(
                f"positions {first} to {last} are not in the log, which holds"
                f" {self.floor.position + 1} to {self.position}"
            )
        at = bisect_right(self._firsts, first, self._start) - 1
        end = bisect_right(self._firsts, last, at)
        return [self._located(number) for number in range(at, end)]

    def oldest_place(self) -> Place:
        """The first byte of the log that this group needs."""
        if not self.records:
            return self.anchor
        return min(self.anchor, self._located(self._start).place)

    def _located(self, number: int) -> Located:
        place = self._places[number]
        return Located(
            self._firsts[number], Place(place >> _FILE_SHIFT, place & _OFFSET_MASK), self._sizes[number]
        )

    def _epoch_at(self, position: int) -> Epoch:
        at = bisect_right(self._epochs, position, key=lambda change: change[0]) - 1
        return self._epochs[at][1]
