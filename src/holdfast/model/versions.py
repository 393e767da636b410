"""Two versions side by side: processes are upgraded one by one, so each hears words of a later one.

What travels grows in two ways only. A message gets new fields, at its end and with defaults: an older reader
passes over them, a newer one takes the default for what an older writer did not say. And a union gets new
kinds of messages: an older reader passes over those too, as over a message that was lost, and whoever sends
one does without its answer. A new kind of frame needs a new version of the handshake (``net.handshake``), and
goes to nobody who agreed on an older one.
"""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class LaterKind(msgspec.ValidationError):
    """Raised when a message is of a kind that this version does not know; it is no damage."""


class Decoder(Generic[T]):
    """Decodes messages of *union*, all of whose members have tags."""

    def __init__(self, union: Any) -> None:
        self._decode = msgspec.msgpack.Decoder(union).decode
        self._tags = frozenset(_tags_of(msgspec.inspect.type_info(union)))

    def decode(self, payload: bytes) -> T:
        """Raises :class:`LaterKind`, and ``msgspec.DecodeError`` for anything else that is none of them."""
        try:
            message: T = self._decode(payload)
        except msgspec.ValidationError:
            tag = _tag_in(payload)
            if tag is None or tag in self._tags:
                raise
            raise LaterKind(f"{tag!r} is of a later version") from None
        return message


def _tags_of(union: msgspec.inspect.Type) -> Iterator[str | int]:
    types = union.types if isinstance(union, msgspec.inspect.UnionType) else (union,)
    for each in types:
        if isinstance(each, msgspec.inspect.StructType) and each.tag is not None:
            yield each.tag


def _tag_in(payload: bytes) -> str | int | None:
    """What a message of any version says it is; None when it says nothing of that."""
    match msgspec.msgpack.decode(payload):
        case [str() | int() as tag, *_] if not isinstance(tag, bool):
            return tag
        case {"type": str() | int() as tag} if not isinstance(tag, bool):
            return tag
    return None
