"""The files of one stored object: opened, made into checkpoints, offered and fetched (W7, W8).

Each stored object has one database. A checkpoint of it is made in three steps. The object's execution flushes
it between two calls. Beside the loop, what was flushed goes into the main file, is synced and hashed: that
makes a manifest. Last, a small checkpoint file is written, which has what belongs to the object and the
manifest. Until the next checkpoint the main file does not change, so other hosts fetch it as it is.

A member that is sent such a checkpoint fetches the files of its manifest before the checkpoint counts: they
get the manifest's name, and the object is made from them. A file that belongs to no checkpoint is removed
when an object is opened.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from holdfast.execution.capture import NotCapturable
from holdfast.execution.database import ObjectDatabase, StorageLost
from holdfast.execution.saved_state import Saved, head_of
from holdfast.execution.stored import StoredState, stored_state
from holdfast.groups.ports import FilesPort, Written
from holdfast.model.errors import DISK_ERRORS, HoldfastError, InvalidRequest, Unavailable
from holdfast.model.ids import SECOND, Epoch, GroupId, HostId, Position
from holdfast.model.ports import Clock
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.shipping.manifest import Contents, decode_manifest, describe
from holdfast.storage.checkpoint import Framing
from holdfast.storage.segments import Readable
from holdfast.styles.ports import NotCopied, Snapshot

FILE: Final = "database"
"""The name of an object's file in its manifest."""
SUFFIX: Final = ".db"
NEW: Final = "new"
"""The tag of a database that was made here; one that was fetched has its manifest's id."""
TAG_CHARACTERS: Final = 32
HOLD_NS: Final = 8 * SECOND
"""How long a checkpoint may be put off because somebody fetches the file as it is. The log grows
meanwhile."""
Then = Callable[[Written | NotCopied], None]


