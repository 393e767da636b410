"""Fault tolerance properties: their names, values, and where each may be set (FTC sections K and N). Beside
those of the source stand Holdfast's own options of a group (:mod:`.group_options`).

A property may be set as the domain's default, for a type, at a group's creation, and while the group runs;
each later level takes precedence over the earlier ones (FTC-167). Times are in units of 100 ns, as in the
source.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from holdfast.model.errors import InvalidRequest
from holdfast.model.group_options import BY_NAME, OPTIONS
from holdfast.model.group_options import PREFIX as OWN_PREFIX
from holdfast.model.reference import MEMBERS_MAX

Properties: TypeAlias = Mapping[str, Any]
"""Names to values, in the form that JSON uses."""

PREFIX: Final = "org.omg.ft."
COUNT_MAX: Final = 2**16 - 1
TIME_MAX: Final = 2**64 - 1
LOCATION_PARTS_MAX: Final = 16
FACTORIES_MAX: Final = 1_000
TEXT_MAX: Final = 256


class Style(enum.IntEnum):
    """Which members execute a group's operations (FTC-125)."""

    STATELESS = 0
    COLD_PASSIVE = 1
    WARM_PASSIVE = 2
    ACTIVE = 3
    ACTIVE_WITH_VOTING = 4


class MembershipStyle(enum.IntEnum):
    """Who maintains the number of members: the application or the infrastructure (FTC-132)."""

    MEMB_APP_CTRL = 0
    MEMB_INF_CTRL = 1


class ConsistencyStyle(enum.IntEnum):
    """Who logs, checkpoints and recovers: the application or the infrastructure (FTC-136)."""

    CONS_APP_CTRL = 0
    CONS_INF_CTRL = 1


class MonitoringStyle(enum.IntEnum):
    """How members are monitored (FTC-141)."""

    PULL = 0
    PUSH = 1
    NOT_MONITORED = 2


class MonitoringGranularity(enum.IntEnum):
    """Which members are monitored (FTC-143)."""

    MEMB = 0
    LOC = 1
    LOC_AND_TYPE = 2


class Level(enum.IntEnum):
    """The level at which a property is set; a higher one takes precedence."""

    DEFAULT = 0
    TYPE = 1
    CREATION = 2
    DYNAMIC = 3


class _OfOneProperty(InvalidRequest):
    def __init__(self, name: str, value: object, why: str) -> None:
        super().__init__(f"{name} = {value!r}: {why}")
        self.name = name
        self.value = value

    @property
    def about(self) -> dict[str, Any]:
        return {"nam": full_name(self.name), "val": self.value}


class UnsupportedProperty(_OfOneProperty):
    """Raised when the standard has a property, or a value, that is not available here (FTC-174)."""

    code = "unsupported_property"
    exception = "UnsupportedProperty"


class InvalidProperty(_OfOneProperty):
    """Raised when a value is wrong in itself, at this level, or beside another (FTC-166, FTC-175)."""

    code = "invalid_property"
    exception = "InvalidProperty"


Kind = Callable[[str, Any], Any]
"""Checks a value and returns its plain form; raises :class:`InvalidProperty` or :class:`UnsupportedProperty`.
"""


@dataclass(frozen=True, slots=True)
class Specified:
    """One property that the source specifies."""

    name: str
    kind: Kind
    levels: tuple[Level, ...]


def one_of(values: type[enum.IntEnum], *unsupported: enum.IntEnum) -> Kind:
    """A check for a number of *values*, or its name in upper or lower case, which becomes the number."""

    def check(name: str, value: Any) -> int:
        known = ", ".join(f"{each.name} ({each.value})" for each in values)
        if isinstance(value, str) and value.upper() in values.__members__:
            value = values[value.upper()].value
        if isinstance(value, bool) or not isinstance(value, int) or value not in values._value2member_map_:
            raise InvalidProperty(name, value, f"it must be one of {known}")
        if values(value) in unsupported:
            raise UnsupportedProperty(name, value, f"{values(value).name} is not supported yet")
        return value

    return check


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidProperty(name, value, f"it must be a whole number from {least} to {most}")
    return value


