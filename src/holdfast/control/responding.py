"""What the manager does about a fault that it is told of (FTC-313, FTC-314).

Failover is the groups' own and waits for nobody's report. But an application's detector may see what the
hosts cannot: an object that answers, and answers nonsense. If that one is primary, another shall lead.
"""

from collections.abc import Container, Mapping
from typing import Final

from holdfast.authority.outcome import Seen
from holdfast.authority.views import View
from holdfast.control.planning import Lead
from holdfast.faults.events import InvalidEvent
from holdfast.faults.reports import FaultKind, FaultReport, Scope
from holdfast.faults.told import Told
from holdfast.model.ids import GroupId, HostId
from holdfast.model.units import SECOND

NEWS_NS: Final = 30 * SECOND
"""A report that is older says nothing of who is primary now: the manager may not have heard it in time."""


def to_lead(
    told: Told, now_ns: int, views: Mapping[GroupId, Seen[View]], living: Container[HostId]
) -> Lead | None:
    """Who shall lead instead of the member that crashed; None when that one is not primary, nobody else can
    be, or it is no report of one member."""
    try:
        report = FaultReport.of(told.event)
    except InvalidEvent:
        return None  # an application's own kind of event
    is_crash = report.kind is FaultKind.OBJECT_CRASH and report.scope is Scope.MEMBER
    if not is_crash or report.group is None or now_ns - told.at_ns > NEWS_NS:
        return None
    seen = views.get(report.group)
    if seen is None or seen.value.primary not in [part.id for part in report.location.parts]:
        return None
    primary = seen.value.primary
    others = [each.host for each in seen.value.members if each.host != primary and each.host in living]
    if not others:
        return None
    return Lead(report.group, others[0], f"its member on {primary} is reported to have crashed")
