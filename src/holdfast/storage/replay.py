"""Rebuilding the groups' indexes from the records of the log, in the order they were written.

A scan may begin in the middle of a group's history, when older files have been pruned. Such records are
kept but *unanchored* until a FLOOR or COPY of their group says where its history begins; a group still
unanchored at the end of the log lacks records. Copies (D4) are gathered aside and take the place of the
group's older records only when the last of them has come by: a copy that a crash cut short never counts.
"""

from dataclasses import dataclass

from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.storage.batch import Item, Place
from holdfast.storage.index import GroupIndex, packed
from holdfast.storage.record import ORIGIN, Kind, Point, Unreadable, decode_point


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
    """The state of every group after the records seen so far."""

    def __init__(self) -> None:
        self.groups: dict[GroupId, GroupIndex] = {}
        self.breaks: list[Break] = []
        self._unanchored: dict[GroupId, Place] = {}
        self._copies: dict[GroupId, tuple[GroupIndex, int]] = {}

    def unanchored(self) -> list[tuple[GroupId, Place]]:
        """Groups of whose history the beginning is missing, and where what is there begins."""
        return list(self._unanchored.items())

    def apply(self, item: Item, place: Place, body: bytes) -> None:
        """The next record, lying at *place*; *body* is read for the kinds that hold a point only."""
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
        """A group's history as far as it is known begins with this record."""
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
            # The records it speaks of were pruned, so a later FLOOR or COPY stands for them.
            self._unanchored.setdefault(group, place)
            return
        index.followed = max(index.followed, epoch)
        if point.position < index.floor.position:
            return  # as above
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
        """*point*, which must be one of the group's."""
        known = index.point_at(point.position)
        if known is None or known.checksum != point.checksum:
            raise Unreadable(str(known), str(point))
        return point

    def _continues_copy(self, group: GroupId, item: Item, place: Place) -> bool:
        copy, _ = self._copies[group]
        if (item.first, item.previous) != (copy.position + 1, copy.checksum):
            del self._copies[group]  # a crash cut it short; this is a new record
            return False
        copy.add(item.count, Epoch(item.epoch), item.checksum, packed(place), item.size)
        self._maybe_finish_copy(group)
        return True

    def _maybe_finish_copy(self, group: GroupId) -> None:
        copy, count = self._copies[group]
        if copy.records == count:
            del self._copies[group]
            self._anchor(group, copy)
