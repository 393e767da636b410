"""A manifest: which files make up something at one position, and the hash of every chunk of them.

A manifest is small, travels with whatever names it (a checkpoint, a message), and says all that is needed to
fetch its files from anybody, in any order, and to know that they are right. Files are cut into chunks of one
size, each with its hash, so that a file that changed in places (as a database's does) is sent only in those
places, and a damaged byte costs one chunk. What a manifest says is checked once, when it is decoded (W6):
whoever holds a :class:`Contents` may use its names, sizes and numbers.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Final, NamedTuple, NewType

import msgspec
from msgspec import Struct

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Epoch, Position
from holdfast.storage.segments import Readable

ManifestId = NewType("ManifestId", bytes)
"""The hash of an encoded manifest. Two hosts that name the same id mean the same bytes in every file."""

DIGEST_BYTES: Final = 32
CHUNK_BYTES: Final = 64 << 10
"""A change of one page of a database costs one chunk, and the hash of a chunk is a 2,000th of it."""
CHUNK_BYTES_MIN: Final = 512
CHUNK_BYTES_MAX: Final = 1 << 20
"""A chunk is one frame and is held in memory whole."""
CHUNKS_MAX: Final = 131_072
"""The most chunks in a manifest: 8 GiB in chunks of 64 KiB, 128 GiB in chunks of 1 MiB. A fetch keeps some
250 bytes in memory for each chunk that it lacks."""
FILES_MAX: Final = 16_384
NAME_BYTES_MAX: Final = 1024
PART_BYTES_MAX: Final = 255
"""The longest part of a path that file systems take."""
SUBJECT_BYTES_MAX: Final = 200
MANIFEST_BYTES_MAX: Final = 16 << 20
"""An encoded manifest that is longer is refused unread."""


class FileEntry(Struct, frozen=True, array_like=True):
    """One file of a manifest."""

    name: str
    """A relative path with ``/`` between its parts."""
    size: int
    digest: bytes
    """What the file is called by: the hash of its size and of the hashes of its chunks. So the digest of a
    file that changed in places costs no more than the changed chunks do (decision 67)."""
    chunks: bytes
    """The hashes of its chunks, one after the other. Every chunk but the last has the manifest's size."""


class Manifest(Struct, frozen=True, kw_only=True, tag="manifest-2"):
    """The files of one thing at one position. A later form gets another tag, and older readers refuse it."""

    subject: str
    """What the files are of, for people: ``group 7``, ``index documents.3``."""
    epoch: Epoch
    position: Position
    version: int = 0
    """The version of the files' own format, for whoever reads them."""
    chunk_bytes: int = CHUNK_BYTES
    files: tuple[FileEntry, ...] = ()


class Chunk(NamedTuple):
    """One chunk of a manifest: where it belongs and what its hash is."""

    file: FileEntry
    offset: int
    length: int
    digest: bytes


