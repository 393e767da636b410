"""What the streams of two members of a group tell each other (W1): hints, which decide nothing.

New fields get defaults and go last.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.streams.config import STREAMS_MAX
from holdfast.streams.message import Message, Number, Origin

GIVEN_MAX: Final = 4096
"""The most messages in one answer."""
GIVEN_BYTES_MAX: Final = 256 << 10
"""How many bytes of content one answer has, about: what is more is asked for again."""


class Status(Struct, frozen=True, array_like=True, tag=1):
    """How far a member is."""

    has_object: bool
    marks: Annotated[dict[str, tuple[int, int]], Meta(max_length=STREAMS_MAX)] = {}
    """For each stream: the source's incarnation, and the mark."""


class Wanted(Struct, frozen=True, array_like=True, tag=2):
    """These messages are wanted; :class:`Given` answers."""

    origin: Origin
    first: Number
    last: Number


class Given(Struct, frozen=True, array_like=True, tag=3):
    """What a member has of what was wanted, from *first* on."""

    origin: Origin
    first: Number
    last: Number
    messages: Annotated[tuple[Message, ...], Meta(max_length=GIVEN_MAX)] = ()


class WhoHas(Struct, frozen=True, array_like=True, tag=4):
    """Who has how many of these messages? :class:`Holds` answers (LOSS-102)."""

    origin: Origin
    first: Number
    last: Number


class Holds(Struct, frozen=True, array_like=True, tag=5):
    origin: Origin
    first: Number
    last: Number
    count: int
    priorities: Annotated[tuple[int, ...], Meta(max_length=16)] = ()
    """The levels of those it has (LOSS-36)."""
    owes: bool = False
    """Whether it waits for the content of what was ordered (``retain="none"``): it could not lead on."""


class Question(Struct, frozen=True, array_like=True, tag=6):
    """What shall be done about a loss? The member that decides answers (LOSS-10)."""

    number: int
    information: bytes


class Answer(Struct, frozen=True, array_like=True, tag=7):
    number: int
    action: msgspec.Raw
    """What ``on_loss`` returned, encoded; nil if it could not be asked."""
    why_not: str = ""


Told = Status | Wanted | Given | WhoHas | Holds | Question | Answer
_decoder: Final[msgspec.msgpack.Decoder[Told]] = msgspec.msgpack.Decoder(Told)
_encode: Final = msgspec.msgpack.Encoder().encode


def encode_told(message: Told) -> bytes:
    return _encode(message)


def decode_told(body: bytes) -> Told:
    """Raises ``msgspec.DecodeError``."""
    return _decoder.decode(body)
