"""What the manager does about a fault that it is told of (FTC-313, FTC-314).

Failover is the groups' own and waits for nobody's report. But an application's detector may see what the
hosts cannot: an object that answers, and answers nonsense. If that one is primary, another shall lead.
"""

from collections.abc import Container, Mapping
from typing import Final

from holdfast.authority.recipe import Seen
from holdfast.authority.views import View
from holdfast.control.replication.planner import Lead
from holdfast.faults.events import InvalidEvent
from holdfast.faults.reports import FaultKind, FaultReport, Scope
from holdfast.faults.told_events import Told
from holdfast.model.ids import SECOND, GroupId, HostId

NEWS_NS: Final = 30 * SECOND
"""A report that is older says nothing of who is primary now: the manager may not have heard it in time."""
DOUBTS_MAX: Final = 1_000
"""Reports that are heeded at a time. Beyond, the newest are passed over: groups see to themselves."""

Views = Mapping[GroupId, Seen[View]]


class FaultReactions:
    """Reports of primaries that crashed, each until another member leads: whoever is asked to hand over may
    not hear it."""

    def __init__(self) -> None:
        self._told: list[Told] = []

    def add(self, told: Told, now_ns: int, views: Views, living: Container[HostId]) -> Lead | None:
        """What is to be done because of it, if anything is."""
        found = to_lead(told, now_ns, views, living)
        if found is None or len(self._told) >= DOUBTS_MAX:
            return None
        self._told.append(told)
        return found

    def due(self, now_ns: int, views: Views, living: Container[HostId]) -> list[Lead]:
        """What is still to be done."""
        found = {told.number: to_lead(told, now_ns, views, living) for told in self._told}
        self._told = [told for told in self._told if found[told.number] is not None]
        return [lead for lead in found.values() if lead is not None]

    def clear(self) -> None:
        """Somebody else coordinates, and hears what was not acknowledged."""
        self._told.clear()


def to_lead(told: Told, now_ns: int, views: Views, living: Container[HostId]) -> Lead | None:
    """Who shall lead instead of the member that crashed; None when that one is not primary, nobody else can
    be, or it is no report of one member. Nor for what a host has found and answered itself.
    *Without that:* A, primary, says that it is not alive, hands over and is made anew. Soon after B hands
    over to A; the manager, which has just heard of A's crash, has a sound primary hand over."""
    try:
        report = FaultReport.of(told.event)
    except InvalidEvent:
        return None  # an application's own kind of event
    is_crash = report.kind is FaultKind.OBJECT_CRASH and report.scope is Scope.MEMBER
    if not is_crash or report.is_answered or report.group is None or now_ns - told.at_ns > NEWS_NS:
        return None
    seen = views.get(report.group)
    if seen is None or seen.value.primary not in [part.id for part in report.location.parts]:
        return None
    primary = seen.value.primary
    others = [each.host for each in seen.value.members if each.host != primary and each.host in living]
    if not others:
        return None
    return Lead(report.group, others[0], f"its member on {primary} is reported to have crashed")
