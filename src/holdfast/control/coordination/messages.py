"""What managers say to each other. Every message carries its sender's term (N-5), and all may be repeated."""

from msgspec import Struct

from holdfast.control.coordination.state_file import Context
from holdfast.model.ids import Term


class Hello(Struct, frozen=True, array_like=True, tag="control/hello"):
    """A replica to its coordinator: this is what I hold (IM-75)."""

    term: Term
    cas: int
    digest: bytes


class Whole(Struct, frozen=True, array_like=True, tag="control/whole"):
    """The coordinator to a replica that holds something else."""

    term: Term
    context: Context


class Same(Struct, frozen=True, array_like=True, tag="control/same"):
    """What the replica holds is the coordinator's."""

    term: Term
    cas: int


class Prepare(Struct, frozen=True, array_like=True, tag="control/prepare"):
    """Phase one: the changes that make context *cas* of context *base_cas* (IM-23, T5)."""

    term: Term
    cas: int
    base_cas: int
    base_digest: bytes
    changes: tuple[bytes, ...]
    digest: bytes
    """Of what they must lead to."""


class Prepared(Struct, frozen=True, array_like=True, tag="control/prepared"):
    """Its log is durable."""

    term: Term
    cas: int


class Declined(Struct, frozen=True, array_like=True, tag="control/declined"):
    """It cannot take part."""

    term: Term
    cas: int
    why: str


class Decided(Struct, frozen=True, array_like=True, tag="control/decided"):
    """Phase two: what the authority's record says, told after it was posted (IM-30)."""

    term: Term
    cas: int
    is_commit: bool


class Beat(Struct, frozen=True, array_like=True, tag="control/beat"):
    """The coordinator lives; *cas* is its context's."""

    term: Term
    cas: int


class BeatAnswer(Struct, frozen=True, array_like=True, tag="control/beat_answer"):
    term: Term
    cas: int


class Newer(Struct, frozen=True, array_like=True, tag="control/newer"):
    """To whoever spoke in an older term: there is a newer one (IM-142)."""

    term: Term


Message = Hello | Whole | Same | Prepare | Prepared | Declined | Decided | Beat | BeatAnswer | Newer
