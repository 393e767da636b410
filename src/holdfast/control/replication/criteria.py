"""The criteria that factories are given, and how they are checked and combined (FTC-171, 172, 192, 212).

Two names are reserved. ``FTProperties`` is only for the replication manager, which creates groups.
``ObjectLocation`` is for the factory at a location, which creates single objects. All other names belong to
the factory. This module names those of our factories; a factory refuses names it does not know.
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
"""The list of arguments that the object is created with."""
NAME: Final = "name"
"""The name of the object; without it, the manager chooses one."""
OF_GROUPS: Final = (NAME, ARGUMENTS, "min_in_sync", "durability", "on_total_loss")
"""The criteria that the factories of groups and of standalone objects understand."""

Criteria = Mapping[str, Any]


def check_known(criteria: Criteria, known: tuple[str, ...]) -> None:
    """Raise ``InvalidCriteria`` if any criterion is not among *known*."""
    unknown = {name: value for name, value in criteria.items() if name not in known}
    if unknown:
        raise InvalidCriteria(unknown, f"not understood here; these are: {', '.join(known) or 'none'}")


def properties_in(criteria: Criteria) -> dict[str, Any]:
    """Return the properties of the group that *criteria* ask for (FTC-211). Raises ``InvalidCriteria``."""
    found = criteria.get(FT_PROPERTIES, {})
    if not isinstance(found, Mapping):
        raise InvalidCriteria({FT_PROPERTIES: found}, "it must be properties, by name")
    return dict(found)


def check_location(criteria: Criteria, location: str) -> None:
    """Raise ``CannotMeetCriteria`` if *criteria* ask for another location than the factory's (FTC-210)."""
    wanted = criteria.get(OBJECT_LOCATION, location)
    if wanted != location:
        raise CannotMeetCriteria({OBJECT_LOCATION: wanted}, f"this factory makes objects at {location}")


def member_criteria(given: Criteria, effective: Properties, location: str) -> dict[str, Any]:
    """Return the criteria for a member at *location*: those *given*, its location, and those that the group's
    factory property has for that location and that were not given (FTC-192, FTC-212, FTC-235)."""
    factories = (each for each in effective.get(FACTORIES, ()) if is_within(location, each["location"]))
    there: Criteria = next((each["criteria"] for each in factories), {})
    own = {name: value for name, value in given.items() if name != FT_PROPERTIES}
    later = {name: value for name, value in there.items() if name not in own}
    return {**own, OBJECT_LOCATION: location, **later}


def check_factories(explicit: Properties, effective: Properties) -> None:
    """Raise ``InvalidProperty`` if a factory has criteria that no member of such a group can meet."""
    style = Style(effective[REPLICATION_STYLE])
    for each in explicit.get(FACTORIES, ()):
        try:
            check_member(each["criteria"], style, each["location"])
        except InvalidRequest as error:
            raise InvalidProperty(FACTORIES, explicit[FACTORIES], str(error)) from None


def decoded(criteria: str) -> dict[str, Any]:
    """Decode criteria from a JSON object. Raises ``InvalidRequest`` for anything else."""
    try:
        return msgspec.json.decode(criteria, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"criteria are not a JSON object: {error}") from None


def to_keep(criteria: Criteria) -> str:
    """Return the criteria to keep in the group's record, as a JSON object. The location is left out, because
    the record has it anyway."""
    told = {name: value for name, value in criteria.items() if name != OBJECT_LOCATION}
    return msgspec.json.encode(told, order="deterministic").decode()


def check_member(criteria: Criteria, style: Style, location: str) -> None:
    """Raise ``InvalidCriteria`` or ``CannotMeetCriteria`` for criteria that no member of a group can meet."""
    check_known(criteria, (OBJECT_LOCATION, ARGUMENTS))
    check_location(criteria, location)
    if ARGUMENTS not in criteria:
        return
    if not isinstance(criteria[ARGUMENTS], list):
        raise InvalidCriteria({ARGUMENTS: criteria[ARGUMENTS]}, "it must be a list")
    if style is not Style.STATELESS:
        said = f"members of a {style.name.lower()} group are made alike: its state is one"
        raise CannotMeetCriteria({ARGUMENTS: criteria[ARGUMENTS]}, said)
