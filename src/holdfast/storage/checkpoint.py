"""The file format of a checkpoint: a group's whole state at one point of its history (D3).

A file has a header, then chunks, then an end with the hash of everything. All chunks but the last have the
same size, and each follows its own hash, so that any chunk can be read, checked and sent alone. A file with
its final name was complete and synced when it got that name; the hashes reveal any later damage by the disk.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import count
from struct import Struct
from typing import Final

from holdfast.model.errors import Corruption, invariant
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.model.ports import Disk
from holdfast.storage.record import Point
from holdfast.storage.segments import Readable
from holdfast.storage.syncs import Syncs

CHUNK_BYTES: Final = 256 << 10
CHUNK_BYTES_MAX: Final = 16 << 20
SYNC_EVERY_BYTES: Final = 8 << 20
"""A large checkpoint is synced on the way: one long sync at its end would delay the log's syncs."""
ASIDE: Final = ".part"
COPIED: Final = ".copy"
"""The suffix of a checkpoint written by a forked copy of the process, so that it never collides with one
written here."""
UNFINISHED: Final = (ASIDE, COPIED)
"""The suffixes of files that do not count: torn ones, and those whose position never became final."""
_NAMED: Final = re.compile(r"checkpoint-(\d{20})-(\d{20})(?:\.copy|(?:\.\d+)?\.part)?", re.ASCII)
_MAGIC: Final = b"HoldChk1"
_END: Final = b"HoldEnd1"
_HEADER: Final = Struct("<8sQQQQII")  # magic, salt, group, position, epoch, checksum of the chain, chunk size
_TRAILER: Final = Struct("<8sIQ32s")  # magic, chunks, bytes of state, hash of header, hashes and these two
_COUNTS: Final = Struct("<IQ")
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The description of one checkpoint."""

    group: GroupId
    point: Point
    chunk_bytes: int
    chunks: int
    size: int
    """The size of the state, in bytes."""
    salt: int
    """The salt of the store that holds it."""

    @property
    def name(self) -> str:
        return checkpoint_name(self.group, self.point.position)


def checkpoint_name(group: GroupId, position: Position) -> str:
    return f"checkpoint-{group:020d}-{position:020d}"


def checkpoint_of(name: str) -> tuple[GroupId, Position] | None:
    """The group and position in a checkpoint's file name, finished or not; None for other files."""
    found = _NAMED.fullmatch(name)
    return None if found is None else (GroupId(int(found[1])), Position(int(found[2])))


class Digest:
    """The digest of a state's chunks, whatever file they are in: equal chunks have equal digests."""

    def __init__(self) -> None:
        self._total = blake2b(digest_size=_DIGEST_BYTES)

    def add(self, chunk: bytes) -> None:
        self.add_hash(_hash(chunk))

    def add_hash(self, digest: bytes) -> None:
        self._total.update(digest)

    def value(self) -> bytes:
        return self._total.digest()


class Framing:
    """Produces the bytes of a checkpoint's file, in order, from a state that comes in pieces of any size."""

    def __init__(self, group: GroupId, point: Point, *, salt: int, chunk_bytes: int) -> None:
        self._group = group
        self._point = point
        self._salt = salt
        self._chunk_bytes = chunk_bytes
        self._rest = bytearray()
        self._chunks = 0
        self.size = 0
        """The bytes of state in the chunks produced so far."""
        self.header = _HEADER.pack(
            _MAGIC, salt, group, point.position, point.epoch, point.checksum, chunk_bytes
        )
        self._digest = blake2b(self.header, digest_size=_DIGEST_BYTES)

    def framed(self, data: bytes) -> Iterator[bytes]:
        """Add *data* to the state and yield the chunks that are complete now."""
        self._rest += data
        while len(self._rest) >= self._chunk_bytes:
            chunk = bytes(self._rest[: self._chunk_bytes])
            del self._rest[: self._chunk_bytes]
            yield self._chunk(chunk)

    def end(self) -> bytes:
        """Return the rest of the file after the last piece of state."""
        last = self._chunk(bytes(self._rest)) if self._rest else b""
        counts = _COUNTS.pack(self._chunks, self.size)
        self._digest.update(counts)
        return last + _END + counts + self._digest.digest()

    @property
    def described(self) -> Checkpoint:
        """The checkpoint, once it has ended."""
        return self.described_as(self._chunks, self.size)

    def described_as(self, chunks: int, size: int) -> Checkpoint:
        """The checkpoint, when another process wrote it with these counts."""
        return Checkpoint(self._group, self._point, self._chunk_bytes, chunks, size, self._salt)

    def _chunk(self, chunk: bytes) -> bytes:
        digest = _hash(chunk)
        self._digest.update(digest)
        self._chunks += 1
        self.size += len(chunk)
        return digest + chunk


