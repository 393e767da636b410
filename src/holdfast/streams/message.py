"""A message of a stream, as its source describes it: the one value that sources, the wire and the order
share.

A source puts into each message facts about those that went before (LOSS-12), so that a receiver can say
something about messages that it never got: how far back the last message of each priority was, and how old
earlier messages are. The lowest priority level needs no distance (LOSS-22), so a stream with *n* levels
tracks at most *n - 1*.

Distances count messages: 1 means the message right before this one. A message's own priority plays no part in
its own distances (LOSS-20).
"""

from typing import Annotated, Final, NewType

from msgspec import Meta, Struct

SourceId = NewType("SourceId", str)
"""A source's name in its domain."""

StreamId = NewType("StreamId", str)
"""A stream's name in its domain; it belongs to one source at a time."""

SourceIncarnation = NewType("SourceIncarnation", int)
"""The number of one life of a source: a later life has a higher one, and its numbers begin at 1 again."""

Sqn = NewType("Sqn", int)
"""A message's number in its stream and its source's incarnation; the first is 1, and the step is 1
(LOSS-18)."""

NONE_BEFORE: Final = -1
"""The distance to a level of which no message was sent before (LOSS-20)."""
FURTHER: Final = -2
"""The distance to a message that is further back than ``DISTANCE_MAX`` (LOSS-21): for a gap in which no place
is further back it means "not in there", for a longer one nothing."""
DISTANCE_MAX: Final = 65_533
"""The longest distance that is told; two values of a 2-byte number mean something else."""
PRIORITY_MAX: Final = 15
"""The lowest priority there is; 0 is the highest (LOSS-19)."""
NAME_CHARACTERS_MAX: Final = 100
TOPIC_CHARACTERS_MAX: Final = 200
PAYLOAD_BYTES_MAX: Final = 60_000
"""The largest content of a message: with its description it fits into one datagram."""
NUMBER_MAX: Final = (1 << 63) - 1
BACK_BY: Final = (1, 10, 100, 1_000)
"""How many messages back :attr:`Ages.back_ns` looks (LOSS-24 b)."""
BEFORE_MS: Final = (10, 100, 1_000, 10_000)
"""How many milliseconds back :attr:`Ages.numbers_before` looks (LOSS-24 c)."""

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
Number = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
Priority = Annotated[int, Meta(ge=0, le=PRIORITY_MAX)]
Topic = Annotated[str, Meta(max_length=TOPIC_CHARACTERS_MAX)]
Payload = Annotated[bytes, Meta(max_length=PAYLOAD_BYTES_MAX)]
Distance = Annotated[int, Meta(ge=FURTHER, le=DISTANCE_MAX)]
Distances = Annotated[tuple[Distance, ...], Meta(max_length=PRIORITY_MAX)]
Nanoseconds = Annotated[int, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]


class Origin(Struct, frozen=True, array_like=True, gc=False):
    """Where a message comes from. Equal for all messages of one life of a stream, so one value is shared."""

    source: Name
    stream: Name
    incarnation: Annotated[int, Meta(ge=0, le=NUMBER_MAX)]


class Ages(Struct, frozen=True, array_like=True, gc=False):
    """What a message says of when it and earlier ones were made (LOSS-24); each kind is optional, and so is
    each entry that looks further back than the stream goes."""

    created_ns: Nanoseconds | None = None
    """When this message was made, by the source's clock, since 1970."""
    back_ns: Annotated[tuple[Nanoseconds | None, ...], Meta(max_length=len(BACK_BY))] = ()
    """How long before this message those ``BACK_BY`` messages back were made."""
    numbers_before: Annotated[tuple[Number | None, ...], Meta(max_length=len(BEFORE_MS))] = ()
    """The number of the last message that was made ``BEFORE_MS`` milliseconds, or more, before this one."""


NO_AGES: Final = Ages()


class Message(Struct, frozen=True, array_like=True, gc=False):
    """One message of a stream. Where it comes from stands once beside many of them (:class:`Origin`)."""

    number: Number
    priority: Priority
    topic: Topic
    payload: Payload
    distances: Distances = ()
    """For each tracked level p, from 0: how far back the last message of exactly that level is (LOSS-22)."""
    cumulative: Distances = ()
    """For each tracked level p, from 0: how far back the last message of that level or a more important one
    is (LOSS-23)."""
    ages: Ages = NO_AGES


class StreamMessage(Struct, frozen=True, array_like=True, gc=False):
    """A message as the application gets it."""

    source: str
    stream: str
    incarnation: int
    """The life of the source: a later one is higher, and its numbers begin at 1 again."""
    number: int
    priority: int
    topic: str
    payload: bytes
    created_ns: int | None = None
    """When it was made, by the source's clock, if the source says so."""


def delivered(origin: Origin, message: Message) -> StreamMessage:
    return StreamMessage(
        origin.source,
        origin.stream,
        origin.incarnation,
        message.number,
        message.priority,
        message.topic,
        message.payload,
        message.ages.created_ns,
    )


class Heartbeat(Struct, frozen=True, array_like=True, gc=False):
    """What a source says of a stream while it has nothing to send, so that the loss of its last messages is
    noticed as well (LOSS-37)."""

    highest: Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
    """The highest number sent; 0 if none was."""


def unwrapped(low: int, bits: int, near: int) -> int:
    """The number whose last *bits* bits are *low*, and which is nearest to *near*: how a number that was sent
    with a fixed width is read after it has wrapped around (LOSS-37). Never less than 1."""
    size = 1 << bits
    number = near - ((near - low) % size)
    if near - number > size // 2 or number < 1:
        number += size
    return number
