"""Told events: the events of the notifier, numbered in the order in which all consumers get them.

:func:`as_plain` gives their plain form, for readers without these structs: the command line and HTTP.
"""

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from holdfast.faults.events import Location, StructuredEvent, Value
from holdfast.faults.reports import LOCATION, OBJECT_GROUP_ID, TYPE_ID
from holdfast.model.ids import SECOND


class Told(Struct, frozen=True, array_like=True):
    """An event with its number. Numbers begin at 1, have no gaps, and are never reused."""

    number: int
    at_ns: int
    """When the notifier took the event, by its group's time."""
    event: StructuredEvent
    part_of: int = 0
    """The number of the event about the whole that this is a part of; 0 if it is none."""


class Gap(Struct, frozen=True, array_like=True):
    """The numbers of events that were asked for too late: the notifier no longer has them."""

    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class Page(Struct, frozen=True):
    """Some of the events that a reader wants, in their order."""

    events: tuple[Told, ...]
    reached: int
    """The number up to which events were looked at; the next page is read after it."""
    newest: int
    """The last number given so far."""
    gap: Gap | None = None
    """The requested events before the first of this page that are gone, if any."""


def as_plain(news: Told | Gap) -> dict[str, Any]:
    """Return the JSON form. It is a public interface and changes only by additions."""
    if isinstance(news, Gap):
        return {"gap": {"first": news.first, "last": news.last, "count": news.count}}
    event, fixed = news.event, news.event.header.fixed_header
    return {
        "number": news.number,
        "at": at_of(news),
        "at_ns": news.at_ns,
        "domain_name": fixed.event_type.domain_name,
        "type_name": fixed.event_type.type_name,
        "event_name": fixed.event_name,
        "marks": {each.name: _plain(each.value) for each in event.header.variable_header},
        "data": {each.name: _plain(each.value) for each in event.filterable_data},
        "why": None if event.remainder_of_body is None else _plain(event.remainder_of_body),
        "part_of": news.part_of or None,
    }


def at_of(told: Told) -> str:
    """Return when the notifier took the event, by its group's time."""
    return datetime.fromtimestamp(told.at_ns / SECOND, UTC).isoformat(timespec="milliseconds")


def where_of(event: StructuredEvent) -> str:
    """Return in a few words what the event is about."""
    location, type_id, group = (event.value(name) for name in (LOCATION, TYPE_ID, OBJECT_GROUP_ID))
    parts = [
        str(location) if location is not None else "",
        str(type_id or ""),
        "" if group is None else f"group {group}",
    ]
    return " ".join(each for each in parts if each)


def _plain(value: Value) -> Any:
    return str(value) if isinstance(value, Location) else value
