"""What the domain knows of a directory: its suffix, who began it, and which replica ids were ever given (G3).

A replica id is given once: the record has the last one, and only grows. It also says between which hosts
replication is stopped, which replicas are read-only, and which hosts have left the directory. Every change is
a compare-and-set of the whole record.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    Guard,
    InDoubt,
    Listing,
    Recipe,
    Seen,
    answering,
    change,
    edited,
    put,
    read,
    read_all,
)
from holdfast.model.csn import REPLICA_MAX
from holdfast.model.errors import Overloaded
from holdfast.model.ids import HostId, Nonce, ReplicaId

IDS_OF_HOST_MAX: Final = 4096
"""How many replica ids one host may have had: each store that was wiped, restored or filled anew took one."""

SUFFIXES_MAX: Final = 16
"""How many directories a domain may have: each costs every host of them a store, three threads, and a
connection to each other host."""

Pair = tuple[HostId, HostId]


class HostReplicas(msgspec.Struct, frozen=True, kw_only=True):
    """The replica ids that one host's stores had, the present one last."""

    ids: tuple[ReplicaId, ...]
    nonce: Nonce
    """Of the last allotment."""


class DirectoryRecord(msgspec.Struct, frozen=True, kw_only=True, tag="directory"):
    """One directory of the domain."""

    suffix: str
    generation: str
    """The mark of its data: replicas of another are no peers (G4)."""
    founder: HostId
    nonce: Nonce
    is_founded: bool = False
    """Whether the founder has its first entries. From then on a replica without data asks for a copy."""
    replicas: dict[HostId, HostReplicas] = {}
    last: ReplicaId = ReplicaId(0)
    """The highest replica id ever given."""
    cuts: tuple[Pair, ...] = ()
    """Between whom people have stopped replication; the lesser name first."""
    read_only: tuple[HostId, ...] = ()
    """Hosts whose replicas refer writers to others."""
    left: tuple[HostId, ...] = ()
    """Hosts that have replicas no more."""

    def ids_of(self, host: HostId) -> tuple[ReplicaId, ...]:
        found = self.replicas.get(host)
        return () if found is None else found.ids

    @property
    def members(self) -> tuple[HostId, ...]:
        """The hosts that have a replica."""
        return tuple(sorted(each for each in self.replicas if each not in self.left))

    @property
    def present(self) -> tuple[ReplicaId, ...]:
        """The replica ids that the members' stores have now."""
        return tuple(ids[-1] for each in self.members if (ids := self.ids_of(each)))

    def is_cut(self, one: HostId, other: HostId) -> bool:
        return pair(one, other) in self.cuts

    def peers_of(self, host: HostId) -> tuple[HostId, ...]:
        """With whom *host* replicates."""
        return tuple(each for each in self.members if each != host and not self.is_cut(host, each))


def pair(one: HostId, other: HostId) -> Pair:
    return (one, other) if one < other else (other, one)


Edit = Callable[[DirectoryRecord], DirectoryRecord]
"""A change of a record, which does nothing to one that is as wanted."""


class NoDirectory(msgspec.Struct, frozen=True, tag="no_directory"):
    """The domain has no directory of that suffix."""

    suffix: str


@answering
def begin_directory(
    suffix: str, *, generation: str, founder: HostId, nonce: Nonce, read_only: tuple[HostId, ...] = ()
) -> Recipe[Seen[DirectoryRecord] | Contended | InDoubt]:
    """Note a new directory; one of the same suffix stays as it is. Raises ``Overloaded`` if there are too
    many."""
    for _ in range(ATTEMPTS_MAX):
        guard = yield from read(keys.DIRECTORY_GUARD, Guard)
        listing = yield from read_all(keys.DIRECTORIES, DirectoryRecord)
        found = yield from read(keys.directory(suffix), DirectoryRecord)
        if found.value is not None:
            return Seen(found.key, found.value, found.modified)
        if len(listing.items) >= SUFFIXES_MAX:
            raise Overloaded(f"a domain has at most {SUFFIXES_MAX} suffixes")
        record = DirectoryRecord(
            suffix=suffix, generation=generation, founder=founder, nonce=nonce, read_only=read_only
        )
        # The guard keeps two that are begun at once from both being the last one.
        result = yield from change(
            [found.unchanged(), guard.unchanged()],
            [put(found.key, record), put(guard.key, Guard(nonce=nonce))],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(found.key, record, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the directory {suffix}")


@answering
def allot_replica(
    suffix: str, host: HostId, *, nonce: Nonce
) -> Recipe[Seen[DirectoryRecord] | NoDirectory | Contended | InDoubt]:
    """Give the store of *host* a replica id that nobody ever had: the last of ``ids_of(host)``. Raises
    ``Overloaded`` when all are used."""

    def allotted(record: DirectoryRecord) -> DirectoryRecord:
        known = record.replicas.get(host)
        if known is not None and known.nonce == nonce:
            return record
        replica = ReplicaId(record.last + 1)
        ids = () if known is None else known.ids
        if replica >= REPLICA_MAX or len(ids) >= IDS_OF_HOST_MAX:
            raise Overloaded(f"all replica ids of {suffix} are given away")
        replicas = {**record.replicas, host: HostReplicas(ids=(*ids, replica), nonce=nonce)}
        return msgspec.structs.replace(record, replicas=replicas, last=replica)

    return (yield from _edited(suffix, allotted, nonce))


@answering
def edit_directory(
    suffix: str, edit: Edit, *, nonce: Nonce
) -> Recipe[Seen[DirectoryRecord] | NoDirectory | Contended | InDoubt]:
    """Change what the domain knows of a directory."""
    return (yield from _edited(suffix, edit, nonce))


@answering
def list_directories() -> Recipe[Listing[DirectoryRecord]]:
    return (yield from read_all(keys.DIRECTORIES, DirectoryRecord))


def _edited(
    suffix: str, edit: Edit, nonce: Nonce
) -> Recipe[Seen[DirectoryRecord] | NoDirectory | Contended | InDoubt]:
    key, what = keys.directory(suffix), f"the directory {suffix}"
    result = yield from edited(key, DirectoryRecord, edit, nonce=nonce, what=what)
    return NoDirectory(suffix) if result is None else result


# --- edits


def with_cut(one: HostId, other: HostId) -> Edit:
    return lambda record: msgspec.structs.replace(
        record, cuts=tuple(sorted({*record.cuts, pair(one, other)}))
    )


def without_cut(one: HostId, other: HostId) -> Edit:
    return lambda record: msgspec.structs.replace(
        record, cuts=tuple(each for each in record.cuts if each != pair(one, other))
    )


def as_founded(record: DirectoryRecord) -> DirectoryRecord:
    return msgspec.structs.replace(record, is_founded=True)


def with_left(host: HostId) -> Edit:
    return lambda record: msgspec.structs.replace(
        record,
        left=tuple(sorted({*record.left, host})),
        cuts=tuple(each for each in record.cuts if host not in each),
    )


def with_returned(host: HostId, *, is_read_only: bool = False) -> Edit:
    """*host* has a replica, from now on or again. What it was before it left does not count; one that is
    there stays a read-only replica."""

    def edit(record: DirectoryRecord) -> DirectoryRecord:
        was_read_only = host in record.read_only and host not in record.left
        others = {each for each in record.read_only if each != host}
        return msgspec.structs.replace(
            record,
            left=tuple(each for each in record.left if each != host),
            read_only=tuple(sorted(others | {host} if is_read_only or was_read_only else others)),
        )

    return edit
