"""Which members are asked whether they are alive, and for whom each stands (FTC-143 to FTC-147).

With MEMB every member is asked. With LOC a member is asked only if no other object of its location is: else
that one *represents* it, and a fault of the representative is a fault of all. With LOC_AND_TYPE the same
holds among the objects of one type. Who represents stays as long as it is there; when it goes without a
fault, another is chosen. A host is a location of its own, so all that is decided here is decided on one host.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast.faults.reports import Scope
from holdfast.model.ids import GroupId
from holdfast.model.properties import MonitoringGranularity


@dataclass(frozen=True, slots=True)
class Monitored:
    """A member that shall be monitored, and how."""

    group: GroupId
    type_id: str
    interval_ns: int
    """About how often it is asked (FTC-246)."""
    timeout_ns: int
    """By when it must have answered."""
    granularity: MonitoringGranularity = MonitoringGranularity.MEMB


@dataclass(frozen=True, slots=True)
class Representation:
    """Who is asked, and for whom."""

    asked: Mapping[GroupId, Monitored] = field(default_factory=dict)
    scopes: Mapping[GroupId, Scope] = field(default_factory=dict)
    """Whom a fault of each of them is about: itself, all of its type here, or all that is here."""


def represent(members: Iterable[Monitored], before: Representation) -> Representation:
    """Choose who is asked among *members*; who was asked *before* comes first, so that it stays."""
    in_order = sorted(members, key=lambda each: (not _is_single(each), each.group not in before.asked))
    asked: dict[GroupId, Monitored] = {}
    scopes: dict[GroupId, Scope] = {}
    first_of: dict[str, GroupId] = {}
    """Who is asked and came first: of each type, and of all."""
    for each in in_order:
        stands_for_it = None if _is_single(each) else first_of.get(_among(each))
        group = each.group if stands_for_it is None else stands_for_it
        if stands_for_it is None:
            asked[group] = each
            first_of.setdefault(each.type_id, group)
            first_of.setdefault(_ALL, group)
        scopes[group] = max(scopes.get(group, Scope.MEMBER), _SCOPES[each.granularity], key=_WIDTH.index)
    return Representation(asked, scopes)


_ALL: Final = ""
"""In the place of a type's name, which is never empty."""
_WIDTH: Final = (Scope.MEMBER, Scope.TYPE, Scope.LOCATION)
_SCOPES: Final = {
    MonitoringGranularity.MEMB: Scope.MEMBER,
    MonitoringGranularity.LOC_AND_TYPE: Scope.TYPE,
    MonitoringGranularity.LOC: Scope.LOCATION,
}


def _is_single(member: Monitored) -> bool:
    return member.granularity is MonitoringGranularity.MEMB


def _among(member: Monitored) -> str:
    """Among which objects somebody may stand for it."""
    return member.type_id if member.granularity is MonitoringGranularity.LOC_AND_TYPE else _ALL
