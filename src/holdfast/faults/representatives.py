"""Decides which members are asked whether they are alive, and whom each represents (FTC-143 to FTC-147).

With MEMB every member is asked. With LOC a member is asked only if no other object of its location is;
otherwise that object *represents* it, and a fault of the representative is a fault of all. With LOC_AND_TYPE
the same holds among the objects of one type. A representative keeps its role as long as it is there; when it
leaves without a fault, another is chosen. A host is a location of its own, so each host decides this by
itself.
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
    """About how often the member is asked (FTC-246)."""
    timeout_ns: int
    """How long the member has to answer."""
    granularity: MonitoringGranularity = MonitoringGranularity.MEMB


@dataclass(frozen=True, slots=True)
class Representation:
    """Which members are asked, and for whom."""

    asked: Mapping[GroupId, Monitored] = field(default_factory=dict)
    scopes: Mapping[GroupId, Scope] = field(default_factory=dict)
    """What a fault of each asked member is about: itself, all objects of its type here, or all objects
    here."""


def represent(members: Iterable[Monitored], before: Representation) -> Representation:
    """Choose which of *members* are asked. Those asked *before* come first, so that they stay."""
    in_order = sorted(members, key=lambda each: (not _is_single(each), each.group not in before.asked))
    asked: dict[GroupId, Monitored] = {}
    scopes: dict[GroupId, Scope] = {}
    first_of: dict[str, GroupId] = {}
    """The first asked member of each type, and of all."""
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
"""Stands for all types; a type's name is never empty."""
_WIDTH: Final = (Scope.MEMBER, Scope.TYPE, Scope.LOCATION)
_SCOPES: Final = {
    MonitoringGranularity.MEMB: Scope.MEMBER,
    MonitoringGranularity.LOC_AND_TYPE: Scope.TYPE,
    MonitoringGranularity.LOC: Scope.LOCATION,
}


def _is_single(member: Monitored) -> bool:
    return member.granularity is MonitoringGranularity.MEMB


def _among(member: Monitored) -> str:
    """Return among which objects another may represent the member: those of its type, or all."""
    return member.type_id if member.granularity is MonitoringGranularity.LOC_AND_TYPE else _ALL
