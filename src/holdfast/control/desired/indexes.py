"""Search indexes as the control plane knows them: what each is, and which hosts have which part of it (IM E).

They are part of the domain's desired state. The field names are those of the index coordinator's design,
because they are the interface. An index has a number that is never reused; where a key must be text, it is
that number in digits (IM-50, IM-51).

A timestamp of index data says, for each vbucket of a bucket, up to which change it has come (IM E, G). This
module has only the values; the search service advances, promotes and publishes them.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.model.errors import InvalidRequest

SEQUENCE_MAX: Final = 2**64 - 1
VBUCKETS_MAX: Final = 65_536
"""The most slots of one timestamp."""
BUCKET_CHARACTERS_MAX: Final = 256

Unsigned = Annotated[int, Meta(ge=0)]
"""An unsigned integer of at most 64 bits, which is the most that the codecs hold."""
Timestamp = Annotated[tuple[Unsigned, ...], Meta(max_length=VBUCKETS_MAX)]
"""A vector of sequence numbers, one slot for each vbucket (IM-39)."""
Bucket = Annotated[str, Meta(min_length=1, max_length=BUCKET_CHARACTERS_MAX)]


class PersistenceTimestamp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A point at which the data of a bucket is persisted (IM-55)."""

    ts: Timestamp
    stability: bool = False
    """Whether the data can also be read at this point."""


class HWHeartbeat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far one node has come with one index (IM-57)."""

    indexid: Unsigned
    bucket: Bucket
    hw: Timestamp
    """The timestamp of the changes that have arrived."""
    lastPersistence: Unsigned
    """The hash (:func:`hash_of`) of the newest timestamp at which the node has persisted its data."""
    lastStability: Unsigned
    """The hash of the newest timestamp at which the node's data can be read."""
    mutationQueue: Unsigned
    """How much room the node's queue has (IM-86)."""


def hash_of(timestamp: Timestamp) -> int:
    """Return a hash of the timestamp that is the same on every machine and in every version."""
    digest = blake2b(digest_size=8)
    for slot in timestamp:
        digest.update(slot.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")


def is_at_most(one: Timestamp, other: Timestamp) -> bool:
    """Whether no slot of *one* is greater than that of *other*; a missing slot counts as 0. It is possible
    that neither of two timestamps is at most the other (N-8)."""
    longer = max(len(one), len(other))
    return all(
        mine <= theirs for mine, theirs in zip(_padded(one, longer), _padded(other, longer), strict=True)
    )


def _padded(timestamp: Timestamp, slots: int) -> tuple[int, ...]:
    return (*timestamp, *(0,) * (slots - len(timestamp)))


MAX_REPLICAS: Final = 3
"""How many copies a partition may have besides its master (IM-45). Four copies survive the loss of any three
hosts."""
MAX_SLICES: Final = 64
"""The number of parts in which the data of an index can be moved between hosts (IM-44)."""
NOBODY: Final = -1
"""Marks a place in a map without a further replica (IM-45)."""
PARTITIONS_MAX: Final = 1_024
INDEXES_MAX: Final = 1_000
EXPRESSIONS_MAX: Final = 16
EXPRESSION_CHARACTERS_MAX: Final = 1_024
HISTORY_DEFAULT: Final = 100
INDEXER: Final = "local-indexer-node"
"""The role of a host that stores index data."""

Text = Annotated[str, Meta(min_length=1, max_length=256)]
Expression = Annotated[str, Meta(min_length=1, max_length=EXPRESSION_CHARACTERS_MAX)]
Row = tuple[int, ...]
"""Positions in a list of servers: the master, then replicas, then :data:`NOBODY`. Rows are checked when an
index is created, not when it is read, because the constants above may grow."""


class IndexNotFound(InvalidRequest):
    """Raised when a named index does not exist; nothing was changed."""

    code = "index_not_found"

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = tuple(ids)
        super().__init__(f"there is no index {', '.join(map(str, self.ids))}; nothing was changed")


class IndexExists(InvalidRequest):
    """Raised when an index is to be created with the name of another one of its bucket."""

    code = "index_exists"


class Node(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host, as those who hold or send index data know it (IM-40)."""

    name: Text
    connectionAddr: Text
    role: tuple[Text, ...] = ()
    """All roles that the host has."""


class IndexInfo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"Uuid": "id"}):
    """The definition of an index (IM-41). In every encoded form, its number is called ``id`` (N-9)."""

    Name: Text
    Bucket: Bucket
    Using: Text
    """The kind of index."""
    OnExprList: Annotated[tuple[Expression, ...], Meta(max_length=EXPRESSIONS_MAX)] = ()
    Exprtype: Text = "json-pointer"
    """The language of the expressions."""
    IsPrimary: bool = False
    """A primary index holds every document by its own name and has no expressions."""
    Uuid: Unsigned = 0
    """0 until the coordinator has assigned a number."""
    Active: bool = False
    """Whether the index has a topology and its hosts have built it."""


class IndexTopology(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which host has which part of an index (IM-42)."""

    indexinfo: IndexInfo
    numPartitions: int
    servers: tuple[Node, ...]
    partitionMap: tuple[Row, ...]
    """The master and the replicas of each partition, on different hosts (IM-43)."""
    sliceMap: tuple[Row, ...]
    """The master and the replicas of each slice (IM-44)."""


class Rebalance(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An index that is moving to another topology (IM-56)."""

    topology: IndexTopology


class Indexes(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """All indexes, and what belongs to them (IM-38, IM-46 to IM-54). The CAS is that of the context.
    Timestamps that change all the time are not replicated here (N-12)."""

    ptsMaxHistory: Annotated[int, Meta(ge=1)] = HISTORY_DEFAULT
    """How many timestamps are kept for each bucket."""
    persistenceTimestamps: dict[Bucket, tuple[PersistenceTimestamp, ...]] = {}
    """The timestamps by bucket, the oldest first."""
    indexeInfos: dict[str, IndexInfo] = {}
    indexesTopology: dict[str, IndexTopology] = {}
    rebalances: dict[str, Rebalance] = {}
    projectors: tuple[Node, ...] = ()
    routers: tuple[Node, ...] = ()
    lastId: Unsigned = 0
    """The highest number ever assigned, so that none is reused."""

    def named(self, bucket: str, name: str) -> IndexInfo | None:
        found = (each for each in self.indexeInfos.values() if (each.Bucket, each.Name) == (bucket, name))
        return next(found, None)

    def listed(self, ids: Iterable[int]) -> tuple[IndexInfo, ...]:
        """Return the indexes with these *ids*, in that order, or all active ones if there are none (IM-118).
        Raises :class:`IndexNotFound`."""
        wanted = tuple(ids)
        self.require(wanted)
        if not wanted:
            return tuple(each for each in self.all() if each.Active)
        return tuple(self.indexeInfos[str(each)] for each in wanted)

    def all(self) -> tuple[IndexInfo, ...]:
        """Return all indexes, ordered by number."""
        return tuple(sorted(self.indexeInfos.values(), key=lambda each: each.Uuid))

    def require(self, ids: Iterable[int]) -> None:
        missing = [each for each in ids if str(each) not in self.indexeInfos]
        if missing:
            raise IndexNotFound(missing)
