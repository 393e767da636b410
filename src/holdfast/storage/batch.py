"""Batches: the unit of the log that one write puts on disk, and what a scan can tell about it.

A batch is a header, the records, zeros, and a trailer in the last eight bytes of its last sector. It fills
whole sectors, so that writing the next batch can never tear one that was acknowledged. It has at least two
sectors, so that one blank sector is seen as damage and not taken for the end of the log.

The header contains the number and checksum of the batch before, the place up to which the log was synced when
this batch was written (D2: damage before that place is real damage, after it a torn write is possible), and
the store and opening it belongs to, so that remains of other stores and earlier openings are recognised.
"""

import enum
from dataclasses import dataclass
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec

from holdfast.storage.record import CHECKSUM, HEADER, RECORD_BYTES, Unreadable

MAGIC: Final = b"HfB1"
_END: Final = b"HfE1"
# magic, checksum | salt, file, records, number, opening, mark (2), previous, flags, oldest, length, body
_HEADER: Final = Struct("<4sIQIIQQIIIIIII")
_COVERED: Final = Struct("<QIIQQIIIIIII")
_TRAILER: Final = Struct("<4sI")
BATCH_BYTES: Final = _HEADER.size
"""The bytes that a batch needs before its records; after them it needs ``TRAILER_BYTES``."""
TRAILER_BYTES: Final = _TRAILER.size
_COVERED_FROM: Final = len(MAGIC) + CHECKSUM.size
SECTORS_MIN: Final = 2
POSITION_MAX: Final = 1 << 62


class Place(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):  # made by no Python code
    """The place of a byte in the log. Places sort in the order of writing."""

    file: int
    offset: int


class Flag(enum.IntFlag):
    NONE = 0
    DOUBTFUL = 1
    """The tail of this log was cut and has not yet been compared with other members (D2)."""


class Batch(msgspec.Struct):
    """The header of a batch, without its records."""

    salt: int
    file: int
    records: int
    number: int
    opening: int
    mark: Place
    previous: int
    flags: int
    oldest: int
    """The oldest file of the log: older files were obsolete when this batch was written (D4)."""
    length: int = 0
    """The size of all records, in bytes."""
    body: int = 0
    """The checksum of all records."""
    checksum: int = 0

    def size(self, sector: int) -> int:
        return padded(self.length, sector)


@dataclass(slots=True)  # not frozen: a scan makes millions, and frozen ones cost three times as much
class Item:
    """The header of one record inside a batch, and the place of its bytes in the batch."""

    checksum: int
    previous: int
    group: int
    epoch: int
    first: int
    count: int
    kind: int
    offset: int
    size: int


def padded(length: int, sector: int) -> int:
    """The size on disk of a batch with *length* bytes of records."""
    sectors = -(-(BATCH_BYTES + length + TRAILER_BYTES) // sector)
    return max(SECTORS_MIN, sectors) * sector


def encode(batch: Batch, payload: bytes, size: int) -> tuple[int, bytes]:
    """Return the batch's checksum and its *size* bytes, which is what :func:`padded` says; *length*, *body*
    and *checksum* come from *payload*."""
    covered = _COVERED.pack(
        batch.salt,
        batch.file,
        batch.records,
        batch.number,
        batch.opening,
        batch.mark.file,
        batch.mark.offset,
        batch.previous,
        batch.flags,
        batch.oldest,
        len(payload),
        crc32(payload),
    )
    checksum = crc32(covered)
    gap = size - BATCH_BYTES - len(payload) - TRAILER_BYTES
    stamp = CHECKSUM.pack(checksum)
    return checksum, b"".join((MAGIC, stamp, covered, payload, bytes(gap), _END, stamp))


def decode_header(data: bytes) -> Batch:
    """Decode the header in the first bytes of *data*; raises ``Unreadable``."""
    if len(data) < BATCH_BYTES or data[: len(MAGIC)] != MAGIC:
        raise Unreadable("a batch", _glimpse(data))
    _, checksum, salt, file, records, number, opening, *rest = _HEADER.unpack_from(data)
    mark_file, mark_offset, previous, flags, oldest, length, body = rest
    computed = crc32(memoryview(data)[_COVERED_FROM:BATCH_BYTES])
    if computed != checksum:
        raise Unreadable(f"header checksum {checksum:#010x}", f"{computed:#010x}")
    mark = Place(mark_file, mark_offset)
    return Batch(salt, file, records, number, opening, mark, previous, flags, oldest, length, body, checksum)


def check_payload(batch: Batch, data: bytes) -> None:
    """Check the trailer and the records' checksum in *data*, the whole batch; raises ``Unreadable``."""
    magic, stamp = _TRAILER.unpack_from(data, len(data) - TRAILER_BYTES)
    if magic != _END or stamp != batch.checksum:
        raise Unreadable("the end of the batch", _glimpse(data[-TRAILER_BYTES:]))
    computed = crc32(memoryview(data)[BATCH_BYTES : BATCH_BYTES + batch.length])
    if computed != batch.body:
        raise Unreadable(f"checksum {batch.body:#010x} of the records", f"{computed:#010x}")


def items(batch: Batch, data: bytes) -> list[Item]:
    """The records of a whole batch; *offset* counts from the start of the batch. Raises ``Unreadable``."""
    found = []
    offset, end = BATCH_BYTES, BATCH_BYTES + batch.length
    unpack = HEADER.unpack_from
    while offset + RECORD_BYTES <= end:
        checksum, previous, group, epoch, first, count, kind, length = unpack(data, offset)
        size = RECORD_BYTES + length
        if first + count > POSITION_MAX:
            raise Unreadable(f"positions up to {POSITION_MAX}", f"{count} from {first}")
        found.append(Item(checksum, previous, group, epoch, first, count, kind, offset, size))
        offset += size
    if offset != end or len(found) != batch.records:
        raise Unreadable(f"{batch.records} records", f"{len(found)} in {batch.length} bytes")
    return found


def salvage(batch: Batch, data: bytes) -> tuple[list[Item], list[Item], bool]:
    """Recover what a damaged batch with a good header still holds.

    Return the intact records, the damaged ones, and whether these are all (a damaged length hides everything
    after it).
    """
    intact: list[Item] = []
    damaged: list[Item] = []
    offset, end = BATCH_BYTES, min(BATCH_BYTES + batch.length, len(data))
    while offset + RECORD_BYTES <= end:
        checksum, previous, group, epoch, first, count, kind, length = HEADER.unpack_from(data, offset)
        item = Item(checksum, previous, group, epoch, first, count, kind, offset, RECORD_BYTES + length)
        offset += item.size
        if offset > end:
            break
        covered = memoryview(data)[item.offset + CHECKSUM.size : offset]
        is_intact = crc32(covered) == checksum and first + count <= POSITION_MAX
        (intact if is_intact else damaged).append(item)
    return intact, damaged, offset == end and len(intact) + len(damaged) == batch.records


def _glimpse(data: bytes) -> str:
    """The first bytes of *data*, for a report."""
    return data[:8].hex(" ") or "nothing"
