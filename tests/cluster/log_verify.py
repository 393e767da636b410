"""Reads a log's files independently, sharing no code with the log, and checks that they contain what was
promised.

It knows the layout and nothing of the recovery: every complete batch in the files counts, wherever it is.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from log_writer import body_of

SECTOR = 512
BATCH = struct.Struct("<4sIQIIQQIIIIIII")
RECORD = struct.Struct("<IIQQQIII")


@dataclass
class Promises:
    """Everything that a writer printed over all its lives."""

    seed: int
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)
    """(group, first position) -> serial."""
    floors: dict[int, int] = field(default_factory=dict)

    def read(self, output: bytes) -> int:
        """Take what one life printed; return how many records it acknowledged. A torn last line is no
        promise."""
        count = 0
        for line in output[: output.rfind(b"\n") + 1].decode().splitlines():
            word, *numbers = line.split()
            if word == "ack":
                group, first, _, serial = map(int, numbers)
                self.acknowledged[group, first] = serial
                count += 1
            elif word == "floor":
                group, position = map(int, numbers)
                self.floors[group] = max(position, self.floors.get(group, 0))
        return count


def records_in(directory: Path) -> dict[tuple[int, int], set[bytes]]:
    """Return the bodies in all complete batches, by (group, first position)."""
    found: dict[tuple[int, int], set[bytes]] = {}
    for path in sorted(directory.glob("log-*")):
        data = path.read_bytes()
        for offset in range(SECTOR, len(data), SECTOR):
            for group, first, body in _batch(data, offset):
                found.setdefault((group, first), set()).add(body)
    return found


def _batch(data: bytes, offset: int) -> Iterable[tuple[int, int, bytes]]:
    magic, checksum, _, _, _, _, _, _, _, _, _, _, length, body_sum = BATCH.unpack_from(data, offset)
    start = offset + BATCH.size
    payload = data[start : start + length]
    if magic != b"HfB1" or crc32(data[offset + 8 : start]) != checksum or crc32(payload) != body_sum:
        return
    at = 0
    while at < len(payload):
        _, _, group, _, first, _, kind, size = RECORD.unpack_from(payload, at)
        at += RECORD.size + size
        if kind == 1:
            yield group, first, payload[at - size : at]


def lost(directory: Path, promises: Promises) -> list[tuple[int, int]]:
    """Return acknowledged records above the floors that are not in the files."""
    found = records_in(directory)
    return [
        (group, first)
        for (group, first), serial in promises.acknowledged.items()
        if first > promises.floors.get(group, 0)
        and body_of(promises.seed, group, first, serial) not in found.get((group, first), ())
    ]


def invented(directory: Path, promises: Promises) -> list[tuple[int, int]]:
    """Return records that no writer with this seed can have written there."""
    wrong = []
    for (group, first), bodies in records_in(directory).items():
        for body in bodies:
            words = body.split(b" ", 3)
            if body != body_of(promises.seed, group, first, int(words[2])):
                wrong.append((group, first))
    return wrong


def verify(directory: Path, promises: Promises) -> None:
    """Require that no acknowledged record is lost, and none invented."""
    assert not lost(directory, promises), f"lost: {lost(directory, promises)[:5]}"
    assert not invented(directory, promises), f"invented: {invented(directory, promises)[:5]}"
