"""One group's part of its host's log, with its newest records cached for sending.

The log serves all groups and counts records; a member asks about its own group and by positions.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Final

from holdfast.model.errors import invariant
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.sequence.ports import Durability, GroupLog
from holdfast.storage.record import HEADER, ORIGIN, RECORD_BYTES, Kind, Point, Record

RECENT_BYTES_MAX: Final = 1 << 20
"""How many bytes of records are cached, so that new records are not read from the disk to be sent."""
READ_POSITIONS: Final = 32
"""How many positions to read from the disk first, while the length of the records is unknown."""
_DATA: Final = int(Kind.DATA)  # a plain integer is packed without a call of Python code
_end_of: Final = itemgetter(0)
POINTS_MAX: Final = 64
"""The most points to send: a log of 2^64 positions has no more doublings than this."""


class GroupStore:
    """The records of one group on one host."""

    def __init__(self, group: GroupId, log: GroupLog, durability: Durability) -> None:
        self._group = group
        self._log = log
        self._durability = durability
        self._written = 0
        self.tail = log.tail(group)
        """Where the group's records end. Cached, because each call asks for it fifteen times."""
        self._before = self.tail
        """Where the records ended before the newest one; most followers are at this point."""
        self._recent: deque[tuple[Position, bytes]] = deque()  # (last position, encoded)
        self._recent_bytes = 0
        self.live_bytes: Callable[[], int] = partial(log.live_bytes, group)
        """Returns the bytes of the records beyond the floor."""
        self.followed: Callable[[], Epoch] = partial(log.followed, group)
        """Returns the highest epoch that the group's log has followed (V3)."""

    @property
    def floor(self) -> Point:
        return self._log.floor(self._group)

    def point_at(self, position: Position) -> Point | None:
        """The point at *position*, if a record ends there."""
        tail = self.tail
        if position == tail.position:
            return tail
        if position == self._before.position:
            return self._before
        return self._log.point_at(self._group, position) if tail != ORIGIN else None

    def points(self) -> tuple[Point, ...]:
        """Points by which another member finds where our histories diverge: the tail, then in doubling steps
        back to the floor (M3)."""
        floor, tail = self.floor, self.tail
        found = [tail]
        back = 1
        while len(found) < POINTS_MAX - 1 and tail.position - back > floor.position:
            point = self.boundary_below(Position(tail.position - back))
            if point != found[-1]:
                found.append(point)
            back *= 2
        return tuple(found) if found[-1] == floor else (*found, floor)

    def boundary_below(self, position: Position) -> Point:
        """The last point at or below *position*; the floor if there is none."""
        floor = self.floor
        while position > floor.position:
            point = self.point_at(position)
            if point is not None:
                return point
            position = Position(position - 1)
        return floor

    # --- writing

    def append(self, epoch: Epoch, body: bytes, count: int) -> Position:
        """Append the next record as primary, and return its last position."""
        self._before = before = self.tail
        self._written = self._log.append(self._group, epoch, body, count)
        after = self.tail = self._log.tail(self._group)
        header = HEADER.pack(
            *(after.checksum, before.checksum, self._group, epoch, before.position + 1, count, _DATA),
            len(body),
        )
        encoded = header + body
        self._recent.append((after.position, encoded))
        self._recent_bytes += len(encoded)
        if self._recent_bytes > RECENT_BYTES_MAX:
            self._forget_oldest()
        return after.position

    def append_received(self, encoded: bytes) -> None:
        self._before = self.tail
        self._written = self._log.append_received(encoded)
        checksum, _, _, epoch, first, count, _, _ = HEADER.unpack_from(encoded)
        self.tail = Point(first + count - 1, epoch, checksum)  # asking the log costs more
        self._recent.append((self.tail.position, encoded))
        self._recent_bytes += len(encoded)
        if self._recent_bytes > RECENT_BYTES_MAX:
            self._forget_oldest()

    def drop(self, after: Position, epoch: Epoch) -> None:
        """Drop what lies beyond *after*, and follow *epoch*."""
        self._written = self._log.drop(self._group, after, epoch)
        self.tail = self._before = self._log.tail(self._group)
        while self._recent and self._recent[-1][0] > after:
            self._recent_bytes -= len(self._recent.pop()[1])

    def install(self, point: Point) -> None:
        """Start from a checkpoint at *point*; drops our records unless our history contains that point
        (M3)."""
        if point.position <= self.tail.position and self.point_at(point.position) != point:
            self.drop(self.floor.position, self.followed())
        self._written = self._log.install(self._group, point)
        self.tail = self._before = self._log.tail(self._group)
        self._recent.clear()
        self._recent_bytes = 0

    def when_durable(self, then: Callable[[], None]) -> None:
        """Call *then* once everything written so far survives a power cut."""
        self._durability.after(self._written, then)

    # --- reading

    def read(self, first: Position, last: Position) -> list[Record]:
        """The records that hold these positions; from the cache, if it has all of them."""
        found: list[Record] = []
        for _, encoded in islice(self._recent, bisect_left(self._recent, first, key=_end_of), None):
            checksum, previous, group, epoch, begin, count, _, _ = HEADER.unpack_from(encoded)
            if begin > last:
                break
            found.append(Record(group, epoch, begin, count, previous, checksum, encoded[RECORD_BYTES:]))
        is_whole = found and found[0].first <= first and last <= self.tail.position
        if not is_whole or first <= self.floor.position:
            return self._log.read(self._group, first, last)
        return found

    def after(
        self, position: Position, records_max: int, bytes_max: int
    ) -> tuple[tuple[bytes, ...], Position]:
        """The next encoded records beyond *position*, and the position where they end. Returns at least one
        record if there is any, and otherwise stays within *records_max* and *bytes_max*; only the first
        record may be longer."""
        if position >= self.tail.position:
            return (), position
        found = self._at_hand(position) or self._from_log(position, records_max, bytes_max)
        if _first(found[0][1]) != position + 1:
            invariant(False, "records are sent from where one ends")
        size, chosen = 0, 0
        for _, encoded in found[:records_max]:
            size += len(encoded)
            if chosen and size > bytes_max:
                break
            chosen += 1
        return tuple([encoded for _, encoded in found[:chosen]]), found[chosen - 1][0]

    def lacked(
        self, position: Position, records_max: int, bytes_max: int
    ) -> tuple[Point, tuple[bytes, ...], Position] | None:
        """What a follower lacks that has everything up to *position*, which is below the tail: the point
        there, and what :meth:`after` returns. None if the log no longer reaches back that far."""
        if position == self._before.position and self._recent:
            last, newest = self._recent[-1]  # nearly always: a follower lacks the newest record alone
            return self._before, (newest,), last
        if position < self._log.floor(self._group).position:
            return None
        previous = self.point_at(position)
        return (previous, *self.after(position, records_max, bytes_max)) if previous is not None else None

    def _from_log(self, position: Position, records_max: int, bytes_max: int) -> list[tuple[Position, bytes]]:
        """Read in small steps, because the length of records is known only after they are read."""
        tail, step, size = self.tail.position, READ_POSITIONS, 0
        found: list[tuple[Position, bytes]] = []
        while position < tail and len(found) < records_max and size < bytes_max:
            for record in self.read(Position(position + 1), Position(min(tail, position + step))):
                found.append((record.last, record.encoded()))
                size += len(found[-1][1])
            position = found[-1][0]
            step *= 2 if size < bytes_max // 4 else 1
        return found

    def _at_hand(self, position: Position) -> list[tuple[Position, bytes]]:
        found: list[tuple[Position, bytes]] = []
        for last, encoded in reversed(self._recent):
            if last <= position:
                break
            found.append((last, encoded))
        if not found or _first(found[-1][1]) != position + 1:
            return []
        found.reverse()
        return found

    def _forget_oldest(self) -> None:
        while self._recent_bytes > RECENT_BYTES_MAX:
            self._recent_bytes -= len(self._recent.popleft()[1])


def order_of(tail: Point) -> tuple[int, int]:
    """The sort key of tails. Of two in-sync members, the one with the greater tail holds everything committed
    that the other holds: a tail of a later epoch includes everything committed before that epoch, however
    short it is."""
    return (tail.epoch, tail.position)


def _first(encoded: bytes) -> int:
    first: int = HEADER.unpack_from(encoded)[4]
    return first
