"""Fault reports: what went wrong, where, and for which objects; and the structured events that carry them.

Which of TypeId and ObjectGroupId an event has says which objects it is about (FTC-254). With neither it is
about every object at the location, with TypeId alone about every object of that type there, with both about
one member. ``ObjectCrashFault`` is the source's own kind and stays in its domain, ``FT_CORBA``. The other
kinds are ours, in our domain (FTC-257), so a consumer that asks for all of ``FT_CORBA`` gets only what the
source lets it expect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from holdfast.faults.events import (
    EventHeader,
    EventType,
    FixedEventHeader,
    InvalidEvent,
    Location,
    Property,
    Simple,
    StructuredEvent,
)
from holdfast.model.ids import GroupId

SOURCE_DOMAIN: Final = "FT_CORBA"
OWN_DOMAIN: Final = "HOLDFAST"
FT_DOMAIN_ID, LOCATION, TYPE_ID, OBJECT_GROUP_ID = "FTDomainId", "Location", "TypeId", "ObjectGroupId"
IDENTITY: Final = (FT_DOMAIN_ID, LOCATION, TYPE_ID, OBJECT_GROUP_ID)
"""The leading properties of every report, in the order of the source (FTC-251 to 253)."""
WHY_MAX: Final = 1_000
"""The most letters of a detector's explanation. An event can hold more, but not everything that an exception
may quote."""
IS_ANSWERED: Final = "IsAnswered"
"""A property of the variable header, because it describes the report and not the fault."""


class FaultKind(Enum):
    """What went wrong; the value is the event's type name."""

    OBJECT_CRASH = "ObjectCrashFault"
    """Objects crashed: a member, all of a type, or all at a location."""
    HOST_CRASH = "HostCrash"
    """A host's process ended, or was given up."""
    HANG = "Hang"
    """Something exists but does not answer."""
    DIVERGENCE = "Divergence"
    """Replicas that should be equal differ."""
    COMMISSION = "CommissionFault"
    """A member was outvoted: it gave a wrong answer."""
    DAMAGED_STORE = "DamagedStore"
    """Stored bytes are not what was written, or the disk failed."""
    MESSAGE_LOSS = "MessageLoss"
    """Messages of a stream are lost."""
    CLOCK_SKEW = "ClockSkew"
    """A machine's clock is wrong."""
    OTHER_CODE = "OtherCode"
    """A host's class differs from the one that serves its group, or from what its version says."""
    CHECKPOINT_FAILED = "CheckpointFailed"
    """A member's state could not be captured or read back, so its log grows."""
    SERVICE_FAILED = "ServiceFailed"
    """A service of a host, such as shipping, does not run there any more."""
    PEER_REFUSED = "PeerRefused"
    """A master of a directory replicates with another no more, until someone has looked at why."""
    NEEDS_INITIALISATION = "NeedsInitialisation"
    """A replica of a directory lacks changes that are kept nowhere any more."""
    CONFLICT = "Conflict"
    """Masters of a directory did at once what cannot all be; both sides are kept."""
    IN_SYNC_SHRUNK = "InSyncShrunk"
    """A group has fewer in-sync members than before."""
    RECOVERED = "Recovered"
    """A fault that was told before is over."""
    CORRELATED = "Correlated"
    """Several faults that seem to be one: hosts of a region crashed together."""
    REPORTS_LOST = "ReportsLost"
    """A host had more to report than it could keep."""

    @property
    def event_type(self) -> EventType:
        return EventType(SOURCE_DOMAIN if self is FaultKind.OBJECT_CRASH else OWN_DOMAIN, self.value)


DETAILS: Final[Mapping[FaultKind, Mapping[str, type]]] = {
    FaultKind.OBJECT_CRASH: {},
    FaultKind.HOST_CRASH: {"HostId": str, "Incarnation": int, "IsProven": bool},
    FaultKind.HANG: {"HostId": str, "WaitedNs": int},
    FaultKind.DIVERGENCE: {"Position": int},
    FaultKind.COMMISSION: {"Position": int},
    FaultKind.DAMAGED_STORE: {"HostId": str, "StoreId": str, "File": str, "Offset": int},
    FaultKind.MESSAGE_LOSS: {"Stream": str, "FirstLost": int, "LastLost": int},
    FaultKind.CLOCK_SKEW: {"HostId": str, "SkewNs": int},
    FaultKind.OTHER_CODE: {},
    FaultKind.CHECKPOINT_FAILED: {},
    FaultKind.SERVICE_FAILED: {"HostId": str, "Service": str},
    FaultKind.PEER_REFUSED: {"HostId": str, "Peer": str, "Reason": str},
    FaultKind.NEEDS_INITIALISATION: {"HostId": str, "Replica": int},
    FaultKind.CONFLICT: {"HostId": str, "Conflict": str, "Count": int},
    FaultKind.IN_SYNC_SHRUNK: {"Epoch": int, "InSync": int, "MinInSync": int},
    FaultKind.RECOVERED: {"HostId": str, "From": str, "AfterNs": int},
    FaultKind.CORRELATED: {"Hosts": int, "WithinNs": int},
    FaultKind.REPORTS_LOST: {"HostId": str, "Count": int},
}
"""The details that a report of each kind may have, by the names that filters use."""


