"""Rebuilding the groups' indexes from the records of the log, in the order they were written.

A scan may begin in the middle of a group's history, when older files have been pruned. Such records are
kept but *unanchored* until a FLOOR or COPY of their group says where its history begins; a group still
unanchored at the end of the log lacks records. Copies (D4) are gathered aside and take the place of the
group's older records only when the last of them has come by: a copy that a crash cut short never counts.
"""

from dataclasses import dataclass

from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.storage.batch import Item, Place
from holdfast.storage.index import GroupIndex
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
        self._unanchored: dict[GroupId, None] = {}
        self._copies: dict[GroupId, tuple[GroupIndex, int]] = {}

    def unanchored(self) -> list[GroupId]:
        return list(self._unanchored)

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
        index.add(item.count, Epoch(item.epoch), item.checksum, place.file, place.offset, item.size)

    def _begin(self, group: GroupId, item: Item, place: Place) -> GroupIndex:
        """A group's history as far as it is known begins with this record."""
        start = Point(Position(item.first - 1), ORIGIN.epoch, item.previous)
        followed = self.groups[group].followed if group in self.groups else ORIGIN.epoch
        index = self.groups[group] = GroupIndex(start, anchor=place, followed=followed)
        if start != ORIGIN:
            self._unanchored[group] = None
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
        index = self.groups.get(group)
        if item.kind == Kind.FORGET:
            self.groups.pop(group, None)
            self._unanchored.pop(group, None)
            return
        point, epoch = decode_point(body), Epoch(item.epoch)
        if item.kind == Kind.COPY:
            self._copies[group] = (GroupIndex(point, anchor=place, followed=epoch), item.count)
            self._maybe_finish_copy(group)
        elif item.kind == Kind.FLOOR:
            self._floor(group, index, point, epoch, place)
        elif item.kind == Kind.DROP:
            self._drop(group, index, point, epoch, place)
        else:
            raise Unreadable("a known kind of record", f"kind {item.kind}")

    def _floor(
        self, group: GroupId, index: GroupIndex | None, point: Point, epoch: Epoch, place: Place
    ) -> None:
        if index is None or point.position > index.position:
            followed = max(epoch, index.followed) if index is not None else epoch
            self.groups[group] = GroupIndex(point, anchor=place, followed=followed)
            self._unanchored.pop(group, None)
            return
        index.followed = max(index.followed, epoch)
        if point.position < index.floor.position:
            return  # what lies between was pruned, so a later FLOOR or COPY follows
        known = index.point_at(point.position)
        if known is None or known.checksum != point.checksum:
            raise Unreadable(f"a floor at {known}", str(point))
        index.raise_floor(point, place)
        self._unanchored.pop(group, None)

    def _drop(
        self, group: GroupId, index: GroupIndex | None, point: Point, epoch: Epoch, place: Place
    ) -> None:
        if index is None or point.position < index.floor.position:
            index = self.groups[group] = GroupIndex(point, anchor=place)
            if point != ORIGIN:
                self._unanchored[group] = None
        else:
            known = index.point_at(point.position)
            if known is None or known.checksum != point.checksum:
                raise Unreadable(f"a drop to {known}", str(point))
            index.drop_after(known)
        index.followed = max(index.followed, epoch)

    def _continues_copy(self, group: GroupId, item: Item, place: Place) -> bool:
        copy, _ = self._copies[group]
        if (item.first, item.previous) != (copy.position + 1, copy.checksum):
            del self._copies[group]  # a crash cut it short; this is a new record
            return False
        copy.add(item.count, Epoch(item.epoch), item.checksum, place.file, place.offset, item.size)
        self._maybe_finish_copy(group)
        return True

    def _maybe_finish_copy(self, group: GroupId) -> None:
        copy, count = self._copies[group]
        if copy.records == count:
            del self._copies[group]
            self.groups[group] = copy
            self._unanchored.pop(group, None)
