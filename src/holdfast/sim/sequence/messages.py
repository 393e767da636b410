"""What clients and hosts say to each other in the scenario, and the codec of everything in it."""

from typing import Final

import msgspec
from msgspec import Struct

from holdfast.authority.wire import ClientMessage, ServerMessage
from holdfast.model.ids import ClientId, GroupId
from holdfast.sequence.messages import GroupMessage, HostMessage


class Ask(Struct, frozen=True, array_like=True, tag="call"):
    """Append *token*, or read the list when it is empty."""

    group: GroupId
    client: ClientId
    number: int
    token: str


class Reply(Struct, frozen=True, array_like=True, tag="reply"):
    group: GroupId
    number: int
    place: int
    tokens: tuple[str, ...]


class Elsewhere(Struct, frozen=True, array_like=True, tag="elsewhere"):
    """Not answered here; *primary* is who might, if that is known."""

    group: GroupId
    number: int
    primary: str


Message = ClientMessage | ServerMessage | GroupMessage | HostMessage | Ask | Reply | Elsewhere
_decoder: Final = msgspec.msgpack.Decoder(Message)


class Codec:
    """Everything passes the encoding it has on the wire."""

    def encode(self, message: object) -> bytes:
        return msgspec.msgpack.encode(message)

    def decode(self, data: bytes) -> object:
        return _decoder.decode(data)