class CheckpointWriter:
    """Writes one unfinished checkpoint in pieces; see :meth:`.checkpoints.CheckpointStore.begin`."""

    def __init__(
        self, disk: Disk, syncs: Syncs, group: GroupId, point: Point, *, salt: int, chunk_bytes: int
    ) -> None:
        self._disk = disk
        self._syncs = syncs
        self._framing = Framing(group, point, salt=salt, chunk_bytes=chunk_bytes)
        self._name = _free_name(disk, checkpoint_name(group, point.position))
        self._is_finished = False
        self._sync_asked = 0
        self._synced = 0
        self._when_synced: Callable[[], None] | None = None
        disk.append(self._name, self._framing.header)

    @property
    def unsynced_bytes(self) -> int:
        """The bytes written and not yet synced. Callers should wait while this is large."""
        return self._framing.size - self._synced

    def when_synced(self, then: Callable[[], None]) -> None:
        """Call *then* once, after the next of the syncs on the way."""
        self._when_synced = then

    def write(self, data: bytes) -> None:
        """Write the next bytes of the state."""
        invariant(not self._is_finished, "a finished checkpoint is not written")
        for chunk in self._framing.framed(data):
            self._disk.append(self._name, chunk)
            self._maybe_sync()

    def finish(self, then: Callable[[Checkpoint], None]) -> None:
        """End the file, give it its final name, and call *then* when it is durable."""
        invariant(not self._is_finished, "a checkpoint is finished once")
        self._is_finished = True
        self._disk.append(self._name, self._framing.end())
        done = self._framing.described
        self._syncs.after([self._name], lambda: self._rename(done, then))

    def abandon(self) -> None:
        """Remove the unfinished file."""
        self._is_finished = True
        self._disk.remove(self._name)

    def _rename(self, done: Checkpoint, then: Callable[[Checkpoint], None]) -> None:
        self._disk.rename(self._name, done.name)
        self._syncs.after((), lambda: then(done), directory=True)

    def _maybe_sync(self) -> None:
        size = self._framing.size
        if size - self._sync_asked >= SYNC_EVERY_BYTES:
            self._sync_asked = size
            self._syncs.after([self._name], partial(self._on_synced, size))

    def _on_synced(self, size: int) -> None:
        self._synced = size
        then, self._when_synced = self._when_synced, None
        if then is not None:
            then()


def _free_name(disk: Disk, name: str) -> str:
    """The name of a file that no other writer has. *Without it:* a member's own state and one that another
    member sends, both of the same position, are written to one file; what is renamed first may be half of the
    other, and the second finds nothing to rename."""
    taken = disk.list()
    names = (f"{name}.{number}{ASIDE}" if number > 1 else name + ASIDE for number in count(1))
    return next(each for each in names if each not in taken)


