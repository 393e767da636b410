"""The files of the log: their names, the header in the first sector, and the log's settings."""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from struct import Struct
from typing import Final, Protocol
from zlib import crc32

import msgspec

from holdfast.model.ids import StoreId
from holdfast.model.validation import Problem
from holdfast.storage.batch import BATCH_BYTES, SECTORS_MIN, TRAILER_BYTES
from holdfast.storage.record import RECORD_BYTES, Unreadable

_MAGIC: Final = b"HoldLog1"
# magic, checksum | sector, size of the file, its number, salt
_HEADER: Final = Struct("<8sIIIIQ")
_COVERED: Final = Struct("<IIIQ")
_PREFIX: Final = "log-"
FILE_BYTES_MAX: Final = 1 << 30
"""Offsets take 32 bits, and this bounds the work that a scan holds at once."""
SECTORS: Final = (512, 4096)


class Readable(Protocol):
    """The reading part of the Disk port."""

    def list(self) -> list[str]: ...

    def size(self, name: str) -> int: ...

    def read(self, name: str, offset: int, length: int) -> bytes: ...


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a host's log."""

    sector_bytes: int = 512
    """The unit that the disk writes completely or not at all. Batches are padded to it, so that a torn write
    never touches acknowledged bytes. It is fixed when a store is created: 512, or 4096 where the disk says
    so."""
    file_bytes: int = 64 << 20
    """The size of one preallocated file. Larger files mean fewer files and coarser pruning."""
    batch_bytes_max: int = 1 << 20
    """Records beyond this size go into a further batch; this also bounds a single record."""
    gather_bytes_max: int = 256 << 20
    """The most bytes of records waiting for a slow disk; beyond it, appends are refused as ``Overloaded``."""
    group_bytes_max: int = 128 << 20
    """The most bytes of one group's live records; beyond it, only that group is refused (D4: log_bytes_max).
    They are copied forward all at once, so twice as much must be able to wait for the disk. A backup that
    reaches this limit acknowledges nothing more, so replication styles refuse calls well before."""
    files_max: int = 8
    """With more files than this, groups that prevent the removal of the oldest are copied forward (D4)."""

    def validate(self) -> list[Problem]:
        problems: list[Problem] = []
        if self.sector_bytes not in SECTORS:
            problems.append(("sector_bytes", f"must be one of {SECTORS}"))
        least = (SECTORS_MIN + 1) * self.sector_bytes
        if not least <= self.file_bytes <= FILE_BYTES_MAX or self.file_bytes % self.sector_bytes:
            problems.append(("file_bytes", f"must be whole sectors, {least} to {FILE_BYTES_MAX}"))
        if not RECORD_BYTES < self.batch_bytes_max <= self.payload_bytes_max:
            problems.append(("batch_bytes_max", "must leave room for a record and fit into a file"))
        if not self.batch_bytes_max <= self.group_bytes_max <= self.gather_bytes_max // 2:
            said = "must lie between batch_bytes_max and half of gather_bytes_max"
            problems.append(("group_bytes_max", said))
        if self.files_max < 2:
            problems.append(("files_max", "must be at least 2"))
        return problems

    @property
    def payload_bytes_max(self) -> int:
        """The most bytes of records that fit into an empty file."""
        return self.file_bytes - self.sector_bytes - BATCH_BYTES - TRAILER_BYTES


@dataclass(frozen=True, slots=True)
class FileHeader:
    sector: int
    size: int
    file: int
    salt: int


@lru_cache(maxsize=256)
def file_name(number: int) -> str:
    return f"{_PREFIX}{number:08d}"


def file_number(name: str) -> int | None:
    """The number in a log file's name; None for other files."""
    digits = name.removeprefix(_PREFIX)
    if digits == name or len(digits) != 8 or not digits.isascii() or not digits.isdigit():
        return None
    return int(digits)


def salt_of(store: StoreId) -> int:
    """The number that marks every file and batch as belonging to this store."""
    return int.from_bytes(blake2b(store.encode(), digest_size=8).digest(), "little")


def encode_file_header(header: FileHeader) -> bytes:
    covered = _COVERED.pack(header.sector, header.size, header.file, header.salt)
    return (_MAGIC + crc32(covered).to_bytes(4, "little") + covered).ljust(header.sector, b"\0")


def decode_file_header(data: bytes) -> FileHeader:
    """Decode the header of a log file; raises ``Unreadable``."""
    if len(data) < _HEADER.size or data[: len(_MAGIC)] != _MAGIC:
        raise Unreadable("the header of a log file", data[:8].hex(" ") or "nothing")
    _, checksum, sector, size, file, salt = _HEADER.unpack_from(data)
    computed = crc32(_COVERED.pack(sector, size, file, salt))
    if computed != checksum or sector not in SECTORS:
        raise Unreadable(f"header checksum {checksum:#010x}", f"{computed:#010x}")
    return FileHeader(sector, size, file, salt)