def _count(name: str, value: Any) -> int:
    count = _whole(name, value, 1, COUNT_MAX)
    if count > MEMBERS_MAX:
        raise UnsupportedProperty(name, value, f"no group has more than {MEMBERS_MAX} members")
    return count


def _time(name: str, value: Any) -> int:
    return _whole(name, value, 1, TIME_MAX)


def _interval_and_timeout(name: str, value: Any) -> dict[str, int]:
    """Check an interval with a timeout (FTC-151); a single number stands for both."""
    if isinstance(value, int):
        value = {"monitoring_interval": value, "timeout": value}
    if not isinstance(value, Mapping) or set(value) != {"monitoring_interval", "timeout"}:
        raise InvalidProperty(name, value, "it must have monitoring_interval and timeout")
    return {part: _time(f"{name}.{part}", value[part]) for part in ("monitoring_interval", "timeout")}


def _factories(name: str, value: Any) -> list[dict[str, Any]]:
    """Check the places where members may be created, each with its criteria (FTC-169). Of the source's three
    parts the factory itself cannot be named: every host is the factory of its location."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or len(value) > FACTORIES_MAX:
        raise InvalidProperty(name, value, f"it must be a list of at most {FACTORIES_MAX} factories")
    found = [_factory(name, each) for each in value]
    places = [each["location"] for each in found]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        raise InvalidProperty(name, value, f"location {twice!r} is named twice")
    return found


def _factory(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not {"location"} <= set(value) <= {"location", "criteria"}:
        said = "it has a location and may have criteria: the factory there is the host itself"
        raise InvalidProperty(name, value, said)
    location, criteria = value["location"], value.get("criteria", {})
    if not is_location(location):
        raise InvalidProperty(
            name, value, "a location is written rack1/host2: 1 to 16 parts of 1 to 256 letters"
        )
    if not isinstance(criteria, Mapping) or not all(isinstance(each, str) for each in criteria):
        raise InvalidProperty(name, value, "criteria are names with values")
    return {"location": location, "criteria": dict(criteria)}


def _places(name: str, value: Any) -> dict[str, list[str]]:
    """Check the hosts that are named for a group, and which of their members never lead (W2, W3). Without
    hosts, none are named."""
    if not isinstance(value, Mapping) or not set(value) <= {"hosts", "never_lead"}:
        raise InvalidProperty(name, value, "it has hosts, and may have never_lead, which are some of them")
    hosts, never_lead = _names(name, value, "hosts"), _names(name, value, "never_lead")
    strange = next((each for each in never_lead if each not in hosts), None)
    if strange is not None:
        raise InvalidProperty(name, value, f"{strange!r} is to have a member that never leads, and no member")
    if hosts and len(never_lead) == len(hosts):
        raise InvalidProperty(name, value, "one of its members must be able to lead")
    return {"hosts": hosts, "never_lead": never_lead}


def _names(name: str, value: Properties, part: str) -> list[str]:
    found = value.get(part, ())
    is_list = isinstance(found, Sequence) and not isinstance(found, str | bytes)
    if not is_list or len(found) > FACTORIES_MAX or not all(map(_is_name, found)):
        raise InvalidProperty(name, value, f"{part} must be a list of at most {FACTORIES_MAX} names of hosts")
    if len(set(found)) < len(found):
        raise InvalidProperty(name, value, f"{part} names a host twice")
    return list(found)


def _is_name(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= TEXT_MAX


def _option(name: str, value: Any) -> int:
    """Check an option of Holdfast's own."""
    return _whole(name, value, BY_NAME[name].least, BY_NAME[name].most)


def is_location(text: object) -> bool:
    """Whether *text* names a fault region, from the widest part to the narrowest (FTC-170)."""
    if not isinstance(text, str):
        return False
    parts = text.split("/")
    return len(parts) <= LOCATION_PARTS_MAX and all(0 < len(part) <= TEXT_MAX for part in parts)


def is_within(location: str, region: str) -> bool:
    """Whether *location* is *region* or lies within it."""
    return location == region or location.startswith(f"{region}/")


