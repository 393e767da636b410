"""Events as bytes. The first number says the version of the form; a form that was ever sent is read for ever.

A form grows by fields with defaults at the end of its structs. What cannot be said so becomes a new version.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.faults.events import InvalidEvent, StructuredEvent

EVENTS_MAX: Final = 1_024
"""Of one batch."""
BATCH_BYTES_MAX: Final = 4 << 20
"""Of one batch; refused before anything is made of it."""


class EventsV1(Struct, frozen=True, array_like=True, tag=1):
    """A batch, in the order in which the events are to be told (FTC-249)."""

    events: tuple[StructuredEvent, ...]


_decoder: Final = msgspec.msgpack.Decoder(EventsV1)


def encode_events(events: Sequence[StructuredEvent]) -> bytes:
    """A batch as bytes; InvalidEvent when it is larger than a receiver would take."""
    if len(events) > EVENTS_MAX:
        raise InvalidEvent(f"{len(events)} events in one batch; at most {EVENTS_MAX} are taken")
    data = msgspec.msgpack.encode(EventsV1(tuple(events)))
    _require_size(data)
    return data


def decode_events(data: bytes) -> tuple[StructuredEvent, ...]:
    """The events of a batch; InvalidEvent when the bytes are not one, or one of a later version."""
    _require_size(data)
    try:
        events = _decoder.decode(data).events
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidEvent(f"not a batch of events that this version can read: {error}") from None
    if len(events) > EVENTS_MAX:
        raise InvalidEvent(f"{len(events)} events in one batch; at most {EVENTS_MAX} are taken")
    return events


def _require_size(data: bytes) -> None:
    if len(data) > BATCH_BYTES_MAX:
        raise InvalidEvent(f"a batch of {len(data)} bytes; at most {BATCH_BYTES_MAX} are taken")
