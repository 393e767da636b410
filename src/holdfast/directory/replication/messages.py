"""What two replicas of one suffix say to each other, on a connection of their own.

Each side greets first. Then each is supplier and consumer at once: ``Updates`` carry changes and statements,
``Have`` says what is committed and gives the sender room for more. Everything on a connection arrives in
order or not at all.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.directory.primitives import REPLICAS_MAX
from holdfast.directory.replication.statement import Introduction, ReplicaNumber, Statement, VectorText
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest

FORMAT: Final = 1
UPDATE_BYTES_MAX: Final = 12 << 20
"""The longest update: it must fit into one frame of the wire with what surrounds it."""
BATCH_UPDATES_MAX: Final = 4096
WHY_CHARACTERS_MAX: Final = 600
SUFFIX_CHARACTERS_MAX: Final = 4096
ROWS_MAX: Final = 4096
ROW_KEY_BYTES_MAX: Final = 511
MAPS_MAX: Final = 64
DIGEST_BYTES: Final = 32
MANIFEST_BYTES_MAX: Final = 12 << 20
"""The longest manifest: the hashes of some 370,000 chunks, far more than a store has."""

_Number = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Why = Annotated[str, Meta(max_length=WHY_CHARACTERS_MAX)]


class Reason(StrEnum):
    """Why a peer is refused."""

    FORMAT = "format"
    SUFFIX = "suffix"
    GENERATION = "generation"
    """It has another data set."""
    RETIRED = "retired"
    """Its replica id is over: it must take another."""
    DUPLICATE = "duplicate"
    """Another has its replica id."""
    SKEW = "skew"
    """Its clock is too far ahead."""
    NEEDS_INITIALISATION = "needs-initialisation"
    """It has what nobody takes any more, or lacks what nobody keeps any more."""
    INVALID = "invalid"
    """It broke the protocol."""
    NOT_READY = "not-ready"
    """It was asked for something that only a replica with all its data can do."""


class Hello(Struct, frozen=True, kw_only=True, array_like=True, tag="hello"):
    """The first message, from both sides."""

    format: _Number = FORMAT
    suffix: Annotated[str, Meta(max_length=SUFFIX_CHARACTERS_MAX)]
    generation: Annotated[str, Meta(max_length=64)]
    replica: ReplicaNumber
    vector: VectorText
    is_ready: bool
    """Whether it may issue changes; if not, it asks to be counted."""
    window_updates: Annotated[int, Meta(ge=1, le=1 << 20)]
    window_bytes: Annotated[int, Meta(ge=1, le=1 << 30)]


class Refused(Struct, frozen=True, array_like=True, tag="refused"):
    """The sender has no session with this peer, and closes the connection."""

    reason: Reason
    why: _Why


class Updates(Struct, frozen=True, kw_only=True, array_like=True, tag="updates"):
    """Changes that the receiver lacks, and then statements. Batches are numbered from 1 for each session."""

    number: _Number
    after: Annotated[tuple[Csn, ...], Meta(max_length=REPLICAS_MAX)] = ()
    """Where the updates follow on, for each replica of which the receiver has something: without it, nothing
    would tell a batch that was lost from a master that was idle."""
    introductions: Annotated[tuple[Introduction, ...], Meta(max_length=REPLICAS_MAX)] = ()
    updates: Annotated[
        tuple[Annotated[bytes, Meta(max_length=UPDATE_BYTES_MAX)], ...], Meta(max_length=BATCH_UPDATES_MAX)
    ] = ()
    statements: Annotated[tuple[Statement, ...], Meta(max_length=REPLICAS_MAX)] = ()

    @property
    def bytes(self) -> int:
        return sum(map(len, self.updates))


class Have(Struct, frozen=True, array_like=True, tag="have"):
    """What is committed at the sender, and the last batch of this session that it has dealt with."""

    vector: VectorText
    done: _Number


class CannotSupply(Struct, frozen=True, array_like=True, tag="cannot-supply"):
    """The receiver lacks what the sender has trimmed; unless another has it, it must be initialised."""

    why: _Why
    least: VectorText
    """Who has this can be brought up to date."""


class Counted(Struct, frozen=True, array_like=True, tag="counted"):
    """The receiver is counted here from now on. Once it has *vector* it may issue changes."""

    vector: VectorText


class CopyAsk(Struct, frozen=True, kw_only=True, array_like=True, tag="copy-ask"):
    """Send me a copy of all your data; I shall be that replica."""

    format: _Number = FORMAT
    suffix: Annotated[str, Meta(max_length=SUFFIX_CHARACTERS_MAX)]
    replica: ReplicaNumber
    window: Annotated[int, Meta(ge=1, le=1 << 10)]
    """How many pieces may be on their way."""


class ShippedCopyAsk(Struct, frozen=True, kw_only=True, array_like=True, tag="shipped-copy-ask"):
    """Offer me a copy of your store's file; I shall be that replica. It comes on another connection."""

    format: _Number = FORMAT
    suffix: Annotated[str, Meta(max_length=SUFFIX_CHARACTERS_MAX)]
    replica: ReplicaNumber


class CopyOffered(Struct, frozen=True, array_like=True, tag="copy-offered"):
    """The file can be fetched: this is its manifest (:mod:`holdfast.shipping.manifest`)."""

    manifest: Annotated[bytes, Meta(max_length=MANIFEST_BYTES_MAX)]


class CopyBegins(Struct, frozen=True, array_like=True, tag="copy-begins"):
    """The first word about a copy, which has a name of its own."""

    copy: Annotated[str, Meta(max_length=128)]
    vector: VectorText


Row = tuple[
    Annotated[int, Meta(ge=0, lt=MAPS_MAX)], Annotated[bytes, Meta(max_length=ROW_KEY_BYTES_MAX)], bytes
]
"""The number of the map, the key, the value."""


class CopyPiece(Struct, frozen=True, array_like=True, tag="copy-piece"):
    """The next rows of a copy. Pieces are numbered from 1."""

    copy: Annotated[str, Meta(max_length=128)]
    number: _Number
    rows: Annotated[tuple[Row, ...], Meta(max_length=ROWS_MAX)]


class CopyTaken(Struct, frozen=True, array_like=True, tag="copy-taken"):
    """All pieces up to this one are on the disk."""

    copy: Annotated[str, Meta(max_length=128)]
    number: _Number


class CopyEnds(Struct, frozen=True, array_like=True, tag="copy-ends"):
    """There were so many pieces, and this is the digest of all of them."""

    copy: Annotated[str, Meta(max_length=128)]
    pieces: _Number
    digest: Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]


Message = (
    Hello
    | Refused
    | Updates
    | Have
    | CannotSupply
    | Counted
    | CopyAsk
    | ShippedCopyAsk
    | CopyOffered
    | CopyBegins
    | CopyPiece
    | CopyTaken
    | CopyEnds
)

encode_message: Final = msgspec.msgpack.Encoder().encode
_decoder: Final[msgspec.msgpack.Decoder[Message]] = msgspec.msgpack.Decoder(Message)


def decode_message(payload: bytes) -> Message:
    """Raises ``InvalidRequest`` that says what does not fit."""
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
        raise InvalidRequest(f"not a message of replication: {fault}") from None


def shortened(why: object) -> str:
    return str(why)[:WHY_CHARACTERS_MAX]