_ALL: Final = (Level.DEFAULT, Level.TYPE, Level.CREATION, Level.DYNAMIC)
_NOT_DYNAMIC: Final = (Level.DEFAULT, Level.TYPE, Level.CREATION)
_BY_TYPE: Final = (Level.DEFAULT, Level.TYPE)
_OF_A_GROUP: Final = (Level.CREATION, Level.DYNAMIC)
_NO_DEFAULT: Final = (Level.TYPE, Level.CREATION, Level.DYNAMIC)

REPLICATION_STYLE: Final = f"{PREFIX}ReplicationStyle"
MEMBERSHIP_STYLE: Final = f"{PREFIX}MembershipStyle"
CONSISTENCY_STYLE: Final = f"{PREFIX}ConsistencyStyle"
MONITORING_STYLE: Final = f"{PREFIX}FaultMonitoringStyle"
MONITORING_GRANULARITY: Final = f"{PREFIX}FaultMonitoringGranularity"
FACTORIES: Final = f"{PREFIX}Factories"
INITIAL_NUMBER: Final = f"{PREFIX}InitialNumberReplicas"
MINIMUM_NUMBER: Final = f"{PREFIX}MinimumNumberReplicas"
MONITORING_INTERVAL: Final = f"{PREFIX}FaultMonitoringIntervalAndTimeout"
CHECKPOINT_INTERVAL: Final = f"{PREFIX}CheckpointInterval"

PLACES: Final = f"{OWN_PREFIX}Places"

OF_HOSTS: Final = (CHECKPOINT_INTERVAL, MONITORING_GRANULARITY, MONITORING_INTERVAL, *BY_NAME)
"""The properties that take effect on the members' hosts; the manager handles all others."""

LOG_BYTES_MAX: Final = f"{OWN_PREFIX}LogBytesMax"
CHECKPOINT_BYTES: Final = f"{OWN_PREFIX}CheckpointBytes"
LOG_CHECKPOINTS: Final = 5
"""The log is cut after the second checkpoint, and what leads to the next must fit too."""

ALIASES: Final = {f"{PREFIX}FaultMonitoringInterval": MONITORING_INTERVAL}

SPECIFIED: Final = {
    each.name: each
    for each in (
        # Table 27-2 of the source, row by row (FTC-156 to FTC-165).
        Specified(REPLICATION_STYLE, one_of(Style, Style.ACTIVE_WITH_VOTING), _NOT_DYNAMIC),
        Specified(MEMBERSHIP_STYLE, one_of(MembershipStyle), _NOT_DYNAMIC),
        Specified(CONSISTENCY_STYLE, one_of(ConsistencyStyle), _BY_TYPE),
        Specified(MONITORING_STYLE, one_of(MonitoringStyle, MonitoringStyle.PUSH), _BY_TYPE),
        Specified(MONITORING_GRANULARITY, one_of(MonitoringGranularity), _ALL),
        Specified(FACTORIES, _factories, _NO_DEFAULT),
        Specified(INITIAL_NUMBER, _count, _NOT_DYNAMIC),
        Specified(MINIMUM_NUMBER, _count, _ALL),
        Specified(MONITORING_INTERVAL, _interval_and_timeout, _ALL),
        Specified(CHECKPOINT_INTERVAL, _time, _ALL),
        Specified(PLACES, _places, _OF_A_GROUP),
        *(Specified(each.property_name, _option, _ALL) for each in OPTIONS),
    )
}

BUILT_IN: Final[Properties] = {
    REPLICATION_STYLE: Style.WARM_PASSIVE.value,
    MEMBERSHIP_STYLE: MembershipStyle.MEMB_INF_CTRL.value,
    CONSISTENCY_STYLE: ConsistencyStyle.CONS_INF_CTRL.value,
    MONITORING_STYLE: MonitoringStyle.PULL.value,
    MONITORING_GRANULARITY: MonitoringGranularity.MEMB.value,
    INITIAL_NUMBER: 3,
    MINIMUM_NUMBER: 2,
}
"""The values that apply where nobody has set anything."""