class Scope(Enum):
    """Which objects a report is about."""

    LOCATION = "all objects at the location"
    TYPE = "all objects of a type at the location"
    MEMBER = "one member"


@dataclass(frozen=True, slots=True)
class FaultReport:
    """One fault. As in the source, a group is named only together with its type."""

    kind: FaultKind
    domain: str
    location: Location
    type_id: str | None = None
    group: GroupId | None = None
    details: Mapping[str, Simple] = field(default_factory=dict)
    """Some of the details that DETAILS lists for the kind."""
    why: str = ""
    """An explanation for people."""
    name: str = ""
    """The name of the event; most have none."""
    is_answered: bool = False
    """Whether the finder has already reacted, so that nobody else need act on this report."""

    def __post_init__(self) -> None:
        if self.group is not None and self.type_id is None:
            raise InvalidEvent(f"a report that names the group {self.group} names its type as well")
        if self.group is not None and self.group < 0:
            raise InvalidEvent(f"{self.group} is no number of a group")
        allowed = DETAILS[self.kind]
        for name, value in self.details.items():
            if name not in allowed:
                offered = ", ".join(allowed) or "none"
                raise InvalidEvent(f"{self.kind.value} has no detail {name!r}; it may have: {offered}")
            if type(value) is not allowed[name]:
                raise InvalidEvent(
                    f"{name} of {self.kind.value} is a {allowed[name].__name__}, not {value!r}"
                )

    @property
    def scope(self) -> Scope:
        if self.type_id is None:
            return Scope.LOCATION
        return Scope.TYPE if self.group is None else Scope.MEMBER

    def to_event(self) -> StructuredEvent:
        """Return the event that carries this report."""
        identity = (self.domain, self.location, self.type_id, self.group)
        data = [
            Property(name, value) for name, value in zip(IDENTITY, identity, strict=True) if value is not None
        ]
        # In the order of the table, so that equal reports have equal bytes.
        data += [Property(name, self.details[name]) for name in DETAILS[self.kind] if name in self.details]
        about = (Property(IS_ANSWERED, True),) if self.is_answered else ()
        header = EventHeader(FixedEventHeader(self.kind.event_type, self.name), about)
        return StructuredEvent(header, tuple(data), self.why or None)

    @classmethod
    def of(cls, event: StructuredEvent) -> "FaultReport":
        """Return the report that the event carries. Raises InvalidEvent if it carries none, like an
        application's own events."""
        fixed = event.header.fixed_header
        kind = _KINDS.get(fixed.event_type)
        if kind is None:
            raise InvalidEvent(
                f"no fault report: {fixed.event_type.domain_name}/{fixed.event_type.type_name}"
            )
        return cls(
            kind,
            _require(event, FT_DOMAIN_ID, str),
            _require(event, LOCATION, Location),
            _optional(event, TYPE_ID, str),
            None if (group := _optional(event, OBJECT_GROUP_ID, int)) is None else GroupId(group),
            {
                name: _require(event, name, of)
                for name, of in DETAILS[kind].items()
                if event.value(name) is not None
            },
            event.remainder_of_body if isinstance(event.remainder_of_body, str) else "",
            fixed.event_name,
            Property(IS_ANSWERED, True) in event.header.variable_header,
        )


T = TypeVar("T")
_KINDS: Final = {kind.event_type: kind for kind in FaultKind}


def _require(event: StructuredEvent, name: str, of: type[T]) -> T:
    value = _optional(event, name, of)
    if value is None:
        raise InvalidEvent(f"a fault report has a {name}")
    return value


def _optional(event: StructuredEvent, name: str, of: type[T]) -> T | None:
    value = event.value(name)
    if value is not None and type(value) is not of:
        raise InvalidEvent(f"{name} of a fault report is a {of.__name__}, not {value!r}")
    return value
