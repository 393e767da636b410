"""The files of one stored object: opened, made into checkpoints, offered and fetched (W7, W8).

Each stored object has one database. A checkpoint of it is made in three steps. The object's execution flushes
it between two calls. Beside the loop, what was flushed goes into the main file, is synced, and what changed
is hashed: that makes a manifest (:mod:`.object_file`). Last, a small checkpoint file is written, which has
what belongs to the object and the manifest. Others fetch the file as it was, also while it changes.

A member that is sent such a checkpoint fetches the files of its manifest before the checkpoint counts: they
get the manifest's name, and the object is made from them. The file on the shelf is the same one until the
object changes it. A file that belongs to no checkpoint is removed when an object is opened.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

import msgspec

from holdfast.execution.capture import NotCapturable
from holdfast.execution.database import ObjectDatabase, StorageLost
from holdfast.execution.saved_state import Saved, head_of
from holdfast.execution.stored import StoredState, stored_state
from holdfast.groups.object_file import FILE, ObjectFile, OfferedFile
from holdfast.groups.ports import FilesPort, Written
from holdfast.model.errors import DISK_ERRORS, HoldfastError, InvalidRequest, Unavailable
from holdfast.model.ids import SECOND, GroupId, HostId, Position
from holdfast.model.ports import Clock
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.shipping.manifest import Contents, decode_manifest
from holdfast.storage.checkpoint import Framing
from holdfast.styles.ports import NotCopied, Snapshot

SUFFIX: Final = ".db"
ASIDE: Final = ".aside"
"""What others are still fetching of a database that has changed since."""
NEW: Final = "new"
"""The tag of a database that was made here, with a number if there was another; one that was fetched has its
manifest's id."""
TAG_CHARACTERS: Final = 32
WANTED_NS: Final = 20 * SECOND
"""How long after a member was told of a state it may be about to fetch the file. *Without it:* checkpoints
follow each other, and whatever state a member is sent, its file has changed before the first chunk is asked
for."""
OFFERS_MAX: Final = 3
"""How many manifests of one object are offered at a time. Of each but the newest, what has changed since is
kept aside."""
Then = Callable[[Written | NotCopied], None]


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
        self._file = self._file_named(self._named(NEW))
        self._shelved: Contents | None = None
        """The manifest whose file on the shelf may be this very file, because it was fetched."""
        self._checked: Contents | None = None
        """The manifest whose file was fetched, and with that hashed, by this process."""
        self._copy: _Copy | None = None
        self._is_settling = False
        self._offers: dict[bytes, OfferedFile] = {}
        """What others may fetch, by the encoded manifest, the newest last."""
        self._promised = ""
        """The file of a state that is being received: it belongs to no checkpoint yet."""

    # --- the object's database

    def fresh(self) -> ObjectDatabase:
        """A database in a file of its own. *Without it:* an object is given up while its checkpoint is made
        and begins anew in the same file, which the thread that makes the checkpoint still has locked."""
        here = self._own_files()
        names = (self._named(NEW if not number else f"{NEW}-{number}") for number in count())
        return self._made(next(name for name in names if name not in here), is_new=True)

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
        if names[0] == self._named(_tag(contents)):
            self._shelved = contents
        if database.position == position:
            if self._checked is not None and self._checked.id == contents.id:
                self._file.known = contents
                self._offer(contents)
            else:
                self._check(contents)
        return database

    def _made(self, name: str, *, is_new: bool) -> ObjectDatabase:
        place = self._files.place(name)
        return ObjectDatabase(place, self._schema, is_new=is_new, prepare=partial(self._begin, name, is_new))

    def _begin(self, name: str, is_new: bool, database: ObjectDatabase) -> None:
        """End whoever used the files until now, and what was being made of it."""
        self._withdraw()
        if (copy := self._copy) is not None:
            # *Without it:* an object is given up while its first checkpoint is made, another begins anew in
            # the same file, and the checkpoint counts although nothing of what it names is left.
            self.cancel()
            self._soon(partial(copy.then, NotCopied("")))
        if self._database is not None:
            self._database.close()
        self._database, self._file, self._shelved = database, self._file_named(name), None
        if is_new:
            self._files.remove([each for each in self._own_files() if each != self._promised])
        self._files.remove(self._own_files(ASIDE))

    def _check(self, contents: Contents) -> None:
        """Read the file as an earlier process left it, beside the loop. If it is whole, others may fetch it;
        otherwise the object is not what it was."""
        self._is_settling = True
        file, about = self._file, contents.manifest

        def checked(found: Contents | HoldfastError) -> None:
            self._is_settling = False
            if file is not self._file or self._database is None:
                return
            if isinstance(found, Contents) and found.id == contents.id:
                file.known = found
                self._offer(found)
            elif isinstance(found, Contents):
                self._on_damage(f"the database {file.name} is damaged: it is not as its checkpoint says")
            else:
                self._on_damage(str(found))

        work = partial(file.described, self._files.directory, about.position, about.epoch)
        self._files.describe(partial(self._read, file, work), checked)

    def _read(self, file: ObjectFile, work: Callable[[], Contents]) -> Contents:
        """Do *work*, which reads that file."""
        try:
            return work()
        except DISK_ERRORS:
            if file.name in self._files.directory.list():
                raise
            raise Unavailable(f"{file.name} was removed meanwhile") from None

    # --- checkpoints

    def begin(self, name: str, framing: Framing, snapshot: Snapshot, then: Then) -> bool:
        if self._copy is not None or self._is_settling:
            return False
        try:
            copy = _Copy(name, framing, b"".join(snapshot.pieces()), snapshot.digest(), then)
        except NotCapturable as error:
            self._soon(partial(then, NotCopied(str(error), is_of_state=True)))
            return True
        self._copy, self._is_settling = copy, True
        self._withdraw(but=self._fetched_now())
        assert self._database is not None
        file, offers, shelved = self._file, tuple(self._offers.values()), self._shelved
        position, epoch, directory = snapshot.position, framing.described.point.epoch, self._files.directory

        def before() -> None:
            if shelved is not None:
                self._files.take(shelved)
            file.about_to_settle(directory, offers)

        def after(frames: int) -> Contents:
            return self._read(file, lambda: file.settled(directory, frames, offers, position, epoch))

        self._files.settle(self._database, before, after, partial(self._settled, copy, file))
        return True

    def cancel(self) -> None:
        if self._copy is not None:
            self._files.discard(self._copy.name)
            self._copy = None

    def _fetched_now(self) -> tuple[bytes, ...]:
        """The manifests that somebody fetches, or is about to; if these are too many, first those that
        somebody fetches."""
        wanted_since = self._clock.now() - WANTED_NS
        wanted = [
            each
            for each, offer in self._offers.items()
            if offer.wanted_ns is not None and offer.wanted_ns >= wanted_since
        ]
        asked = [each for each, offer in self._offers.items() if self._files.is_asked(offer.contents.id)]
        found = [*(each for each in wanted if each not in asked), *asked]
        return tuple(found[1 - OFFERS_MAX :])

    def _settled(self, copy: _Copy, file: ObjectFile, found: Contents | HoldfastError) -> None:
        self._is_settling = False
        if self._database is not None and file is self._file and isinstance(found, Contents):
            self._shelved = None
            self._offer(found)
        if copy is not self._copy:
            return
        if isinstance(found, HoldfastError):
            self._copy = None
            copy.then(NotCopied(str(found)))
            return
        saved = msgspec.msgpack.decode(copy.head, type=Saved)
        attributes = stored_state(saved.state).attributes
        state = StoredState(attributes, found.encoded, self._tag_of(file.name))
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
        return kept is None or not (found := _manifest_of(kept)) or found in self._offers

    def is_taken(self, kept: Kept) -> bool:
        """Whether others can fetch what this checkpoint stands on, which one is about to do. A state that is
        only offered is not taken: the primary offers newer ones to a member that is still fetching, and does
        not heed them. *Without it:* what is offered displaces what is fetched, and a member whose files take
        longer than two checkpoints never has them."""
        found = _manifest_of(kept)
        offer = self._offers.get(found)
        if offer is not None:
            offer.wanted_ns = self._clock.now()
        return not found or offer is not None

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
        removed, instead_of = [], None
        if name in self._own_files():
            # Whatever became of it since it was fetched, it is not known to be what the manifest says.
            removed.append(name)
        if self._shelved is not None and self._database is not None and not self._database.is_changed:
            # Nothing was executed since it was fetched: it is of no use to anybody, and most of it is right.
            removed.append(self._file.name)
            instead_of = self._shelved
        if self._file.name in removed:
            self.close()
        self._promised = name
        self._checked = None

        def ended(error: HoldfastError | None) -> None:
            if error is None and self._promised != name:
                # *Without it:* a host that has left the group meanwhile keeps what it fetched (M6).
                self._files.remove([name])
                error = Unavailable("the files are not wanted any more")
            if error is None:
                self._checked = contents
            then(error)

        self._files.fetch(contents, FILE, sources, name, ended, removed=removed, instead_of=instead_of)

    def _offer(self, contents: Contents) -> None:
        known = self._offers.pop(contents.encoded, None)
        if known is None:
            aside = self._named(_tag(contents)).removesuffix(SUFFIX) + ASIDE
            known = OfferedFile(self._files.directory, self._file.name, aside, contents)
            self._files.offer(contents, known)
        self._offers[contents.encoded] = known

    def _withdraw(self, but: Container[bytes] = ()) -> None:
        for each in [each for each in self._offers if each not in but]:
            offer = self._offers.pop(each)
            offer.end()
            self._files.withdraw(offer.contents.id)
            self._files.remove([offer.aside])

    # --- the end

    def close(self) -> None:
        self._withdraw()
        self.cancel()
        self._promised = ""
        self._shelved = None
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def forget(self) -> None:
        """Remove all files: the group leaves, or its object was not the group's (E8)."""
        self.close()
        self._files.remove(self._own_files())

    # --- names

    def _named(self, tag: str) -> str:
        return f"{self._group:020d}-{tag}{SUFFIX}"

    def _tag_of(self, name: str) -> str:
        return name.removesuffix(SUFFIX).partition("-")[2]

    def _file_named(self, name: str) -> ObjectFile:
        return ObjectFile(self._group, name, self._files.chunk_bytes)

    def _own_files(self, suffix: str = SUFFIX) -> list[str]:
        prefix = f"{self._group:020d}-"
        return [name for name in self._files.list() if name.startswith(prefix) and name.endswith(suffix)]

    def _remove_others(self) -> None:
        kept = (self._file.name, self._promised)
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
        if number == 0 and not self._stored.is_taken(self._kept):
            raise Unavailable(f"the files of the state at {self.position} are no longer offered")
        return self._kept.chunk(number)

    def digest(self) -> bytes:
        return self._kept.digest()


def _manifest_of(kept: Kept) -> bytes:
    """The manifest of the files that a state stands on; empty if it stands on none."""
    return stored_state(head_of(chunks_of(kept)).state).manifest


def _tag(contents: Contents) -> str:
    return contents.id.hex()[:TAG_CHARACTERS]
