"""Structured events: the form in which faults travel from detectors to the notifier and to its consumers.

Shape, field names and their order are those of the source (CosNotification::StructuredEvent, FTC 27.4.5), so
a path such as ``$.header.fixed_header.event_type.domain_name`` means the same here as there. Every value is
checked when it is made, even when it is decoded from the wire: it is within the bounds below and has a type
that filters can look at. Whoever holds an event need not check it again.

The encoded form begins with a version number; a version that was ever sent can be read for ever. A version
grows by fields with defaults at the end of its structs. Any other change needs a new version.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.model.errors import InvalidRequest
from holdfast.model.properties import LOCATION_PARTS_MAX
from holdfast.model.properties import TEXT_MAX as NAME_MAX

TEXT_MAX: Final = 4_096
"""The most letters of a text that is a property's value or that explains a fault to people. Names have
NAME_MAX."""
PROPERTIES_MAX: Final = 64
"""The most properties in the filterable data, and in the variable header."""
ELEMENTS_MAX: Final = 256
"""The most elements of a sequence that is a property's value, such as the hosts of a view."""
INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**64 - 1
"""Integers range from long long to unsigned long long; group ids are the latter."""


class InvalidEvent(InvalidRequest):
    """Raised when something is not an event or exceeds the bounds of one."""

    code = "invalid_event"


class UnsupportedFilterableData(InvalidEvent):
    """Raised when a property has a value that no filter can look at."""

    code = "unsupported_filterable_data"


Simple = bool | int | float | str


class NameComponent(Struct, frozen=True, array_like=True):
    """One part of a location, such as id ``hostC`` of kind ``hostname``."""

    id: str
    kind: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidEvent("a location's part is empty")
        _require_text("a location's part", self.id, NAME_MAX)
        _require_text("a location's kind", self.kind, NAME_MAX)


class Location(Struct, frozen=True, tag="location"):
    """Where a fault is, the widest region first. Omitted parts at the end mean everything below (FTC-256)."""

    parts: tuple[NameComponent, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.parts) <= LOCATION_PARTS_MAX:
            raise InvalidEvent(f"a location has 1 to {LOCATION_PARTS_MAX} parts, not {len(self.parts)}")

    @classmethod
    def parse(cls, text: str, *kinds: str) -> "Location":
        """Return the location written ``hostC/procB``; *kinds* are those of its parts, as far as they are
        given."""
        ids = text.split("/")
        return cls(
            tuple(
                NameComponent(each, kinds[index] if index < len(kinds) else "")
                for index, each in enumerate(ids)
            )
        )

    def covers(self, other: "Location") -> bool:
        """Whether *other* is here or below here, so that a fault of this whole region is a fault there."""
        own, others = (tuple(part.id for part in each.parts) for each in (self, other))
        return others[: len(own)] == own

    def __str__(self) -> str:
        return "/".join(part.id for part in self.parts)


Value = Simple | tuple[Simple, ...] | Location
"""The values that the source puts into an ``any``."""


class Property(Struct, frozen=True, array_like=True):
    """A name and its value."""

    name: str
    value: Value

    def __post_init__(self) -> None:
        _require_text("a property's name", self.name, NAME_MAX)
        _require_value(self.name, self.value)


class EventType(Struct, frozen=True, array_like=True):
    """The type of an event, such as ``FT_CORBA``, ``ObjectCrashFault``. In a constraint it is a pattern."""

    domain_name: str = ""
    type_name: str = ""

    def __post_init__(self) -> None:
        _require_text("a domain's name", self.domain_name, NAME_MAX)
        _require_text("an event type's name", self.type_name, NAME_MAX)


class FixedEventHeader(Struct, frozen=True, array_like=True):
    event_type: EventType
    event_name: str = ""
    """Distinguishes events of one type; may be empty."""

    def __post_init__(self) -> None:
        _require_text("an event's name", self.event_name, NAME_MAX)


class EventHeader(Struct, frozen=True, array_like=True):
    fixed_header: FixedEventHeader
    variable_header: tuple[Property, ...] = ()
    """Describes the event rather than the fault; may be empty."""

    def __post_init__(self) -> None:
        _require_properties("variable header", self.variable_header)


class StructuredEvent(Struct, frozen=True, array_like=True):
    """One event. The names in its filterable data are distinct."""

    header: EventHeader
    filterable_data: tuple[Property, ...] = ()
    remainder_of_body: Value | None = None
    """A text for people; None is the source's null."""

    def __post_init__(self) -> None:
        _require_properties("filterable data", self.filterable_data)
        if self.remainder_of_body is not None:
            _require_value("remainder_of_body", self.remainder_of_body)

    def value(self, name: str) -> Value | None:
        """Return the value of the filterable property of that name."""
        return find(self.filterable_data, name)


def find(properties: Sequence[Property], name: str) -> Value | None:
    """Return the value of the property of that name, or None if there is none."""
    return next((each.value for each in properties if each.name == name), None)


def _require_properties(where: str, properties: tuple[Property, ...]) -> None:
    if len(properties) > PROPERTIES_MAX:
        raise InvalidEvent(f"{len(properties)} properties in the {where}; at most {PROPERTIES_MAX} are taken")
    names = [each.name for each in properties]
    if len(dict.fromkeys(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise UnsupportedFilterableData(
            f"{twice!r} is twice in the {where}: a filter could not tell which is meant"
        )


def _require_value(name: str, value: object) -> None:
    match value:
        case Location():
            pass
        case tuple():
            if len(value) > ELEMENTS_MAX:
                raise InvalidEvent(f"{name!r} has {len(value)} elements; at most {ELEMENTS_MAX} are taken")
            for each in value:
                _require_simple(name, each)
        case _:
            _require_simple(name, value)


def _require_simple(name: str, value: object) -> None:
    match value:
        case bool():
            pass
        case int():
            if not INTEGER_MIN <= value <= INTEGER_MAX:
                raise UnsupportedFilterableData(f"{name!r} is an integer of more than 64 bits")
        case float():
            if not isfinite(value):
                raise UnsupportedFilterableData(f"{name!r} is {value}, which compares with nothing")
        case str():
            _require_text(f"{name!r}", value, TEXT_MAX)
        case _:
            raise UnsupportedFilterableData(
                f"{name!r} is a {type(value).__name__}, which no filter can look at"
            )


def _require_text(what: str, text: str, letters_max: int) -> None:
    if len(text) > letters_max:
        raise InvalidEvent(f"{what} has {len(text)} letters; at most {letters_max} are taken")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InvalidEvent(f"{what} holds half a character, which cannot be sent")


EVENTS_MAX: Final = 1_024
"""The most events in one batch."""
BATCH_BYTES_MAX: Final = 4 << 20
"""The most bytes of one batch. A longer one is refused before it is decoded."""


class EventsV1(Struct, frozen=True, array_like=True, tag=1):
    """A batch, in the order in which the events are to be told (FTC-249)."""

    events: tuple[StructuredEvent, ...]


_decoder: Final = msgspec.msgpack.Decoder(EventsV1)


def encode_events(events: Sequence[StructuredEvent]) -> bytes:
    """Encode a batch. Raises InvalidEvent if it is larger than a receiver would take."""
    if len(events) > EVENTS_MAX:
        raise InvalidEvent(f"{len(events)} events in one batch; at most {EVENTS_MAX} are taken")
    data = msgspec.msgpack.encode(EventsV1(tuple(events)))
    _require_size(data)
    return data


def decode_events(data: bytes) -> tuple[StructuredEvent, ...]:
    """Decode a batch. Raises InvalidEvent if the bytes are not a batch, or one of a later version."""
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
