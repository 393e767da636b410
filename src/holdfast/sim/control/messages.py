"""What clients and hosts say to each other in the scenario, and the codec of everything in it."""

from typing import Final

import msgspec
from msgspec import Struct

from holdfast.authority.wire import ClientMessage, ServerMessage
from holdfast.control.messages import Message as ControlMessage
from holdfast.sequence.messages import Died


class Wish(Struct, frozen=True, array_like=True, tag="wish"):
    """Let *token* be in the context."""

    token: str


class Said(Struct, frozen=True, array_like=True, tag="said"):
    """*what* became of it: ``accepted``, ``failed``, ``unsettled``; or ``elsewhere``, with *coordinator*."""

    token: str
    what: str
    cas: int = 0
    coordinator: str = ""


Message = ClientMessage | ServerMessage | ControlMessage | Died | Wish | Said
_decoder: Final = msgspec.msgpack.Decoder(Message)


class Codec:
    """Everything passes the encoding it has on the wire."""

    def encode(self, message: object) -> bytes:
        return msgspec.msgpack.encode(message)

    def decode(self, data: bytes) -> object:
        return _decoder.decode(data)
