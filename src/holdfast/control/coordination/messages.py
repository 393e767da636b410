"""The messages between managers. Each carries its sender's term (N-5), and each may be repeated."""

from msgspec import Struct

from holdfast.control.coordination.state_file import Context
from holdfast.model.ids import Term


class Hello(Struct, frozen=True, array_like=True, tag="control/hello"):
    """From a replica to its coordinator: which context the replica holds (IM-75)."""

    term: Term
    cas: int
    digest: bytes


class Whole(Struct, frozen=True, array_like=True, tag="control/whole"):
    """From the coordinator to a replica that holds another context: the whole context."""

    term: Term
    context: Context


class Same(Struct, frozen=True, array_like=True, tag="control/same"):
    """From the coordinator to a replica that holds the same context."""

    term: Term
    cas: int


class Prepare(Struct, frozen=True, array_like=True, tag="control/prepare"):
    """Phase one: the changes that turn context *base_cas* into context *cas* (IM-23, T5)."""

    term: Term
    cas: int
    base_cas: int
    base_digest: bytes
    changes: tuple[bytes, ...]
    digest: bytes
    """The digest of the context that the changes must lead to."""


class Prepared(Struct, frozen=True, array_like=True, tag="control/prepared"):
    """The participant's log is durable."""

    term: Term
    cas: int


class Declined(Struct, frozen=True, array_like=True, tag="control/declined"):
    """The participant cannot take part."""

    term: Term
    cas: int
    why: str


class Decided(Struct, frozen=True, array_like=True, tag="control/decided"):
    """Phase two: the outcome in the authority's record, sent after it was posted (IM-30)."""

    term: Term
    cas: int
    is_commit: bool


class Beat(Struct, frozen=True, array_like=True, tag="control/beat"):
    """The coordinator's heartbeat; *cas* is that of its context."""

    term: Term
    cas: int


class BeatAnswer(Struct, frozen=True, array_like=True, tag="control/beat_answer"):
    term: Term
    cas: int


class Newer(Struct, frozen=True, array_like=True, tag="control/newer"):
    """The answer to a message of an older term: there is a newer term (IM-142)."""

    term: Term


Message = Hello | Whole | Same | Prepare | Prepared | Declined | Decided | Beat | BeatAnswer | Newer