def read_header(disk: Readable, name: str) -> Checkpoint:
    """Read the header and the end of the file. Raises ``Corruption``; the chunks are not checked."""
    size = disk.size(name)
    if size < _HEADER.size + _TRAILER.size:
        raise _damaged(name, 0, f"at least {_HEADER.size + _TRAILER.size} bytes", f"{size} bytes")
    magic, salt, group, position, epoch, checksum, chunk_bytes = _HEADER.unpack(
        disk.read(name, 0, _HEADER.size)
    )
    end, chunks, state_bytes, _ = _TRAILER.unpack(disk.read(name, size - _TRAILER.size, _TRAILER.size))
    if magic != _MAGIC or end != _END or not 0 < chunk_bytes <= CHUNK_BYTES_MAX:
        raise _damaged(name, 0, "a checkpoint", "something else")
    expected = _HEADER.size + chunks * _DIGEST_BYTES + state_bytes + _TRAILER.size
    if size != expected or chunks != -(-state_bytes // chunk_bytes):
        raise _damaged(name, 0, f"{expected} bytes", f"{size} bytes")
    if checkpoint_of(name) != (group, position):
        raise _damaged(name, 0, f"group and position of {name}", f"group {group} position {position}")
    point = Point(Position(position), Epoch(epoch), checksum)
    return Checkpoint(GroupId(group), point, chunk_bytes, chunks, state_bytes, salt)


def read_chunk(disk: Readable, checkpoint: Checkpoint, number: int) -> bytes:
    """Read one chunk and check it against its hash. Raises ``Corruption``."""
    digest, chunk = _framed_chunk(disk, checkpoint, number)
    found = _hash(chunk)
    if found != digest:
        offset = _HEADER.size + number * (_DIGEST_BYTES + checkpoint.chunk_bytes)
        raise _damaged(checkpoint.name, offset, digest.hex(), found.hex())
    return chunk


def read_digest(disk: Readable, checkpoint: Checkpoint) -> bytes:
    """The :class:`Digest` of the chunks, computed from the stored hashes without reading the chunks."""
    digest = Digest()
    for number in range(checkpoint.chunks):
        offset = _HEADER.size + number * (_DIGEST_BYTES + checkpoint.chunk_bytes)
        digest.add_hash(disk.read(checkpoint.name, offset, _DIGEST_BYTES))
    return digest.value()


def read_chunks(disk: Readable, checkpoint: Checkpoint) -> Iterator[bytes]:
    """Yield the whole state, chunk by chunk, each checked."""
    for number in range(checkpoint.chunks):
        yield read_chunk(disk, checkpoint, number)


def verify(disk: Readable, name: str) -> Checkpoint:
    """Read the whole file and check every hash in it. Raises ``Corruption``."""
    checkpoint = read_header(disk, name)
    digest = blake2b(disk.read(name, 0, _HEADER.size), digest_size=_DIGEST_BYTES)
    for number in range(checkpoint.chunks):
        digest.update(_hash(read_chunk(disk, checkpoint, number)))
    digest.update(_COUNTS.pack(checkpoint.chunks, checkpoint.size))
    at = disk.size(name) - _DIGEST_BYTES
    expected = disk.read(name, at, _DIGEST_BYTES)
    if digest.digest() != expected:
        raise _damaged(name, at, expected.hex(), digest.hexdigest())
    return checkpoint


def _framed_chunk(disk: Readable, checkpoint: Checkpoint, number: int) -> tuple[bytes, bytes]:
    invariant(0 <= number < checkpoint.chunks, "a chunk has a number below their count")
    offset = _HEADER.size + number * (_DIGEST_BYTES + checkpoint.chunk_bytes)
    length = min(checkpoint.chunk_bytes, checkpoint.size - number * checkpoint.chunk_bytes)
    data = disk.read(checkpoint.name, offset, _DIGEST_BYTES + length)
    return data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]


def _hash(chunk: bytes) -> bytes:
    return blake2b(chunk, digest_size=_DIGEST_BYTES).digest()


def _damaged(name: str, offset: int, expected: object, found: object) -> Corruption:
    return Corruption("a checkpoint is damaged", file=name, offset=offset, expected=expected, found=found)
