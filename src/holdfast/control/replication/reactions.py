"""The manager's reactions to reported faults (FTC-313, FTC-314).

Groups fail over by themselves and wait for nobody's report. But a detector of the application may notice what
the hosts cannot: an object that answers, but with nonsense. If such an object is primary, another member
shall lead.
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
"""The age beyond which a report is ignored: it says nothing about who is primary now, and may have arrived
late."""
DOUBTS_MAX: Final = 1_000
"""How many reports are handled at a time. Further ones are ignored, because groups take care of
themselves."""

Views = Mapping[GroupId, Seen[View]]


class FaultReactions:
    """The reports of crashed primaries. Each is kept until another member leads, because the member that is
    asked to hand over may not get the message."""

    def __init__(self) -> None:
        self._told: list[Told] = []

    def add(self, told: Told, now_ns: int, views: Views, living: Container[HostId]) -> Lead | None:
        """Add a report, and return the action that it requires, if any."""
        found = to_lead(told, now_ns, views, living)
        if found is None or len(self._told) >= DOUBTS_MAX:
            return None
        self._told.append(told)
        return found

    def due(self, now_ns: int, views: Views, living: Container[HostId]) -> list[Lead]:
        """Return the actions that are still required."""
        found = {told.number: to_lead(told, now_ns, views, living) for told in self._told}
        self._told = [told for told in self._told if found[told.number] is not None]
        return [lead for lead in found.values() if lead is not None]

    def clear(self) -> None:
        """Forget all reports, because another host coordinates and gets those that were not acknowledged."""
        self._told.clear()


def to_lead(told: Told, now_ns: int, views: Views, living: Container[HostId]) -> Lead | None:
    """Return who shall lead instead of the crashed member. Returns None if that member is not primary, if no
    other member can lead, if the report is not about one member, or if a host found the fault and has already
    reacted. *Without that:* A, the primary, reports that it is not alive, hands over and gets a new object.
    Soon after, B hands over to A. The manager, which has just heard of A's crash, makes a healthy primary
    hand over."""
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
