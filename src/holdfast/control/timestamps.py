"""Timestamps of index data: for each bucket, up to which change of each of its vbuckets (IM E, G).

The values only. Who moves them on, promotes and publishes them is the search service's business.
"""

from hashlib import blake2b
from typing import Annotated, Final

from msgspec import Meta, Struct

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
