"""A log in memory with the interface of the host's log, for groups with ``durability="memory"``.

Everything counts as durable after the next flush, because the store of such a member is its process (V4).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.model.errors import Conflict, InvalidRequest
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.storage.record import ORIGIN, Kind, Point, Record, Unreadable, decode, encode


@dataclass(slots=True)
class _Group:
    floor: Point = ORIGIN
    followed: Epoch = ORIGIN.epoch
    records: list[Record] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    """The last position of each record, so that a record is found without scanning all."""
    live_bytes: int = 0

    @property
    def tail(self) -> Point:
        return self.records[-1].point if self.records else self.floor

    def point_at(self, position: Position) -> Point | None:
        if position == self.floor.position:
            return self.floor
        index = bisect_left(self.lasts, position)
        is_there = index < len(self.lasts) and self.lasts[index] == position
        return self.records[index].point if is_there else None

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.lasts.append(record.last)
        self.live_bytes += len(record.body)

    def keep(self, first: int, last: int) -> None:
        """Keep only the records from index *first* up to, but not including, *last*."""
        self.records, self.lasts = self.records[first:last], self.lasts[first:last]
        self.live_bytes = sum(len(record.body) for record in self.records)


class MemoryLog:
    """The records of all in-memory groups of one process."""

    def __init__(self, on_durable: Callable[[int], None]) -> None:
        self.durable = 0
        self.appended = 0
        self._on_durable = on_durable
        self._groups: dict[GroupId, _Group] = {}

    def append(self, group: GroupId, epoch: Epoch, body: bytes, count: int = 1) -> int:
        tail = self.tail(group)
        first = Position(tail.position + 1)
        return self.append_received(
            encode(
                Kind.DATA,
                previous=tail.checksum,
                group=group,
                epoch=epoch,
                first=first,
                count=count,
                body=body,
            )
        )

    def append_received(self, encoded: bytes) -> int:
        try:
            record = decode(encoded)
        except Unreadable as wrong:
            raise InvalidRequest(f"no record: {wrong}") from None
        tail = self.tail(record.group)
        if (record.first, record.previous) != (tail.position + 1, tail.checksum) or record.epoch < tail.epoch:
            raise Conflict(f"{record.point} of group {record.group} does not continue {tail}")
        known = self._groups.setdefault(record.group, _Group())
        known.add(record)
        known.followed = max(known.followed, record.epoch)
        return self._took()

    def drop(self, group: GroupId, after: Position, epoch: Epoch) -> int:
        known = self._groups.setdefault(group, _Group())
        if known.point_at(after) is None:
            raise InvalidRequest(f"group {group}: no record ends at {after}")
        known.keep(0, bisect_right(known.lasts, after))
        known.followed = max(known.followed, epoch)
        return self._took()

    def set_floor(self, group: GroupId, position: Position) -> int:
        point = self.point_at(group, position)
        if point is None:
            raise InvalidRequest(f"group {group}: no record ends at {position}")
        return self.install(group, point)

    def install(self, group: GroupId, point: Point) -> int:
        known = self._groups.setdefault(group, _Group())
        if point.position <= known.tail.position and known.point_at(point.position) != point:
            raise Conflict(f"group {group}: {point} is not in this log's history")
        known.keep(bisect_right(known.lasts, point.position), len(known.lasts))
        known.floor = point
        known.followed = max(known.followed, point.epoch)
        return self._took()

    def forget(self, group: GroupId) -> int:
        del self._groups[group]
        return self._took()

    def flush(self) -> None:
        if self.durable < self.appended:
            self.durable = self.appended
            self._on_durable(self.durable)

    def groups(self) -> list[GroupId]:
        return sorted(self._groups)

    def tail(self, group: GroupId) -> Point:
        known = self._groups.get(group)
        return known.tail if known is not None else ORIGIN

    def floor(self, group: GroupId) -> Point:
        known = self._groups.get(group)
        return known.floor if known is not None else ORIGIN

    def followed(self, group: GroupId) -> Epoch:
        known = self._groups.get(group)
        return known.followed if known is not None else ORIGIN.epoch

    def live_bytes(self, group: GroupId) -> int:
        known = self._groups.get(group)
        return known.live_bytes if known is not None else 0

    def point_at(self, group: GroupId, position: Position) -> Point | None:
        known = self._groups.get(group)
        return known.point_at(position) if known is not None else None

    def read(self, group: GroupId, first: Position, last: Position) -> list[Record]:
        known = self._groups[group]
        if not known.floor.position < first <= last <= known.tail.position:
            raise InvalidRequest(f"positions {first} to {last} are not in the log")
        begin, end = bisect_left(known.lasts, first), bisect_left(known.lasts, last)
        return known.records[begin : end + 1]

    def _took(self) -> int:
        self.appended += 1
        return self.appended
