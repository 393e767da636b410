"""An index of where each group's records lie in the log, how a scan rebuilds it, and checked reading.

:class:`GroupIndex` covers one group's records after the *floor* (a checkpoint holds everything up to it) up
to the *tail*. It uses columns of plain numbers, because a host may hold millions of records, and a tuple for
each would cost ten times the memory.

:class:`Replay` rebuilds the indexes from the records of the log, in the order they were written. A scan may
begin in the middle of a group's history, when older files have been pruned. Such records are kept but
*unanchored* until a FLOOR or COPY of their group says where its history begins. A group still unanchored at
the end of the log lacks records. Copies (D4) are collected separately and replace the group's older records
only when the last of them was read, so that a copy cut short by a crash never counts.

:func:`read_records` checks every record it reads: bytes that rotted since they were written are never served.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.model.errors import Corruption, InvalidRequest
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.storage.batch import Item, Place
from holdfast.storage.record import (
    ORIGIN,
    RECORD_BYTES,
    Kind,
    Point,
    Record,
    Unreadable,
    checked,
    decode_point,
)
from holdfast.storage.segments import Readable, file_name

_FILE_SHIFT = 32
_OFFSET_MASK = (1 << _FILE_SHIFT) - 1
# The front of the columns is cut off once it has this many trimmed records and they are half of the column.
_COMPACT_FROM = 1024


def packed(place: Place) -> int:
    """A place as one number; adding to it moves forward in the file."""
    return place.file << _FILE_SHIFT | place.offset


class RecordPlace(msgspec.Struct, frozen=True):
    """The place and size of a record's bytes, and its first position."""

    first: int
    place: Place
    size: int


class GroupIndex:
    """The index of one group's records. Each record begins at the position after the one before."""

    __slots__ = (
        "_checksums",
        "_epochs",
        "_firsts",
        "_places",
        "_sizes",
        "_start",
        "anchor",
        "checksum",
        "epoch",
        "floor",
        "followed",
        "live_bytes",
        "position",
        "tail",
    )

    def __init__(self, floor: Point = ORIGIN, *, anchor: Place, followed: Epoch = ORIGIN.epoch) -> None:
        self.floor = floor
        self.position: int = floor.position
        """The last position held; together with the *epoch* and *checksum* of its record, it is the tail."""
        self.epoch = floor.epoch
        self.checksum = floor.checksum
        self.followed = max(followed, floor.epoch)
        """The highest epoch in any record (V3)."""
        self.anchor = anchor
        """The place of the record that says where this group's history begins; a scan must read it."""
        self.live_bytes = 0
        self.tail = floor
        """The tail as a point, made once for each record because it is read many times in between."""
        self._firsts = array("Q")
        self._places = array("Q")
        self._sizes = array("I")
        self._checksums = array("I")
        self._epochs: list[tuple[int, Epoch]] = []  # (first position, epoch) of each change of epoch
        self._start = 0

    @property
    def records(self) -> int:
        return len(self._firsts) - self._start

    @property
    def entries(self) -> int:
        """The records in memory: those kept, and trimmed ones not yet released."""
        return len(self._firsts)

    def add(self, count: int, epoch: Epoch, checksum: int, packed_place: int, size: int) -> None:
        """Add the next record, on the hot path; *packed_place* is as :func:`packed` returns it."""
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
        self.tail = Point(Position(self.position), self.epoch, checksum)
        self.live_bytes += size

    def point_at(self, position: int) -> Point | None:
        """The point of the record that ends at *position*; None when there is none (any more)."""
        if position == self.floor.position:
            return self.floor
        if position == self.position:
            return self.tail
        at = bisect_right(self._firsts, position, self._start) - 1
        if at < self._start or at + 1 == len(self._firsts) or self._firsts[at + 1] != position + 1:
            return None
        return Point(Position(position), self._epoch_at(position), self._checksums[at])

    def drop_after(self, point: Point) -> None:
        """Remove the records beyond *point*, which must be a point of this group."""
        keep = bisect_right(self._firsts, point.position, self._start)
        self.live_bytes -= sum(self._sizes[keep:])
        for column in (self._firsts, self._places, self._sizes, self._checksums):
            del column[keep:]
        while self._epochs and self._epochs[-1][0] > point.position:
            self._epochs.pop()
        self.position, self.epoch, self.checksum = point.position, point.epoch, point.checksum
        self.tail = point

    def records_after(self, position: int) -> int:
        """How many records lie beyond *position*."""
        return len(self._firsts) - bisect_right(self._firsts, position, self._start)

    def raise_floor(self, point: Point, anchor: Place) -> None:
        """Remove the records up to *point*; a point beyond the tail replaces everything (M3)."""
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

    def located(self, first: int, last: int) -> list[RecordPlace]:
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
        """The first place of the log that this group needs."""
        if not self.records:
            return self.anchor
        return min(self.anchor, self._located(self._start).place)

    def _located(self, number: int) -> RecordPlace:
        place = self._places[number]
        return RecordPlace(
            self._firsts[number], Place(place >> _FILE_SHIFT, place & _OFFSET_MASK), self._sizes[number]
        )

    def _epoch_at(self, position: int) -> Epoch:
        at = bisect_right(self._epochs, position, key=lambda change: change[0]) - 1
        return self._epochs[at][1]


