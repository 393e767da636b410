"""What factories are told: the criteria of the source, and what becomes of them (FTC-171, 172, 192, 212).

Two names are reserved. ``FTProperties`` is for the replication manager alone, which makes groups;
``ObjectLocation`` for the factory at a place, which makes single objects. All others belong to the factory:
ours are named here, and a factory refuses what it does not know.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.model.admin.errors import CannotMeetCriteria, InvalidCriteria
from holdfast.model.errors import InvalidRequest
from holdfast.model.properties import (
    FACTORIES,
    REPLICATION_STYLE,
    InvalidProperty,
    Properties,
    Style,
    is_within,
)

OBJECT_LOCATION: Final = "org.omg.ft.ObjectLocation"
FT_PROPERTIES: Final = "org.omg.ft.FTProperties"

ARGUMENTS: Final = "arguments"
"""What the object is made with, a list."""
NAME: Final = "name"
"""By which it is called; without, the manager gives it one."""
OF_GROUPS: Final = (NAME, ARGUMENTS, "min_in_sync", "durability", "on_total_loss")
"""What the makers of groups and of objects that stand alone understand."""

Criteria = Mapping[str, Any]


def check_known(criteria: Criteria, known: tuple[str, ...]) -> None:
    """Raises ``InvalidCriteria`` for those that are not among *known*."""
    unknown = {name: value for name, value in criteria.items() if name not in known}
    if unknown:
        raise InvalidCriteria(unknown, f"not understood here; these are: {', '.join(known) or 'none'}")


def properties_in(criteria: Criteria) -> dict[str, Any]:
    """The group's properties that *criteria* ask for (FTC-211). Raises ``InvalidCriteria``."""
    found = criteria.get(FT_PROPERTIES, {})
    if not isinstance(found, Mapping):
        raise InvalidCriteria({FT_PROPERTIES: found}, "it must be properties, by name")
    return dict(found)


def check_location(criteria: Criteria, location: str) -> None:
    """Raises ``CannotMeetCriteria`` for a place that is not that of the factory (FTC-210)."""
    wanted = criteria.get(OBJECT_LOCATION, location)
    if wanted != location:
        raise CannotMeetCriteria({OBJECT_LOCATION: wanted}, f"this factory makes objects at {location}")


def member_criteria(given: Criteria, effective: Properties, location: str) -> dict[str, Any]:
    """What the factory at *location* is told for a member: what is *given*, its place, and what the group's
    property has for that place and was not given (FTC-192, FTC-212, FTC-235)."""
    factories = (each for each in effective.get(FACTORIES, ()) if is_within(location, each["location"]))
    there: Criteria = next((each["criteria"] for each in factories), {})
    own = {name: value for name, value in given.items() if name != FT_PROPERTIES}
    later = {name: value for name, value in there.items() if name not in own}
    return {**own, OBJECT_LOCATION: location, **later}


def check_factories(explicit: Properties, effective: Properties) -> None:
    """Raises ``InvalidProperty`` for factories that are told what no member of such a group can be."""
    style = Style(effective[REPLICATION_STYLE])
    for each in explicit.get(FACTORIES, ()):
        try:
            check_member(each["criteria"], style, each["location"])
        except InvalidRequest as error:
            raise InvalidProperty(FACTORIES, explicit[FACTORIES], str(error)) from None


def decoded(criteria: str) -> dict[str, Any]:
    """Of a JSON object. Raises ``InvalidRequest`` for anything else."""
    try:
        return msgspec.json.decode(criteria, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"criteria are not a JSON object: {error}") from None


def to_keep(criteria: Criteria) -> str:
    """What of *criteria* is kept in the group's record, as a JSON object: a member's place is known there."""
    told = {name: value for name, value in criteria.items() if name != OBJECT_LOCATION}
    return msgspec.json.encode(told, order="deterministic").decode()


def check_member(criteria: Criteria, style: Style, location: str) -> None:
    """Raises ``InvalidCriteria`` or ``CannotMeetCriteria`` for what no member of a group can be told."""
    check_known(criteria, (OBJECT_LOCATION, ARGUMENTS))
    check_location(criteria, location)
    if ARGUMENTS not in criteria:
        return
    if not isinstance(criteria[ARGUMENTS], list):
        raise InvalidCriteria({ARGUMENTS: criteria[ARGUMENTS]}, "it must be a list")
    if style is not Style.STATELESS:
        said = f"members of a {style.name.lower()} group are made alike: its state is one"
        raise CannotMeetCriteria({ARGUMENTS: criteria[ARGUMENTS]}, said)
