"""A statement: what a replica says of itself, in its own stream, in order with its changes.

It has a CSN of its replica and comes after every change with a smaller one. So whoever has it has all that
the replica issued before, and everything that is still to come from that replica was issued by someone who
had at least ``vector`` (G7). A statement without news is a heartbeat: it moves the vector of an idle master,
and no entry is written for it. Only the last one of each replica is kept and sent on.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.clock.vector import Vector
from holdfast.directory.primitives import REPLICAS_MAX
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

VECTOR_CHARACTERS_MAX: Final = 65_536
"""The longest vector as text: a few hundred replicas, and some thousand ids that were retired."""

RETIRED_MAX: Final = 8192
"""How many retired ids are remembered with their last CSNs."""

VectorText = Annotated[str, Meta(max_length=VECTOR_CHARACTERS_MAX)]
ReplicaNumber = Annotated[ReplicaId, Meta(ge=0, le=0xFFFF)]
Replicas = Annotated[tuple[ReplicaNumber, ...], Meta(max_length=REPLICAS_MAX)]


class Statement(Struct, frozen=True, array_like=True):
    """What one replica says of itself."""

    csn: Csn
    vector: VectorText
    """What it has."""
    base: VectorText = ""
    """What it had when it began to issue: all its changes know of that. Empty for who founded the data."""
    known: Replicas = ()
    """The replicas that it counts, itself among them. Who gives somebody a copy counts him first."""
    over: Replicas = ()
    """Replicas that issue nothing more, and whose ids are not retired yet."""
    purged: VectorText = ""
    """What it has purged up to; others follow when they have ``vector``."""
    final: Annotated[tuple[Csn, ...], Meta(max_length=RETIRED_MAX)] = ()
    """The last CSNs of those retired replicas that ever issued one: who has less must not take part in the
    retirement yet, and who has more has what nobody takes any more."""
    is_leaving: bool = False
    """Whether this is its last word: it issues nothing more, so who has this has all that it ever issued."""

    @property
    def replica(self) -> ReplicaId:
        return self.csn.replica


class Introduction(Struct, frozen=True, array_like=True):
    """The base of a replica, for someone who has nothing of it yet."""

    replica: ReplicaNumber
    base: VectorText


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Statement)


def encoded_statement(statement: Statement) -> bytes:
    return _encoder.encode(statement)


def decoded_statement(data: bytes) -> Statement:
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as fault:
        raise InvalidRequest(f"not a statement of a replica: {fault}") from None


def check_statement(statement: Statement, generation: str) -> None:
    """Raise ``InvalidRequest`` if no replica of this data can have made *statement*."""
    vector = Vector.parse(statement.vector)
    texts = (statement.base, statement.purged)
    for each in (vector, *(Vector.parse(text) for text in texts if text)):
        if each.generation != generation:
            raise InvalidRequest(f"a statement about other data: {each.generation}, not {generation}")
    if not vector.covers(statement.csn) or statement.replica not in statement.known:
        raise InvalidRequest(f"the statement {statement.csn} does not count its own replica")
    if statement.replica in statement.over:
        raise InvalidRequest(f"the statement {statement.csn} says that its own replica is over")