@dataclass(frozen=True, slots=True)
class Break:
    """A record that does not continue its group's chain (S2)."""

    group: GroupId
    place: Place
    expected: str
    found: str
    first_missing: int | None
    last_missing: int | None


class Replay:
    """The state of every group after the records read so far."""

    def __init__(self) -> None:
        self.groups: dict[GroupId, GroupIndex] = {}
        self.breaks: list[Break] = []
        self._unanchored: dict[GroupId, Place] = {}
        self._copies: dict[GroupId, tuple[GroupIndex, int]] = {}

    def unanchored(self) -> list[tuple[GroupId, Place]]:
        """The groups whose history lacks its beginning, and the place where the rest begins."""
        return list(self._unanchored.items())

    def apply(self, item: Item, place: Place, body: bytes) -> None:
        """Apply the next record, at *place*. *body* is read only for the kinds that hold a point."""
        if item.kind == Kind.DATA:
            self._data(item, place)
            return
        group = GroupId(item.group)
        self._copies.pop(group, None)
        try:
            self._control(group, item, place, body)
        except Unreadable as wrong:
            self.breaks.append(Break(group, place, str(wrong.expected), str(wrong.found), None, None))

    def _data(self, item: Item, place: Place) -> None:
        group = GroupId(item.group)
        if group in self._copies and self._continues_copy(group, item, place):
            return
        index = self.groups.get(group)
        if index is None:
            index = self._begin(group, item, place)
        elif (item.first, item.previous) != (index.position + 1, index.checksum):
            self._break(index, item, place)
            index = self._begin(group, item, place)
        index.add(item.count, Epoch(item.epoch), item.checksum, packed(place), item.size)

    def _begin(self, group: GroupId, item: Item, place: Place) -> GroupIndex:
        """Start a group's known history with this record."""
        start = Point(Position(item.first - 1), ORIGIN.epoch, item.previous)
        followed = self.groups[group].followed if group in self.groups else ORIGIN.epoch
        index = self.groups[group] = GroupIndex(start, anchor=place, followed=followed)
        if start != ORIGIN:
            self._unanchored[group] = place
        return index

    def _break(self, index: GroupIndex, item: Item, place: Place) -> None:
        missing = range(index.position + 1, item.first)
        self.breaks.append(
            Break(
                GroupId(item.group),
                place,
                f"position {index.position + 1} after {index.checksum:#010x}",
                f"position {item.first} after {item.previous:#010x}",
                missing[0] if missing else None,
                missing[-1] if missing else None,
            )
        )

    def _control(self, group: GroupId, item: Item, place: Place, body: bytes) -> None:
        if item.kind == Kind.FORGET:
            self.groups.pop(group, None)
            self._unanchored.pop(group, None)
            return
        point, epoch = decode_point(body), Epoch(item.epoch)
        if item.kind == Kind.COPY:
            self._copies[group] = (GroupIndex(point, anchor=place, followed=epoch), item.count)
            self._maybe_finish_copy(group)
        elif item.kind == Kind.FLOOR and not item.count:
            self._anchor(group, GroupIndex(point, anchor=place, followed=epoch))
        elif item.kind == Kind.FLOOR:
            self._raise_floor(group, point, epoch, place)
        elif item.kind == Kind.DROP:
            self._drop(group, point, epoch, place)
        else:
            raise Unreadable("a known kind of record", f"kind {item.kind}")

    def _anchor(self, group: GroupId, index: GroupIndex) -> None:
        self.groups[group] = index
        self._unanchored.pop(group, None)

    def _raise_floor(self, group: GroupId, point: Point, epoch: Epoch, place: Place) -> None:
        index = self.groups.get(group)
        if index is None:
            # The records it refers to were pruned, so a later FLOOR or COPY replaces them.
            self._unanchored.setdefault(group, place)
            return
        index.followed = max(index.followed, epoch)
        if point.position < index.floor.position:
            return  # as above: those records were pruned
        index.raise_floor(self._known(index, point), place)
        self._unanchored.pop(group, None)

    def _drop(self, group: GroupId, point: Point, epoch: Epoch, place: Place) -> None:
        index = self.groups.get(group)
        if index is None or point.position < index.floor.position:
            index = self.groups[group] = GroupIndex(point, anchor=place)
            if point != ORIGIN:
                self._unanchored[group] = place
        else:
            index.drop_after(self._known(index, point))
        index.followed = max(index.followed, epoch)

    def _known(self, index: GroupIndex, point: Point) -> Point:
        """Return *point* after checking that it is one of the group's."""
        known = index.point_at(point.position)
        if known is None or known.checksum != point.checksum:
            raise Unreadable(str(known), str(point))
        return point

    def _continues_copy(self, group: GroupId, item: Item, place: Place) -> bool:
        copy, _ = self._copies[group]
        if (item.first, item.previous) != (copy.position + 1, copy.checksum):
            del self._copies[group]  # a crash cut the copy short; this is a new record
            return False
        copy.add(item.count, Epoch(item.epoch), item.checksum, packed(place), item.size)
        self._maybe_finish_copy(group)
        return True

    def _maybe_finish_copy(self, group: GroupId) -> None:
        copy, count = self._copies[group]
        if copy.records == count:
            del self._copies[group]
            self._anchor(group, copy)