def digest_of(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def file_digest(size: int, chunks: bytes) -> bytes:
    """The digest of a file of that size whose chunks have these hashes."""
    return digest_of(size.to_bytes(8, "big") + chunks)


class Contents:
    """A checked manifest with its id, and its chunks numbered from 0 through all its files.

    Files of the same content count once, whatever their names are.
    """

    def __init__(self, manifest: Manifest) -> None:
        """Raises ``InvalidRequest`` naming everything that is wrong with *manifest*."""
        problems = list(_problems(manifest))
        if problems:
            raise InvalidRequest(f"not a manifest that can be used: {'; '.join(problems)}")
        self.manifest: Final = manifest
        self.encoded: Final = _encode(manifest)
        self.id: Final = ManifestId(digest_of(self.encoded))
        self.files: Final = tuple({each.digest: each for each in manifest.files}.values())
        """The different files, in the manifest's order."""
        self._firsts: list[int] = []
        self.count = 0
        """The number of chunks."""
        for file in self.files:
            self._firsts.append(self.count)
            self.count += len(file.chunks) // DIGEST_BYTES
        self.bytes: Final = sum(file.size for file in self.files)

    def __repr__(self) -> str:
        about = self.manifest
        return f"{about.subject} at {about.epoch}/{about.position} ({self.id.hex()[:12]})"

    def chunk(self, number: int) -> Chunk:
        """The chunk of that number, which must be below :attr:`count`."""
        index = bisect_right(self._firsts, number) - 1
        return self._chunk(self.files[index], number - self._firsts[index])

    def numbers(self, index: int) -> range:
        """The numbers of the chunks of the file at *index* of :attr:`files`."""
        first = self._firsts[index]
        return range(first, first + len(self.files[index].chunks) // DIGEST_BYTES)

    def chunks(self, file: FileEntry) -> Iterator[Chunk]:
        """The chunks of one file, in order."""
        return (self._chunk(file, index) for index in range(len(file.chunks) // DIGEST_BYTES))

    def _chunk(self, file: FileEntry, index: int) -> Chunk:
        offset, size = index * self.manifest.chunk_bytes, self.manifest.chunk_bytes
        at = index * DIGEST_BYTES
        return Chunk(file, offset, min(size, file.size - offset), file.chunks[at : at + DIGEST_BYTES])


def decode_manifest(data: bytes) -> Contents:
    """Decode and check a manifest. Raises ``InvalidRequest``."""
    if len(data) > MANIFEST_BYTES_MAX:
        raise InvalidRequest(f"a manifest of {len(data)} bytes; at most {MANIFEST_BYTES_MAX} are taken")
    try:
        return Contents(_decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"not a manifest of this version: {error}") from error


def describe(
    source: Readable,
    names: Iterable[str],
    *,
    subject: str,
    epoch: Epoch,
    position: Position,
    version: int = 0,
    chunk_bytes: int = CHUNK_BYTES,
) -> Contents:
    """Make the manifest of these files, none of which may change any more.

    It reads and hashes every byte (about two seconds for a gigabyte), so it is called in a worker or a
    thread. Raises ``InvalidRequest`` for names or sizes that no manifest takes, ``DiskFailed``.
    """
    files = tuple(_entry(source, name, chunk_bytes) for name in names)
    return Contents(
        Manifest(
            subject=subject,
            epoch=epoch,
            position=position,
            version=version,
            chunk_bytes=chunk_bytes,
            files=files,
        )
    )


def renewed(
    known: Contents,
    source: Readable,
    changed: Mapping[str, Iterable[int]],
    *,
    epoch: Epoch,
    position: Position,
) -> Contents:
    """The manifest of the same files at a later position, when of each only these chunks, by their index,
    have been written since, and what it has grown by.

    It reads and hashes no other chunk, so whoever calls it must be sure of that: a chunk with the hash of
    what it was is damage to everybody who fetches it. Raises as :func:`describe` does.
    """
    chunk_bytes = known.manifest.chunk_bytes
    files = tuple(
        _entry(source, file.name, chunk_bytes, file, changed.get(file.name, ()))
        for file in known.manifest.files
    )
    return Contents(msgspec.structs.replace(known.manifest, epoch=epoch, position=position, files=files))


def _entry(
    source: Readable,
    name: str,
    chunk_bytes: int,
    known: FileEntry | None = None,
    changed: Iterable[int] = (),
) -> FileEntry:
    size = source.size(name)
    count = -(-size // chunk_bytes)
    was, same = (known.chunks, min(known.size, size) // chunk_bytes) if known is not None else (b"", 0)
    if known is not None and known.size == size:
        same = count  # the last chunk may be a short one
    hashes = bytearray(was[: same * DIGEST_BYTES].ljust(count * DIGEST_BYTES, b"\0"))
    for index in chain(sorted({each for each in changed if each < same}), range(same, count)):
        digest = digest_of(
            source.read(name, index * chunk_bytes, min(chunk_bytes, size - index * chunk_bytes))
        )
        hashes[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES] = digest
    return FileEntry(name, size, file_digest(size, bytes(hashes)), bytes(hashes))


_encode: Final[Callable[[Manifest], bytes]] = msgspec.msgpack.Encoder().encode
_decode: Final[Callable[[bytes], Manifest]] = msgspec.msgpack.Decoder(Manifest).decode


# --- what is refused


def _problems(manifest: Manifest) -> Iterator[str]:
    """Everything that is wrong with a manifest; with too many files or a wrong chunk size, only that."""
    if not CHUNK_BYTES_MIN <= manifest.chunk_bytes <= CHUNK_BYTES_MAX:
        yield f"chunks of {manifest.chunk_bytes} bytes, not {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX}"
        return
    if len(manifest.files) > FILES_MAX:
        yield f"{len(manifest.files)} files, more than {FILES_MAX}"
        return
    if not 0 < len(manifest.subject.encode()) <= SUBJECT_BYTES_MAX:
        yield f"a subject of {len(manifest.subject.encode())} bytes, not 1 to {SUBJECT_BYTES_MAX}"
    if min(manifest.epoch, manifest.position, manifest.version) < 0:
        yield "an epoch, position or version below 0"
    yield from (problem for file in manifest.files for problem in _file_problems(file, manifest.chunk_bytes))
    yield from _clashes(manifest.files)
    chunks = sum(len(file.chunks) for file in manifest.files) // DIGEST_BYTES
    if chunks > CHUNKS_MAX:
        yield f"{chunks} chunks, more than {CHUNKS_MAX}: choose larger ones"


def _file_problems(file: FileEntry, chunk_bytes: int) -> Iterator[str]:
    wrong = name_problem(file.name)
    if wrong is not None:
        yield wrong
    if file.size < 0 or len(file.chunks) != -(-file.size // chunk_bytes) * DIGEST_BYTES:
        yield f"{file.name!r} has {file.size} bytes and {len(file.chunks)} bytes of hashes"
    elif file.digest != file_digest(file.size, file.chunks):
        yield f"the digest of {file.name!r} is not that of its chunks"


def name_problem(name: str) -> str | None:
    """What is wrong with the name of a file, if anything is.

    A name can never lead out of the directory that it is put into.
    """
    parts = name.split("/")
    if not name.isprintable() or "\\" in name:
        return f"the name {name!r} has characters that are not printable, or a backslash"
    if any(part in ("", ".", "..") for part in parts):
        return f"the name {name!r} is not a relative path without '.' and '..'"
    if len(name.encode()) > NAME_BYTES_MAX or any(len(part.encode()) > PART_BYTES_MAX for part in parts):
        most = f"{NAME_BYTES_MAX} bytes, or a part of it than {PART_BYTES_MAX}"
        return f"the name {name[:40]!r}... is longer than {most}"
    return None


def _clashes(files: tuple[FileEntry, ...]) -> Iterator[str]:
    """Names that are there twice, or are a file's and a directory's at once."""
    names = {file.name for file in files}
    if len(names) < len(files):
        yield f"{len(files) - len(names)} names are there twice"
    for file in files:
        parts = file.name.split("/")
        if any("/".join(parts[:depth]) in names for depth in range(1, len(parts))):
            yield f"a directory of {file.name!r} is a file too"
