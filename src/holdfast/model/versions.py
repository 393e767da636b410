"""Compatible decoding: processes are upgraded one by one, so each receives messages of a later version.

Messages change in only two ways. A message may get new fields, at its end and with defaults: an older reader
ignores them, and a newer one uses the default where an older writer sent nothing. And a union may get new
kinds of messages: an older reader ignores those, like a lost message, and the sender does without the answer.
A new kind of frame needs a new version of the handshake (``net.handshake``) and is never sent to a peer that
agreed on an older one.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class LaterKind(msgspec.ValidationError):
    """Raised when a message is of a kind that this version does not know; the message is not damaged."""


class Decoder(Generic[T]):
    """Decodes messages of *union*, all of whose members have tags."""

    def __init__(self, union: Any) -> None:
        self.decode_known: Callable[[bytes], T] = msgspec.msgpack.Decoder(union).decode
        """Decodes a message without a call of Python code. When it raises, ask :meth:`why_later`."""
        self._tags = frozenset(_tags_of(msgspec.inspect.type_info(union)))

    def decode(self, payload: bytes) -> T:
        """Decode a message. Raises :class:`LaterKind`, or ``msgspec.DecodeError`` for anything else that does
        not fit."""
        try:
            return self.decode_known(payload)
        except msgspec.ValidationError:
            if (why := self.why_later(payload)) is None:
                raise
            raise LaterKind(why) from None

    def why_later(self, payload: bytes) -> str | None:
        """Say that a message which was not decoded is of a kind that only later versions know; None if it is
        not."""
        tag = _tag_in(payload)
        return None if tag is None or tag in self._tags else f"{tag!r} is of a later version"


def _tags_of(union: msgspec.inspect.Type) -> Iterator[str | int]:
    types = union.types if isinstance(union, msgspec.inspect.UnionType) else (union,)
    for each in types:
        if isinstance(each, msgspec.inspect.StructType) and each.tag is not None:
            yield each.tag


def _tag_in(payload: bytes) -> str | int | None:
    """The tag of a message of any version; None if it has none."""
    match msgspec.msgpack.decode(payload):
        case [str() | int() as tag, *_] if not isinstance(tag, bool):
            return tag
        case {"type": str() | int() as tag} if not isinstance(tag, bool):
            return tag
    return None