SPAN_BYTES: Final = 256 << 10
"""Records of one group that lie this close are read together, including other groups' between them."""


def read_records(
    disk: Readable, group: GroupId, index: GroupIndex, first: Position, last: Position
) -> list[Record]:
    """Read the records of *group* that hold the positions *first* to *last*, in order.

    Raises ``Corruption`` where the disk does not hold what was written, ``InvalidRequest`` for positions the
    log does not hold.
    """
    found = index.located(first, last)
    records: list[Record] = []
    at = 0
    while at < len(found):
        end = _reach(found, at)
        start, stop = found[at].place, found[end - 1].place
        data = disk.read(
            file_name(start.file), start.offset, stop.offset + found[end - 1].size - start.offset
        )
        for located in found[at:end]:
            offset = located.place.offset - start.offset
            records.append(_checked(group, located, data[offset : offset + located.size]))
        at = end
    return records


def _reach(found: list[RecordPlace], at: int) -> int:
    """The index after the last record that one read covers."""
    start = found[at].place
    end = at + 1
    while end < len(found):
        place = found[end].place
        if place.file != start.file or not 0 < place.offset - start.offset < SPAN_BYTES:
            break
        end += 1
    return end


def _checked(group: GroupId, located: RecordPlace, data: bytes) -> Record:
    try:
        checksum, previous, of, epoch, first, count = checked(data)
        if of != group or first != located.first:
            raise Unreadable(f"group {group} position {located.first}", f"group {of} position {first}")
    except Unreadable as wrong:
        raise Corruption(
            "a record is damaged",
            file=file_name(located.place.file),
            offset=located.place.offset,
            expected=wrong.expected,
            found=wrong.found,
        ) from None
    return Record(of, epoch, first, count, previous, checksum, data[RECORD_BYTES:])
