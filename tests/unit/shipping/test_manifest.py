"""Manifests: what they say of files, and everything that is refused before it is used."""

import msgspec
import pytest
from shipped_files import CHUNK, Held, manifest_of, pattern

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Epoch, Position
from holdfast.shipping import manifest as manifests
from holdfast.shipping.manifest import (
    CHUNK_BYTES_MAX,
    DIGEST_BYTES,
    FILES_MAX,
    MANIFEST_BYTES_MAX,
    Contents,
    FileEntry,
    Manifest,
    decode_manifest,
    digest_of,
    file_digest,
    renewed,
)

FILES = {"data.db": pattern(3 * CHUNK + 5), "empty": b"", "index/one": pattern(CHUNK, salt=1)}
EMPTY = file_digest(0, b"")


def made(*files: FileEntry, chunk_bytes: int = CHUNK, subject: str = "files") -> Manifest:
    return Manifest(
        subject=subject, epoch=Epoch(1), position=Position(1), chunk_bytes=chunk_bytes, files=files
    )


def named(*names: str) -> Manifest:
    return made(*(FileEntry(name, 0, EMPTY, b"") for name in names))


def test_a_manifest_says_every_hash() -> None:
    """Of each file and of each of its chunks, so that any chunk can be checked alone."""
    contents = manifest_of(FILES)
    file = contents.manifest.files[0]
    assert (file.name, file.size) == ("data.db", 3 * CHUNK + 5)
    assert file.digest == digest_of(file.size.to_bytes(8, "big") + file.chunks)
    for number in range(contents.count):
        chunk = contents.chunk(number)
        assert digest_of(FILES[chunk.file.name][chunk.offset : chunk.offset + chunk.length]) == chunk.digest
    assert [contents.chunk(number).length for number in range(contents.count)] == [CHUNK] * 3 + [5, CHUNK]
    assert [list(contents.numbers(index)) for index in range(3)] == [[0, 1, 2, 3], [], [4]]
    assert contents.bytes == 4 * CHUNK + 5


def test_a_manifest_is_known_by_its_content() -> None:
    """The id is the same at both ends, and another for another byte in any file."""
    contents = manifest_of(FILES)
    assert decode_manifest(contents.encoded).id == contents.id
    assert manifest_of(FILES | {"data.db": pattern(3 * CHUNK + 5, salt=9)}).id != contents.id


@pytest.mark.parametrize("size", [0, 5, CHUNK, 3 * CHUNK, 3 * CHUNK + 5, 3 * CHUNK + 6, 9 * CHUNK + 1])
def test_a_manifest_is_renewed_in_what_was_written(size: int) -> None:
    """Only the chunks that were written are read, and those that a file has grown by; the result is what
    hashing everything comes to."""
    before, after = bytearray(pattern(3 * CHUNK + 5)), bytearray(pattern(size))
    for at in range(CHUNK, min(size, CHUNK + 3)):
        after[at] ^= 1
    reads: list[int] = []

    class Counted(Held):
        def read(self, name: str, offset: int, length: int) -> bytes:
            reads.append(offset // CHUNK)
            return super().read(name, offset, length)

    known = manifest_of({"f": bytes(before)})
    found = renewed(known, Counted({"f": bytes(after)}), {"f": [1, 99]}, epoch=Epoch(1), position=Position(1))
    assert found.id == manifest_of({"f": bytes(after)}).id
    assert 0 not in reads or size < CHUNK
    assert 2 not in reads or size < 3 * CHUNK


def test_files_of_the_same_content_count_once() -> None:
    contents = manifest_of({"a": pattern(700), "b": pattern(700)})
    assert (len(contents.manifest.files), len(contents.files), contents.bytes) == (2, 1, 700)


@pytest.mark.parametrize(
    "name",
    [
        *("", "/etc/passwd", "..", "../x", "a/../../x", "a/./b", "a//b", "a/"),
        *("a\\b", "a\0b", "a\nb", "x" * 256, "/".join(["x" * 200] * 6)),
    ],
)
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    """Whatever a manifest says, its files stay in the directory they are put into (W6)."""
    with pytest.raises(InvalidRequest, match="name"):
        Contents(named(name))


@pytest.mark.parametrize("name", ["a", "segments/0001", "ü/ä", "a b", "..a", "a..", "x" * 255])
def test_ordinary_names_are_taken(name: str) -> None:
    assert Contents(named(name)).files[0].name == name


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (named("a", "a"), "twice"),
        (named("a/b", "a"), "is a file too"),
        (made(FileEntry("a", -1, EMPTY, b"")), "-1 bytes"),
        (made(FileEntry("a", CHUNK + 1, EMPTY, bytes(DIGEST_BYTES))), "513 bytes and 32 bytes of hashes"),
        (made(FileEntry("a", 0, b"short", b"")), "the digest of 'a' is not that of its chunks"),
        (made(chunk_bytes=0), "chunks of 0 bytes"),
        (made(chunk_bytes=CHUNK_BYTES_MAX + 1), "chunks of"),
        (made(subject=""), "subject"),
        (made(FileEntry("a", 0, EMPTY, b""), FileEntry("b", 1, EMPTY, EMPTY)), "the digest of 'b' is not"),
        (named(*map(str, range(FILES_MAX + 1))), "files, more than"),
    ],
)
def test_what_cannot_be_used_is_refused(manifest: Manifest, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        decode_manifest(msgspec.msgpack.encode(manifest))


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Contents(made(FileEntry("../x", 1, b"", b""), subject=""))
    assert all(said in str(refused.value) for said in ("subject", "../x", "bytes of hashes"))


def test_too_many_chunks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "CHUNKS_MAX", 4)
    with pytest.raises(InvalidRequest, match="5 chunks, more than 4"):
        manifest_of(FILES)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        msgspec.msgpack.encode({"type": "manifest-0"}),
        b"\x91" * 5000,
        manifest_of(FILES).encoded[:-1],
    ],
)
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    """An older or later form too: with one line that says so."""
    with pytest.raises(InvalidRequest, match="not a manifest"):
        decode_manifest(data)


def test_a_long_manifest_is_refused_unread() -> None:
    with pytest.raises(InvalidRequest, match="at most"):
        decode_manifest(bytes(MANIFEST_BYTES_MAX + 1))
