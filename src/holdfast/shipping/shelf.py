"""The receiving end's files: what is here, what is half here, and which manifests count (W5).

A shelf is one directory, in which files are named by what they hold. A file whose name is its hash was synced
and hashed when it got that name; while it is made, its name ends in ``.part``. A manifest is kept as
``.wanted`` from the moment it is asked for. It becomes ``.manifest`` when the names of all its files are
durable, and counts while all of them are there: so whatever ends the process, at any point, the names say
what can be relied upon.

Bytes and names that an earlier process left may be in memory only, where a sync that failed has left them,
and no later sync would write them (D1). Bytes of a ``.part`` file are therefore read, hashed and written
again; a manifest's name is given again when the shelf is opened, and a file's when its manifest is finished.

A file that changes, as a database does, is fetched again and again while a member catches up. Its half-made
file becomes that of the next manifest, in place; so does a finished one if its owner gives it up for that.
What this process has read there after its sync, and found right, is not read again (decision 67).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ports import Disk, Token, Trace
from holdfast.shipping.manifest import (
    DIGEST_BYTES,
    Chunk,
    Contents,
    FileEntry,
    ManifestId,
    decode_manifest,
)
from holdfast.storage.syncs import Syncs

PART: Final = ".part"
WANTED: Final = ".wanted"
MANIFEST: Final = ".manifest"
AGAIN: Final = ".again"
"""A manifest that is written again, to replace the one of an earlier process."""


class Place(NamedTuple):
    """Where a chunk of that hash may be found on this shelf."""

    name: str
    offset: int
    length: int
    digest: bytes


class _Checked:
    """The chunks of one file that this process has read after their sync and found right, by their hashes."""

    def __init__(self, chunk_bytes: int) -> None:
        self.chunk_bytes = chunk_bytes
        self._hashes = bytearray()

    def has(self, chunk: Chunk) -> bool:
        at = self._at(chunk)
        return self._hashes[at : at + DIGEST_BYTES] == chunk.digest

    def put(self, chunk: Chunk, digest: bytes) -> None:
        at = self._at(chunk)
        self._hashes.extend(bytes(max(0, at - len(self._hashes))))
        self._hashes[at : at + DIGEST_BYTES] = digest

    def _at(self, chunk: Chunk) -> int:
        return chunk.offset // self.chunk_bytes * DIGEST_BYTES


_UNCHECKED: Final = bytes(DIGEST_BYTES)


class Shelf:
    """One directory of shipped files. One fetch at a time may use it."""

    def __init__(self, disk: Disk, trace: Trace, on_failed: Callable[[HoldfastError], None]) -> None:
        """Look at what is here. *on_failed* is told when a sync fails: then the process must end (D1)."""
        self._disk = disk
        self._trace = trace
        self._syncs = Syncs(disk, "shelf", on_failed)
        self._names = dict.fromkeys(disk.list())
        self._counting: dict[ManifestId, tuple[str, ...]] = {}
        """The files of each manifest that was finished."""
        self._durable: dict[str, None] = {}
        """The final names of files that no power cut takes away."""
        self._checked: dict[str, _Checked] = {}

    def open(self, then: Callable[[], None]) -> None:
        """Find what is here; call *then* when it can be relied upon. Until then no manifest counts."""
        found = list(self._kept(MANIFEST))
        again = [contents.id.hex() + AGAIN for contents in found]
        for contents, name in zip(found, again, strict=True):
            # Its name was given after those of its files were durable, whatever became of it.
            names = map(file_name, contents.files)
            self._durable |= {each: None for each in names if each in self._names}
            if name in self._names:
                self._remove(name)
            self._create(name, contents.encoded)

        def name_again() -> None:
            for contents in found:
                self._rename(contents.id.hex() + AGAIN, contents.id.hex() + MANIFEST)
            self._syncs.after((), opened, directory=True)

        def opened() -> None:
            for contents in found:
                self._counting[contents.id] = tuple(map(file_name, contents.files))
            then()

        self._syncs.after(again, name_again)

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Process the disk's answer; return False when it was not for the shelf."""
        return self._syncs.on_synced(token, ok)

    # --- what is here

    def complete(self) -> list[ManifestId]:
        """The manifests that count."""
        return [manifest for manifest in self._counting if self.holds(manifest)]

    def holds(self, manifest: ManifestId) -> bool:
        """Whether the manifest counts: it was finished, and none of its files was found damaged since."""
        files = self._counting.get(manifest)
        return files is not None and all(name in self._durable for name in files)

    def manifest(self, manifest: ManifestId) -> Contents:
        """A manifest that counts. Raises ``InvalidRequest`` when the disk has damaged it."""
        return self._load(manifest.hex() + MANIFEST)

    def room_needed(self, contents: Contents, instead_of: Contents | None = None) -> int:
        """How many bytes on the disk a fetch of it takes, besides those that are taken already."""
        needed = 0
        for file in contents.files:
            if self._current_name(file) not in self._names:
                base = self._base_of(contents, file, instead_of)
                needed += max(0, file.size - (self._disk.size(base) if base is not None else 0))
        return needed

    def keep_only(self, manifests: Iterable[Contents]) -> None:
        """Remove everything that belongs to none of these manifests, finished or not."""
        kept: dict[str, None] = {}
        for each in manifests:
            kept |= {each.id.hex() + MANIFEST: None, each.id.hex() + WANTED: None}
            for file in each.files:
                kept |= {file_name(file): None, file_name(file) + PART: None}
        for name in [name for name in self._names if name not in kept]:
            # Not synced: what a power cut brings back does not count without its files, or is removed again.
            self._remove(name)
        self._counting = {
            manifest: files for manifest, files in self._counting.items() if manifest.hex() + MANIFEST in kept
        }

    def drop(self, contents: Contents) -> None:
        """Remove one manifest, finished or not, and what belongs to no other."""
        kept = (*self._kept(MANIFEST), *self._kept(WANTED))
        self.keep_only([each for each in kept if each.id != contents.id])

    # --- making a manifest's files

    def begin(
        self,
        contents: Contents,
        then: Callable[[list[FileEntry]], None],
        instead_of: Contents | None = None,
    ) -> None:
        """Make room for what is lacking. When it is durable, call *then* with the files found half made.

        Files of *instead_of* become those of *contents* in place: nobody else has them or needs them any
        more."""
        # Written again even if it is there: only this process knows that its own bytes are synced (D1).
        wanted = contents.id.hex() + WANTED
        if wanted in self._names:
            self._remove(wanted)
        self._create(wanted, contents.encoded)
        # Durable before a file loses the name by which an older manifest knows it.
        self._syncs.after([wanted], lambda: self._make_room(contents, then, instead_of), directory=True)

    def _make_room(
        self,
        contents: Contents,
        then: Callable[[list[FileEntry]], None],
        instead_of: Contents | None,
    ) -> None:
        half_made = []
        for file in contents.files:
            name = file_name(file)
            if name in self._names:
                continue
            part = name + PART
            if part not in self._names:
                base = self._base_of(contents, file, instead_of)
                if base is None:
                    self._allocate(part, file.size)
                    continue
                self._durable.pop(base, None)
                self._rename(base, part)
            half_made.append(file)
            if self._disk.size(part) != file.size:
                self._disk.truncate(part, file.size)
        self._forget_replaced(contents)
        self._syncs.after((), lambda: then(half_made), directory=True)

    def _base_of(self, contents: Contents, file: FileEntry, instead_of: Contents | None) -> str | None:
        """The file that becomes *file* in place, if there is one: given up for that, or half made for an
        older manifest of the same subject."""
        if not file.size:
            return None
        own = {file_name(each) for each in contents.files}
        for other in self._kept(WANTED):
            if other.id != contents.id and other.manifest.subject == contents.manifest.subject:
                for each in other.files:
                    name = file_name(each)
                    if each.name == file.name and name not in own and name + PART in self._names:
                        return name + PART
        for each in instead_of.files if instead_of is not None else ():
            name = file_name(each)
            if each.name == file.name and name not in own and name in self._names:
                return name
        return None

    def _forget_replaced(self, contents: Contents) -> None:
        """Remove older manifests of the same subject of which nothing is here any more."""
        for suffix in (WANTED, MANIFEST):
            for other in list(self._kept(suffix)):
                is_older = other.id != contents.id and other.manifest.subject == contents.manifest.subject
                if is_older and not any(self._current_name(each) in self._names for each in other.files):
                    self._remove(other.id.hex() + suffix)
                    self._counting.pop(other.id, None)

    def is_finished(self, file: FileEntry) -> bool:
        """Whether the file has its final name."""
        return file_name(file) in self._names

    def places(self, contents: Contents, half_made: list[FileEntry]) -> Iterator[Place]:
        """Everywhere on the shelf where chunks may be: in half-made files, and in files of other manifests.

        A place is a hint: only the hash of what is read there tells.
        """
        for file in half_made:
            yield from _places_in(file_name(file) + PART, contents, file)
        for other in (*self._kept(MANIFEST), *self._kept(WANTED)):
            if other.id == contents.id:
                continue
            for file in other.files:
                name = self._current_name(file)
                if name in self._names:
                    yield from _places_in(name, other, file)

    def read(self, place: Place) -> bytes:
        """What is at *place*; nothing if its file was removed meanwhile."""
        if place.name not in self._names:
            return b""
        return self._disk.read(place.name, place.offset, place.length)

    def is_checked(self, chunk: Chunk) -> bool:
        """Whether this process has read that chunk in its place, after its sync, and found it right, and has
        not written there since."""
        checked = self._checked.get(self._current_name(chunk.file))
        return checked is not None and checked.has(chunk)

    def note_checked(self, chunk: Chunk, chunk_bytes: int) -> None:
        name = self._current_name(chunk.file)
        checked = self._checked.get(name)
        if checked is None or checked.chunk_bytes != chunk_bytes:
            checked = self._checked[name] = _Checked(chunk_bytes)
        checked.put(chunk, chunk.digest)

    def place_of(self, chunk: Chunk) -> Place:
        """Where a chunk of the manifest that is being made belongs."""
        return Place(self._current_name(chunk.file), chunk.offset, chunk.length, chunk.digest)

    def write(self, chunk: Chunk, data: bytes) -> str:
        """Write a chunk whose hash is right into its half-made file; return the name to be synced."""
        part = file_name(chunk.file) + PART
        checked = self._checked.get(part)
        if checked is not None:
            checked.put(chunk, _UNCHECKED)
        self._disk.write_at(part, chunk.offset, data)
        return part

    def sync(self, names: Iterable[str], then: Callable[[], None]) -> None:
        self._syncs.after(names, then)

    def reopen(self, file: FileEntry) -> None:
        """Take a file's final name away because it is damaged: no manifest with this file counts any more."""
        self._rename(file_name(file), file_name(file) + PART)
        self._durable.pop(file_name(file), None)

    def finish(self, contents: Contents, then: Callable[[], None]) -> None:
        """Give all files their final names, and then the manifest. Everything is synced and hashed by now."""
        names = [file_name(file) for file in contents.files]
        for name in names:
            if name in self._names and name not in self._durable:
                self._rename(name, name + PART)
            if name not in self._names:
                self._rename(name + PART, name)

        def name_manifest() -> None:
            self._durable |= dict.fromkeys(names)
            self._rename(contents.id.hex() + WANTED, contents.id.hex() + MANIFEST)
            self._syncs.after((), count, directory=True)

        def count() -> None:
            self._counting[contents.id] = tuple(names)
            then()

        self._syncs.after((), name_manifest, directory=True)

    # --- names

    def _current_name(self, file: FileEntry) -> str:
        name = file_name(file)
        return name if name in self._names else name + PART

    def _allocate(self, name: str, size: int) -> None:
        if size:
            self._disk.allocate(name, size)
            self._names[name] = None
        else:
            self._create(name, b"")

    def _create(self, name: str, data: bytes) -> None:
        self._disk.append(name, data)
        self._names[name] = None

    def _rename(self, old: str, new: str) -> None:
        self._disk.rename(old, new)
        del self._names[old]
        self._names[new] = None
        checked = self._checked.pop(old, None)
        if checked is not None:
            self._checked[new] = checked

    def _remove(self, name: str) -> None:
        self._disk.remove(name)
        del self._names[name]
        self._checked.pop(name, None)

    # --- manifests on the disk

    def _kept(self, suffix: str) -> Iterator[Contents]:
        """The manifests in files of that suffix; damaged ones count as absent."""
        for name in [name for name in self._names if name.endswith(suffix)]:
            try:
                yield self._load(name)
            except InvalidRequest as error:
                self._trace.note("shipping-manifest-damaged", name=name, why=str(error))

    def _load(self, name: str) -> Contents:
        contents = decode_manifest(self._disk.read(name, 0, self._disk.size(name)))
        if contents.id.hex() != name.partition(".")[0]:
            raise InvalidRequest(f"{name} holds another manifest: the disk has damaged it")
        return contents


def file_name(file: FileEntry) -> str:
    """The name of a finished file on the shelf."""
    return file.digest.hex()


def _places_in(name: str, contents: Contents, file: FileEntry) -> Iterator[Place]:
    for chunk in contents.chunks(file):
        yield Place(name, chunk.offset, chunk.length, chunk.digest)
