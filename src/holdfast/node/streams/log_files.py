"""A message log in a directory, which the hosts of a domain may share (LOSS-14).

Each host appends to files of its own, ``HOST-NUMBER.messages``, and begins a new one with every start and
whenever one is long enough; its oldest go when it has recorded too much. It reads the files of all. An entry
is its length, a checksum and messages with consecutive numbers as the order has them. What is torn or damaged
ends the reading of that file, until it is longer; nothing is synced, so a power cut may cost the end.
"""

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import BinaryIO, Final

import msgspec

from holdfast.machine.files import make_private, open_private
from holdfast.streams.columns import Malformed, read_packed
from holdfast.streams.message import Message, Origin
from holdfast.streams.records import Deliver
from holdfast.streams.runs import runs_of

HEADER: Final = Struct(">II")
ENTRY_BYTES_MAX: Final = 1 << 20
FILES: Final = 8
"""In about so many files a host's part is kept, so that the oldest can go."""
ENDING: Final = ".messages"
EXTENT_BYTES: Final = 64 << 10
"""Entries of a stream that follow each other are found together, up to about so many bytes."""
_NEW: Final = os.O_WRONLY | os.O_APPEND | os.O_EXCL
_encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(Deliver)


@dataclass(slots=True)
class _Extent:
    """Where in a file the messages *first* to *last* of a stream are, among others."""

    first: int
    last: int
    begin: int
    end: int


@dataclass(slots=True)
class _File:
    """What is known of one file: how far it was read, and where the messages of each stream are."""

    path: Path
    read_to: int = 0
    extents: dict[Origin, list[_Extent]] = field(default_factory=dict)

    def note(self, entry: Deliver, end: int) -> None:
        """*entry* lies between what was read and *end*."""
        known = self.extents.setdefault(entry.origin, [])
        last = known[-1] if known else None
        if last is not None and last.last + 1 == entry.first and end - last.begin <= EXTENT_BYTES:
            last.last, last.end = entry.last, end
        else:
            known.append(_Extent(entry.first, entry.last, self.read_to, end))
        self.read_to = end


class LogFiles:
    """A :class:`holdfast.streams.ports.MessageLog` of files."""

    def __init__(self, directory: Path, host: str, bytes_max: int) -> None:
        self._directory = directory
        self._host = host
        self._file_bytes = max(1, bytes_max // FILES)
        self._files: dict[str, _File] = {}
        self._writing: BinaryIO | None = None
        self._written = 0
        make_private(directory)

    # --- writing

    def record(self, origin: Origin, messages: Sequence[Message]) -> None:
        for run in runs_of(messages):
            # Long runs are written as they came; the others are short.
            told = ((), (run.body,)) if run.is_packed else (tuple(run), ())
            self._append(_encode(Deliver(origin, run.first, run.length, *told)))

    def _append(self, entry: bytes) -> None:
        if len(entry) > ENTRY_BYTES_MAX:
            return
        if self._writing is None or self._written >= self._file_bytes:
            self._begin()
        assert self._writing is not None
        # In one piece, and to the file at once: others read it.
        self._writing.write(HEADER.pack(len(entry), zlib.crc32(entry)) + entry)
        self._writing.flush()
        self._written += HEADER.size + len(entry)

    def _begin(self) -> None:
        self.close()
        own = self._own()
        number = 1 + max((_number(each) for each in own), default=0)
        for gone in own[: max(0, len(own) + 1 - FILES)]:
            gone.unlink(missing_ok=True)
        self._writing = open_private(self._directory / f"{self._host}-{number:08}{ENDING}", _NEW)
        self._written = 0

    def _own(self) -> list[Path]:
        found = [each for each in self._all() if each.name.rpartition("-")[0] == self._host]
        return sorted(found, key=_number)

    def close(self) -> None:
        if self._writing is not None:
            self._writing.close()
            self._writing = None

    # --- reading

    def read(self, origin: Origin, first: int, last: int) -> list[Message]:
        self._look()
        found: dict[int, Message] = {}
        for file in self._files.values():
            extents = [
                each for each in file.extents.get(origin, ()) if each.first <= last and each.last >= first
            ]
            for message in _within(file.path, origin, extents):
                if first <= message.number <= last:
                    found[message.number] = message
        return [found[number] for number in sorted(found)]

    def _look(self) -> None:
        """Find what was recorded since the last look, by whomever."""
        there = {each.name: each for each in self._all()}
        for gone in [name for name in self._files if name not in there]:
            del self._files[gone]
        for name, path in there.items():
            file = self._files.setdefault(name, _File(path))
            try:
                with path.open("rb") as opened:
                    opened.seek(file.read_to)
                    while (entry := _next_entry(opened)) is not None:
                        file.note(entry, opened.tell())
            except FileNotFoundError:
                continue

    def _all(self) -> list[Path]:
        return [each for each in self._directory.glob(f"*-*{ENDING}") if _number(each)]


def _number(path: Path) -> int:
    found = path.name.removesuffix(ENDING).rpartition("-")[2]
    return int(found) if found.isdecimal() else 0


def _within(path: Path, origin: Origin, extents: Sequence[_Extent]) -> Iterator[Message]:
    """The messages of *origin* in these parts of a file."""
    if not extents:
        return
    try:
        with path.open("rb") as opened:
            for extent in extents:
                opened.seek(extent.begin)
                while opened.tell() < extent.end and (entry := _next_entry(opened)) is not None:
                    if entry.origin == origin:
                        yield from _messages_of(entry)
    except FileNotFoundError:
        return  # its host has let it go


def _next_entry(opened: BinaryIO) -> Deliver | None:
    """The entry that begins here; None if there is none that is whole."""
    header = opened.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length, checksum = HEADER.unpack(header)
    entry = opened.read(length) if length <= ENTRY_BYTES_MAX else b""
    if len(entry) < length or zlib.crc32(entry) != checksum or not entry:
        return None
    try:
        return _decoder.decode(entry)
    except msgspec.DecodeError:
        return None


def _messages_of(entry: Deliver) -> Iterator[Message]:
    yield from entry.messages
    first = entry.first
    for body in entry.packed:
        try:
            run = read_packed(body, first)
        except Malformed:
            return
        yield from run
        first = run.last + 1
