"""Indexes as the control plane knows them: what each is, and which hosts have which part of it (IM E).

Part of the domain's wishes. Field names are the source's: they are the interface. An index is known by a
number that is never used again; where a key must be text, it is that number in digits (IM-50, IM-51).

Timestamps of index data: for each bucket, up to which change of each of its vbuckets (IM E, G).

The values only. Who moves them on, promotes and publishes them is the search service's business.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.model.errors import InvalidRequest

SEQUENCE_MAX: Final = 2**64 - 1
VBUCKETS_MAX: Final = 65_536
"""Slots of one timestamp."""
BUCKET_CHARACTERS_MAX: Final = 256

Unsigned = Annotated[int, Meta(ge=0)]
"""Of 64 bits; the codecs hold no more."""
Timestamp = Annotated[tuple[Unsigned, ...], Meta(max_length=VBUCKETS_MAX)]
"""A vector of sequence numbers, one slot for each vbucket (IM-39)."""
Bucket = Annotated[str, Meta(min_length=1, max_length=BUCKET_CHARACTERS_MAX)]


class PersistenceTimestamp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A point at which the data of a bucket is kept (IM-55)."""

    ts: Timestamp
    stability: bool = False
    """Whether it may be read at, too."""


class HWHeartbeat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far one node has come with one index (IM-57)."""

    indexid: Unsigned
    bucket: Bucket
    hw: Timestamp
    """What has arrived."""
    lastPersistence: Unsigned
    """The hash (:func:`hash_of`) of the newest timestamp at which the node has kept its data."""
    lastStability: Unsigned
    """The same of the newest one it can be read at."""
    mutationQueue: Unsigned
    """How much room its queue has (IM-86)."""


def hash_of(timestamp: Timestamp) -> int:
    """The same number for the same timestamp, on every machine and in every version."""
    digest = blake2b(digest_size=8)
    for slot in timestamp:
        digest.update(slot.to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")


def is_at_most(one: Timestamp, other: Timestamp) -> bool:
    """Whether no slot of *one* is beyond *other*'s; a slot that is missing has seen nothing. Of two neither
    need be at most the other (N-8)."""
    longer = max(len(one), len(other))
    return all(
        mine <= theirs for mine, theirs in zip(_padded(one, longer), _padded(other, longer), strict=True)
    )


def _padded(timestamp: Timestamp, slots: int) -> tuple[int, ...]:
    return (*timestamp, *(0,) * (slots - len(timestamp)))


MAX_REPLICAS: Final = 3
"""Copies of a partition besides its master (IM-45): four copies outlast any three hosts."""
MAX_SLICES: Final = 64
"""Parts in which the data of an index can be moved between hosts (IM-44)."""
NOBODY: Final = -1
"""Stands in a map where there is no further replica (IM-45)."""
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
"""Places in a list of servers: the master first, then replicas, then :data:`NOBODY`. Checked when an index
is made and not when it is read: the constants above may grow."""


class IndexNotFound(InvalidRequest):
    """Raised when an index is named that is not there; nothing was changed."""

    code = "index_not_found"

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = tuple(ids)
        super().__init__(f"there is no index {', '.join(map(str, self.ids))}; nothing was changed")


class IndexExists(InvalidRequest):
    """Raised when an index is to be made whose name another of its bucket has."""

    code = "index_exists"


class Node(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A host, as those who hold or send index data know it (IM-40)."""

    name: Text
    connectionAddr: Text
    role: tuple[Text, ...] = ()
    """All that it does."""


class IndexInfo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"Uuid": "id"}):
    """What an index is (IM-41). Its number is spelled ``id`` wherever it is written (N-9)."""

    Name: Text
    Bucket: Bucket
    Using: Text
    """The kind of index."""
    OnExprList: Annotated[tuple[Expression, ...], Meta(max_length=EXPRESSIONS_MAX)] = ()
    Exprtype: Text = "json-pointer"
    """The language of the expressions."""
    IsPrimary: bool = False
    """It holds every document by its own name, and has no expressions."""
    Uuid: Unsigned = 0
    """0 until the coordinator has given it one."""
    Active: bool = False
    """Its topology is made, and its hosts have built it."""


class IndexTopology(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which host has which part of an index (IM-42)."""

    indexinfo: IndexInfo
    numPartitions: int
    servers: tuple[Node, ...]
    partitionMap: tuple[Row, ...]
    """For each partition its master and its replicas, on different hosts (IM-43)."""
    sliceMap: tuple[Row, ...]
    """The same of each slice (IM-44)."""


class Rebalance(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An index on its way to another topology (IM-56)."""

    topology: IndexTopology


class Indexes(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """All of them, and what belongs to them (IM-38, IM-46 to IM-54). The CAS is the context's own, and the
    timestamps that move all the time are no part of what is replicated (N-12)."""

    ptsMaxHistory: Annotated[int, Meta(ge=1)] = HISTORY_DEFAULT
    """How many timestamps are kept for each bucket."""
    persistenceTimestamps: dict[Bucket, tuple[PersistenceTimestamp, ...]] = {}
    """By bucket, the oldest first."""
    indexeInfos: dict[str, IndexInfo] = {}
    indexesTopology: dict[str, IndexTopology] = {}
    rebalances: dict[str, Rebalance] = {}
    projectors: tuple[Node, ...] = ()
    routers: tuple[Node, ...] = ()
    lastId: Unsigned = 0
    """The highest number ever given, so that none comes back."""

    def named(self, bucket: str, name: str) -> IndexInfo | None:
        found = (each for each in self.indexeInfos.values() if (each.Bucket, each.Name) == (bucket, name))
        return next(found, None)

    def listed(self, ids: Iterable[int]) -> tuple[IndexInfo, ...]:
        """Those of *ids*, in that order; of none, all that are active (IM-118). Raises
        :class:`IndexNotFound`."""
        wanted = tuple(ids)
        self.require(wanted)
        if not wanted:
            return tuple(each for each in self.all() if each.Active)
        return tuple(self.indexeInfos[str(each)] for each in wanted)

    def all(self) -> tuple[IndexInfo, ...]:
        """By number."""
        return tuple(sorted(self.indexeInfos.values(), key=lambda each: each.Uuid))

    def require(self, ids: Iterable[int]) -> None:
        missing = [each for each in ids if str(each) not in self.indexeInfos]
        if missing:
            raise IndexNotFound(missing)
