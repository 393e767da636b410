"""What detectors find, as reports (FTC-250 to FTC-254).

A member that is faulty is an ``ObjectCrashFault``, the only kind that consumers of the source's own domain
know, however it was found out; its group goes on without it, whether anybody hears of that or not. One that
does not answer is told as a ``Hang`` as well, with how long it was waited for. Whom a report is about follows
from whom the member stands for.
"""

from holdfast.faults.events import Location, Simple
from holdfast.faults.monitoring import Relief, Suspicion
from holdfast.faults.reports import WHY_MAX, FaultKind, FaultReport, Scope
from holdfast.model.ids import HostId


def reports_of(
    suspicion: Suspicion, *, domain: str, location: Location, host: HostId
) -> tuple[FaultReport, ...]:
    """What is told of a member that was found faulty on *host*."""
    type_id = suspicion.type_id if suspicion.scope is not Scope.LOCATION else None
    group = suspicion.group if suspicion.scope is Scope.MEMBER else None
    why = suspicion.why[:WHY_MAX]
    crash = FaultReport(FaultKind.OBJECT_CRASH, domain, location, type_id, group, {}, why, is_answered=True)
    if not suspicion.is_hang:
        return (crash,)
    details: dict[str, Simple] = {"HostId": str(host), "WaitedNs": suspicion.waited_ns}
    return (crash, FaultReport(FaultKind.HANG, domain, location, type_id, group, details, why))


def report_of(relief: Relief, *, domain: str, location: Location, host: HostId) -> FaultReport:
    """What is told when it answers again."""
    kind = FaultKind.OBJECT_CRASH.value
    details: dict[str, Simple] = {"HostId": str(host), "From": kind, "AfterNs": relief.after_ns}
    return FaultReport(FaultKind.RECOVERED, domain, location, relief.type_id, relief.group, details)
