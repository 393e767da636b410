"""A file that records what the host's process is executing and outlives the process (the slot of rule E4).

The file is mapped into memory: writing a note takes a few stores, no system call and no sync, and the
kernel keeps the note when the process is gone. A power cut may lose it, but no call causes a power cut.
"""

import mmap
import os
import struct
from pathlib import Path
from typing import Final

import structlog

from holdfast.execution.crash_attempts import Attempt, NoSlot, Slot
from holdfast.machine.files import FILE_MODE
from holdfast.model.calls import CLIENT_CHARACTERS_MAX
from holdfast.model.ids import ClientId, GroupId, Incarnation

EXECUTING: Final = "executing"
"""The name of the file in the host's directory."""
CLIENT_BYTES: Final = 4 * CLIENT_CHARACTERS_MAX
_INCARNATION: Final = struct.Struct("<Q")
_NOTE: Final = struct.Struct(f"<QQQIH{CLIENT_BYTES}s")
_GROUP: Final = struct.Struct("<Q")
BESIDE_MAX: Final = 4
"""How many slow methods have a note of their own: more than run at a time (E15)."""
_AT: Final = _INCARNATION.size
_BYTES: Final = _AT + (1 + BESIDE_MAX) * _NOTE.size

log = structlog.get_logger("holdfast.executing")


class CrashNote:
    """Notes the calls that this process is executing, so that a crash can be traced to them."""

    def __init__(self, path: Path, incarnation: Incarnation) -> None:
        """Create or overwrite the file, erasing what an earlier process noted there. Raises ``OSError``."""
        file = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            # Written, not only extended: a hole in the file that the disk cannot fill later would end the
            # process.
            os.pwrite(file, _INCARNATION.pack(incarnation).ljust(_BYTES, b"\0"), 0)
            os.ftruncate(file, _BYTES)
            self._map = mmap.mmap(file, _BYTES)
        finally:
            os.close(file)

        self._free = [_AT + (1 + number) * _NOTE.size for number in range(BESIDE_MAX)]

    def note(self, group: GroupId, client: ClientId, first: int, last: int, attempts: int) -> None:
        encoded = client.encode()
        _NOTE.pack_into(self._map, _AT, group, first, last, attempts, len(encoded), encoded)

    def clear(self) -> None:
        _GROUP.pack_into(self._map, _AT, 0)

    def apart(self) -> Slot:
        return NoteBeside(self._map, self._free) if self._free else NoSlot()


class NoteBeside:
    """The note of one method that runs beside the loop, from its start to its end."""

    def __init__(self, content: mmap.mmap, free: list[int]) -> None:
        self._map = content
        self._free = free
        self._at = free.pop()

    def note(self, group: GroupId, client: ClientId, first: int, last: int, attempts: int) -> None:
        encoded = client.encode()
        _NOTE.pack_into(self._map, self._at, group, first, last, attempts, len(encoded), encoded)

    def clear(self) -> None:
        _GROUP.pack_into(self._map, self._at, 0)
        self._free.append(self._at)

    def apart(self) -> Slot:
        return NoSlot()


def open_slot(directory: Path, incarnation: Incarnation) -> Slot:
    """Open the slot in the host's *directory*. Without room on the disk, log a warning and do without."""
    try:
        return CrashNote(directory / EXECUTING, incarnation)
    except (OSError, ValueError) as error:
        log.warning("calls that end this process cannot be told from others", why=str(error))
        return NoSlot()


def read_slot(directory: Path) -> tuple[Incarnation, tuple[Attempt, ...]] | None:
    """What the last process in *directory* was executing when it ended, on its loop and beside it; None if it
    was executing nothing."""
    try:
        content = (directory / EXECUTING).read_bytes()
        (incarnation,) = _INCARNATION.unpack_from(content)
    except (OSError, struct.error):
        return None
    offsets = range(_AT, len(content) - _NOTE.size + 1, _NOTE.size)
    found = tuple(each for at in offsets if (each := _attempt_at(content, at)) is not None)
    return (Incarnation(incarnation), found) if found else None


def _attempt_at(content: bytes, at: int) -> Attempt | None:
    group, first, last, attempts, length, client = _NOTE.unpack_from(content, at)
    if not group or length > CLIENT_BYTES:
        return None
    try:
        return Attempt(GroupId(group), ClientId(client[:length].decode()), first, last, attempts)
    except UnicodeDecodeError:
        return None
