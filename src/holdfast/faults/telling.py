"""Told events in plain form, for people and machines that have no structs: the command line, HTTP."""

from datetime import UTC, datetime
from typing import Any

from holdfast.faults.events import Location, StructuredEvent, Value
from holdfast.faults.reports import LOCATION, OBJECT_GROUP_ID, TYPE_ID
from holdfast.faults.told import Gap, Told
from holdfast.model.units import SECOND


def as_plain(news: Told | Gap) -> dict[str, Any]:
    """What JSON can say. An interface: it changes only by adding."""
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
    """When the notifier took it, by its group's time."""
    return datetime.fromtimestamp(told.at_ns / SECOND, UTC).isoformat(timespec="milliseconds")


def where_of(event: StructuredEvent) -> str:
    """Whom it is about, in a few words."""
    location, type_id, group = (event.value(name) for name in (LOCATION, TYPE_ID, OBJECT_GROUP_ID))
    parts = [
        str(location) if location is not None else "",
        str(type_id or ""),
        "" if group is None else f"group {group}",
    ]
    return " ".join(each for each in parts if each)


def _plain(value: Value) -> Any:
    return str(value) if isinstance(value, Location) else value
