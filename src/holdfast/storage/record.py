"""The records that the log keeps for a group, and their format on disk.

A record is a fixed header and a body stored exactly as it was received (S5). Its checksum covers header and
body, and the header holds the checksum of the group's previous record (S2). The records of a group therefore
form a chain that is the same on every member: two members whose tails have the same position, epoch and
checksum hold the same records. One record may hold several calls: *count* positions from *first* on.

The other kinds of records change what the log keeps of a group and are not links of the chain. They contain
the chain's state at their place, so that a scan can check it and may begin in the middle of a group's
history.
"""

import enum
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec

from holdfast.model.ids import Epoch, GroupId, Position

# checksum | previous, group, epoch, first, count, kind, length of the body
HEADER: Final = Struct("<IIQQQIII")
COVERED: Final = Struct("<IQQQIII")
CHECKSUM: Final = Struct("<I")
RECORD_BYTES: Final = HEADER.size
_POINT: Final = Struct("<QQI")
CONTROL_BYTES: Final = RECORD_BYTES + _POINT.size
"""The size of every record that is not DATA."""


class Kind(enum.IntEnum):
    DATA = 1
    """Operations: positions *first* to *first* + *count* - 1."""
    DROP = 2
    """Records beyond *first* are dropped (S6, M3), and *epoch* is followed from here on (V3)."""
    FLOOR = 3
    """A checkpoint holds everything up to *first*, and *count* records beyond it are kept. When *count* is 0,
    the group's log restarts there, whatever it held (M3)."""
    COPY = 4
    """The next *count* records of this group are its live ones, copied from older files (D4)."""
    FORGET = 5
    """The group has left this host."""


class Point(msgspec.Struct, frozen=True, gc=False):  # made and compared by no Python code, for every call
    """A point in a group's history, by which two members compare what they hold (M3)."""

    position: Position
    epoch: Epoch
    checksum: int


ORIGIN: Final = Point(Position(0), Epoch(0), 0)
"""The point before the first record of any group."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record of kind DATA, as read back."""

    group: GroupId
    epoch: Epoch
    first: Position
    count: int
    previous: int
    checksum: int
    body: bytes

    @property
    def last(self) -> Position:
        return Position(self.first + self.count - 1)

    @property
    def point(self) -> Point:
        """The point where this record ends."""
        return Point(self.last, self.epoch, self.checksum)

    def encoded(self) -> bytes:
        """The bytes on disk and on the wire, the same on every member."""
        header = HEADER.pack(
            self.checksum,
            self.previous,
            self.group,
            self.epoch,
            self.first,
            self.count,
            Kind.DATA,
            len(self.body),
        )
        return header + self.body


class Unreadable(Exception):
    """Raised inside this package when bytes are not a record; *found* says what they are instead."""

    def __init__(self, expected: object, found: object) -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.expected = expected
        self.found = found


def encode(
    kind: Kind, *, previous: int, group: GroupId, epoch: Epoch, first: Position, count: int, body: bytes
) -> bytes:
    covered = COVERED.pack(previous, group, epoch, first, count, kind, len(body))
    return CHECKSUM.pack(crc32(body, crc32(covered))) + covered + body


def encode_point(point: Point) -> bytes:
    """The body of the kinds that hold a point of the chain."""
    return _POINT.pack(point.position, point.epoch, point.checksum)


def decode_point(body: bytes) -> Point:
    if len(body) != _POINT.size:
        raise Unreadable(f"{_POINT.size} bytes", f"{len(body)} bytes")
    position, epoch, checksum = _POINT.unpack(body)
    return Point(Position(position), Epoch(epoch), checksum)


Header = tuple[int, int, GroupId, Epoch, Position, int]
"""Checksum, checksum of the record before, group, epoch, first position, and how many."""


def checked(data: bytes) -> Header:
    """Check that *data* is exactly one DATA record, and return its header; raises ``Unreadable``."""
    if len(data) < RECORD_BYTES:
        raise Unreadable(f"at least {RECORD_BYTES} bytes", f"{len(data)} bytes")
    checksum, previous, group, epoch, first, count, kind, length = HEADER.unpack_from(data)
    if RECORD_BYTES + length != len(data):
        raise Unreadable(f"a record of {len(data)} bytes", f"one of {RECORD_BYTES + length} bytes")
    computed = crc32(memoryview(data)[CHECKSUM.size :])
    if computed != checksum:
        raise Unreadable(f"checksum {checksum:#010x}", f"{computed:#010x}")
    if kind != Kind.DATA or count < 1 or first < 1:
        raise Unreadable("operations from position 1 on", f"kind {kind}, {count} from position {first}")
    return checksum, previous, GroupId(group), Epoch(epoch), Position(first), count


def decode(data: bytes) -> Record:
    """Decode *data*, which must be exactly one DATA record; raises ``Unreadable``."""
    checksum, previous, group, epoch, first, count = checked(data)
    return Record(group, epoch, first, count, previous, checksum, data[RECORD_BYTES:])