def checked(properties: Properties, level: Level) -> dict[str, Any]:
    """The plain form of *properties*, if each may be set at *level*; otherwise raises for the first that is
    wrong.

    Names may be written without their prefix.
    """
    found: dict[str, Any] = {}
    for given, value in properties.items():
        name = full_name(given)
        specified = SPECIFIED.get(name)
        if specified is None:
            known = ", ".join(each.rpartition(".")[2] for each in SPECIFIED)
            raise UnsupportedProperty(given, value, f"there is no such property; there are: {known}")
        if level not in specified.levels:
            where = ", ".join(each.name.lower() for each in specified.levels)
            raise InvalidProperty(given, value, f"it can be set only at: {where}")
        found[name] = specified.kind(name, value)
    return found


def full_name(name: str) -> str:
    if name in BY_NAME or f"{OWN_PREFIX}{name}" in BY_NAME:
        return name if name in BY_NAME else f"{OWN_PREFIX}{name}"
    prefixed = name if name.startswith((PREFIX, OWN_PREFIX)) else PREFIX + name
    return ALIASES.get(prefixed, prefixed)


def merged(*levels: Properties) -> dict[str, Any]:
    """The values in effect, given *levels* from the weakest to the strongest (FTC-167, FTC-190)."""
    found: dict[str, Any] = dict(BUILT_IN)
    for level in levels:
        found.update(level)
    if not any(MINIMUM_NUMBER in level for level in levels):
        # A group that was created with one member on purpose does not lack a second.
        found[MINIMUM_NUMBER] = min(found[MINIMUM_NUMBER], found[INITIAL_NUMBER])
    return found


def check_together(explicit: Properties, effective: Properties) -> None:
    """Raise :class:`InvalidProperty` for values that exclude each other (FTC-153).

    *explicit* is what somebody asked for, and only that can be at fault; *effective* is everything in effect
    with it.
    """
    check_dynamic(explicit, effective)
    least, first = effective[MINIMUM_NUMBER], effective[INITIAL_NUMBER]
    if least > first and (MINIMUM_NUMBER in explicit or INITIAL_NUMBER in explicit):
        name = MINIMUM_NUMBER if MINIMUM_NUMBER in explicit else INITIAL_NUMBER
        raise InvalidProperty(name, explicit[name], f"{least} replicas at least, but only {first} at first")


def check_dynamic(explicit: Properties, effective: Properties) -> None:
    """Check the values for a running group, which may be kept larger than it was created."""
    style = Style(effective[REPLICATION_STYLE])
    if CHECKPOINT_INTERVAL in explicit:
        interval = explicit[CHECKPOINT_INTERVAL]
        if style is Style.STATELESS:
            raise InvalidProperty(
                CHECKPOINT_INTERVAL, interval, "a stateless group has no state to checkpoint"
            )
        if effective[CONSISTENCY_STYLE] == ConsistencyStyle.CONS_APP_CTRL:
            raise InvalidProperty(
                CHECKPOINT_INTERVAL, interval, "with CONS_APP_CTRL the application checkpoints"
            )
    most, due = effective.get(LOG_BYTES_MAX), effective.get(CHECKPOINT_BYTES)
    asked = next((name for name in (LOG_BYTES_MAX, CHECKPOINT_BYTES) if name in explicit), None)
    if asked is not None and most is not None and due is not None and most < LOG_CHECKPOINTS * due:
        said = f"the log must hold {LOG_CHECKPOINTS} times CheckpointBytes: LogBytesMax is {most}"
        raise InvalidProperty(asked, explicit[asked], f"{said}, CheckpointBytes {due}")


def without(own: Properties, unwanted: Properties) -> dict[str, Any]:
    """*own* without the properties named in *unwanted*, each with its expected value, or None for any value.

    Raises :class:`UnsupportedProperty` for an unknown name, :class:`InvalidProperty` for a property that is
    not set here, or not to that value.
    """
    left = dict(own)
    for given, value in unwanted.items():
        name = full_name(given)
        specified = SPECIFIED.get(name)
        if specified is None:
            raise UnsupportedProperty(given, value, "there is no such property")
        if name not in left:
            raise InvalidProperty(given, value, "it is not set here")
        if value is not None and specified.kind(name, value) != left[name]:
            raise InvalidProperty(given, value, f"it is set to {left[name]!r}")
        del left[name]
    return left