class OneFile:
    """One file of a directory under the name that manifests give it (:class:`Readable`)."""

    def __init__(self, directory: Readable, name: str) -> None:
        self._directory = directory
        self._name = name

    def list(self) -> list[str]:
        return [FILE]

    def size(self, name: str) -> int:
        return self._directory.size(self._name)

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self._directory.read(self._name, offset, length)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A checkpoint that is being made."""

    name: str
    framing: Framing
    head: bytes
    digest: bytes
    then: Then


class StoredObject:
    """The files of one group's object (:class:`holdfast.execution.stored.ObjectFiles`), and how checkpoints
    of it are made (:class:`.ports.CopyPort`)."""

    def __init__(
        self,
        group: GroupId,
        schema: str,
        files: FilesPort,
        clock: Clock,
        soon: Callable[[Callable[[], None]], None],
        on_damage: Callable[[str], None],
    ) -> None:
        """*on_damage* is told when the file is found damaged."""
        self._group = group
        self._schema = schema
        self._files = files
        self._clock = clock
        self._soon = soon
        self._on_damage = on_damage
        self._database: ObjectDatabase | None = None
        self._name = self._named(NEW)
        self._copy: _Copy | None = None
        self._is_settling = False
        self._offered: tuple[Contents, str] | None = None
        self._put_off_at: int | None = None
        self._promised = ""
        """The file of a state that is being received: it belongs to no checkpoint yet."""

    # --- the object's database

    def fresh(self) -> ObjectDatabase:
        return self._made(self._named(NEW), is_new=True)

    def opened(self, state: bytes, position: Position) -> ObjectDatabase:
        found = stored_state(state)
        if not found.manifest:
            if position:
                raise StorageLost(f"the checkpoint at position {position} names no files")
            return self.fresh()
        contents = decode_manifest(found.manifest)
        tags = (_tag(contents), found.home)
        here = self._own_files()
        names = [self._named(tag) for tag in tags if self._named(tag) in here] or here
        if not names:
            raise StorageLost(f"the files of the checkpoint at position {position} are not here")
        database = self._made(names[0], is_new=False)
        database.open()
        if database.position < position:
            said = f"the database holds position {database.position}, and the checkpoint {position}"
            raise StorageLost(said)
        self._remove_others()
        self._files.unshelve(contents)
        if database.position == position:
            self._check(contents, names[0])
        return database

    def _made(self, name: str, *, is_new: bool) -> ObjectDatabase:
        place = self._files.place(name)
        return ObjectDatabase(place, self._schema, is_new=is_new, prepare=partial(self._begin, name, is_new))

    def _begin(self, name: str, is_new: bool, database: ObjectDatabase) -> None:
        """End whoever used the files until now."""
        self._withdraw()
        if self._database is not None:
            self._database.close()
        self._database, self._name = database, name
        if is_new:
            self._files.remove([each for each in self._own_files() if each != self._promised])

    def _check(self, contents: Contents, name: str) -> None:
        """Read the file as an earlier process left it, beside the loop. If it is whole, others may fetch it;
        otherwise the object is not what it was."""
        self._is_settling = True
        work = self._described(contents.manifest.position, contents.manifest.epoch, name)

        def checked(found: Contents | HoldfastError) -> None:
            self._is_settling = False
            if name != self._name or self._database is None:
                return
            if isinstance(found, Contents) and found.id == contents.id:
                self._offer(found, name)
            elif isinstance(found, Contents):
                self._on_damage(f"the database {name} is damaged: it is not as its checkpoint says")
            else:
                self._on_damage(str(found))

        self._files.describe(work, checked)

    def _described(self, position: Position, epoch: Epoch, name: str) -> Callable[[Readable], Contents]:
        subject = f"group {self._group}"

        def work(directory: Readable) -> Contents:
            try:
                return describe(
                    OneFile(directory, name),
                    [FILE],
                    subject=subject,
                    epoch=epoch,
                    position=position,
                    chunk_bytes=self._files.chunk_bytes,
                )
            except DISK_ERRORS:
                if name in directory.list():
                    raise
                raise Unavailable(f"{name} was removed meanwhile") from None

        return work

    # --- checkpoints

    def begin(self, name: str, framing: Framing, snapshot: Snapshot, then: Then) -> bool:
        if self._copy is not None or self._is_settling or self._is_put_off():
            return False
        try:
            copy = _Copy(name, framing, b"".join(snapshot.pieces()), snapshot.digest(), then)
        except NotCapturable as error:
            self._soon(partial(then, NotCopied(str(error), is_of_state=True)))
            return True
        self._copy, self._is_settling = copy, True
        self._withdraw()
        assert self._database is not None
        work = self._described(snapshot.position, framing.described.point.epoch, self._name)
        self._files.settle(self._database, work, partial(self._settled, copy, self._name))
        return True

    def cancel(self) -> None:
        if self._copy is not None:
            self._files.discard(self._copy.name)
            self._copy = None

    def _is_put_off(self) -> bool:
        """Whether somebody fetches the file, which a checkpoint would change, and not for too long yet."""
        if self._offered is None or not self._files.is_asked(self._offered[0].id):
            self._put_off_at = None
            return False
        if self._put_off_at is None:
            self._put_off_at = self._clock.now()
        return self._clock.now() - self._put_off_at < HOLD_NS

    def _settled(self, copy: _Copy, name: str, found: Contents | HoldfastError) -> None:
        self._is_settling = False
        if self._database is not None and name == self._name and isinstance(found, Contents):
            self._offer(found, name)
        if copy is not self._copy:
            return
        if isinstance(found, HoldfastError):
            self._copy = None
            copy.then(NotCopied(str(found)))
            return
        saved = msgspec.msgpack.decode(copy.head, type=Saved)
        attributes = stored_state(saved.state).attributes
        state = StoredState(attributes, found.encoded, self._tag_of(name))
        saved = msgspec.structs.replace(saved, state=msgspec.msgpack.encode(state))
        framing = copy.framing
        data = [framing.header, *framing.framed(msgspec.msgpack.encode(saved)), framing.end()]
        self._files.write(copy.name, data, partial(self._written, copy))

    def _written(self, copy: _Copy) -> None:
        if copy is self._copy:
            self._copy = None
            copy.then(Written(copy.framing.described, copy.digest))
        else:
            self._files.discard(copy.name)

    # --- other hosts

    def offers(self, kept: Kept | None) -> bool:
        """Whether others can fetch what this checkpoint stands on."""
        if kept is None:
            return True
        found = stored_state(head_of(chunks_of(kept)).state).manifest
        return not found or (self._offered is not None and self._offered[0].encoded == found)

    def for_others(self, kept: Kept | None) -> Kept | None:
        """That state, as long as others can fetch its files."""
        return _WithFiles(kept, self) if kept is not None else None

    def fetch(
        self, state: bytes, sources: list[HostId], then: Callable[[HoldfastError | None], None]
    ) -> None:
        """Fetch the files of a state that this member was sent. Calls *then* with why they are not here, or
        None when they are, checked and durable."""
        try:
            found = stored_state(head_of(iter([state])).state)
            contents = decode_manifest(found.manifest) if found.manifest else None
        except (msgspec.DecodeError, InvalidRequest) as error:
            then(InvalidRequest(f"the state that was sent cannot be read: {error}"))
            return
        if contents is None:
            then(None)
            return
        name = self._named(_tag(contents))
        if name in self._own_files():
            # Whatever became of it since it was fetched, it is not known to be what the manifest says.
            if name == self._name:
                self.close()
            self._files.remove([name])
        self._promised = name
        self._files.fetch(contents, FILE, sources, name, then)

    def _offer(self, contents: Contents, name: str) -> None:
        self._withdraw()
        self._offered = (contents, name)
        self._put_off_at = None
        self._files.offer(contents, partial(OneFile, name=name))

    def _withdraw(self) -> None:
        if self._offered is not None:
            self._files.withdraw(self._offered[0].id)
            self._offered = None

    # --- the end

    def close(self) -> None:
        self._withdraw()
        self.cancel()
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def forget(self) -> None:
        """Remove all files: the group leaves, or its object was not the group's (E8)."""
        self.close()
        self._promised = ""
        self._files.remove(self._own_files())

    # --- names

    def _named(self, tag: str) -> str:
        return f"{self._group:020d}-{tag}{SUFFIX}"

    def _tag_of(self, name: str) -> str:
        return name.removesuffix(SUFFIX).partition("-")[2]

    def _own_files(self) -> list[str]:
        prefix = f"{self._group:020d}-"
        return [name for name in self._files.list() if name.startswith(prefix) and name.endswith(SUFFIX)]

    def _remove_others(self) -> None:
        kept = (self._name, self._promised)
        self._files.remove([name for name in self._own_files() if name not in kept])


class _WithFiles:
    """A state that is offered to others (:class:`Kept`). It is gone when its files are no longer offered:
    then whoever was sent it is offered the next one."""

    def __init__(self, kept: Kept, stored: StoredObject) -> None:
        self._kept = kept
        self._stored = stored
        self.position = kept.position
        self.size = kept.size
        self.chunk_bytes = kept.chunk_bytes

    def chunk(self, number: int) -> bytes:
        if number == 0 and not self._stored.offers(self._kept):
            raise Unavailable(f"the files of the state at {self.position} are no longer offered")
        return self._kept.chunk(number)

    def digest(self) -> bytes:
        return self._kept.digest()


def _tag(contents: Contents) -> str:
    return contents.id.hex()[:TAG_CHARACTERS]
