"""What the two ends of a shipment say to each other, on connections of their own."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.model.versions import Decoder
from holdfast.shipping.manifest import CHUNK_BYTES_MAX, CHUNKS_MAX, DIGEST_BYTES

WHY_CHARACTERS_MAX: Final = 300

Id = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
Number = Annotated[int, Meta(ge=0, lt=CHUNKS_MAX)]


class Ask(Struct, frozen=True, array_like=True, tag=1):
    """Send me this chunk of that manifest. Asked again when no answer comes."""

    manifest: Id
    number: Number


class ChunkSent(Struct, frozen=True, array_like=True, tag=2):
    """The chunk that was asked for. The receiver believes its hash only."""

    manifest: Id
    number: Number
    data: Annotated[bytes, Meta(max_length=CHUNK_BYTES_MAX)]


class NotSent(Struct, frozen=True, array_like=True, tag=3):
    """This host cannot send the chunk: it does not offer the manifest, or its own copy is damaged."""

    manifest: Id
    number: Number
    why: Annotated[str, Meta(max_length=WHY_CHARACTERS_MAX)]


ShippingMessage = Ask | ChunkSent | NotSent

encode_message: Final = msgspec.msgpack.Encoder().encode
_messages: Final[Decoder[ShippingMessage]] = Decoder(ShippingMessage)


def decode_message(payload: bytes) -> ShippingMessage:
    """Raises ``LaterKind``, or ``msgspec.DecodeError`` for anything else that does not fit."""
    return _messages.decode(payload)
