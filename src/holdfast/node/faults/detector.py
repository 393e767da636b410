"""Turns what this host observes anyway into fault reports (FTC 27.4.2).

:class:`FaultDetector` reports deaths of processes, lost sessions, views that lose a member, and objects
that fail. Every host sees a death, but only the few hosts that run the notifier's members report it, and
all under the same key, so that it counts as one event. A fault of a single group is reported by one host:
its primary's, or the host of the faulty member.

:class:`DetectorReports` reports what monitoring finds about members. Members are monitored on their own
host (:mod:`holdfast.groups.liveness_checks`). A host whose loop hangs cannot report anything: it ends
itself, its agent proves the death, and every other host files the same report, which counts once.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from holdfast.admin.snapshot import fault_location, location_known, location_of
from holdfast.authority.sessions import Session
from holdfast.authority.views import View, Why
from holdfast.faults.backlog import Reports
from holdfast.faults.events import Location, Simple
from holdfast.faults.monitor import Relief, Suspicion, report_of, reports_of
from holdfast.faults.reports import WHY_MAX, FaultKind, FaultReport
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.ids import SECOND, GroupId, HostId, Incarnation
from holdfast.model.ports import Clock
from holdfast.model.system_groups import NOTIFIER
from holdfast.node.messages import HostDied

REPORTERS: Final = 3
"""How many hosts report a death while there is no notifier, so that it does not depend on one of them."""
MEMBERS_TOLD_MAX: Final = 2_000
"""How many members of a dead host are reported individually; the report of its death covers the rest."""
MEMBERS_S: Final = 1.0
"""How long after a host's death its members are reported."""
MEMBERS_AT_ONCE: Final = 100
PROCESSES_KEPT: Final = 4_096
UNPROVEN_S: Final = 2.0
"""How long a host whose session ended may take to be proven dead or to come back."""
VIEW_NEWS_NS: Final = 60 * SECOND
"""A host that has just begun to follow the views ignores those that were written longer ago than this."""
SKEW_NS_MAX: Final = 10**18
"""About thirty years; a larger clock skew is reported as this."""
LOSSES: Final = (Why.DEAD, Why.SILENT, Why.DROPPED)
FAULTS: Final = {
    "divergence": FaultKind.DIVERGENCE,
    "checkpoint_failed": FaultKind.CHECKPOINT_FAILED,
    "object_failed": FaultKind.OBJECT_CRASH,
    "other_code": FaultKind.OTHER_CODE,
    "send_failed": FaultKind.MESSAGE_LOSS,
    "message_loss": FaultKind.MESSAGE_LOSS,
}
"""Maps the styles' names for an object's faults to the kinds used in reports."""


class FaultDetector:
    """Reports the faults that one host observes.

    *is_heard* says whether a host's heartbeats arrive. *later* calls a function after so many seconds.
    """

    def __init__(
        self,
        me: HostId,
        domain: str,
        catalog: GroupCatalog,
        reports: Reports,
        clock: Clock,
        *,
        is_heard: Callable[[HostId], bool],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._me = me
        self._domain = domain
        self._catalog = catalog
        self._reports = reports
        self._clock = clock
        self._is_heard = is_heard
        self._later = later
        self._seen: dict[tuple[HostId, Incarnation], Session] = {}
        """Processes that were lately in session."""
        self._ended: dict[tuple[HostId, Incarnation], int] = {}
        """Processes that are known to have ended, and when this host learnt it."""
        self._last_ended: dict[HostId, Incarnation] = {}
        self._crashed: dict[HostId, Incarnation] = {}
        """For each host, the process whose crash was reported, until its recovery is reported."""
        self._skewed_at = 0

    # --- processes

    def on_died(self, died: HostDied) -> None:
        """Handle an agent's proof that a process has died."""
        self._end(died.host, died.incarnation)
        if died.is_damaged and self._me in self._reporters(died.host):
            self._report(
                FaultKind.DAMAGED_STORE,
                self._location(died.host),
                details={"HostId": died.host},
                why=f"{died.host} {died.how}",
                once=f"{died.host}/{died.incarnation}/damage",
            )
        if died.is_crash:
            self._report_crash(died.host, died.incarnation, is_proven=True, why=f"{died.host} {died.how}")
        session = self._catalog.sessions.get(died.host)
        if session is not None and session.incarnation > died.incarnation:
            self._report_back(session)  # the next process opened its session before the proof arrived

    def on_sessions(self, sessions: Mapping[HostId, Session]) -> None:
        """Handle a change of the hosts that are in session."""
        for host, session in sessions.items():
            self._seen[host, session.incarnation] = session
            self._report_back(session)
        for (host, incarnation), session in list(self._seen.items()):
            if sessions.get(host) == session or (host, incarnation) in self._ended:
                continue
            if not self._is_heard(host):
                # Its agent may be about to prove the death, or may have told us of an orderly end.
                self._later(UNPROVEN_S, partial(self._miss, host, incarnation))
        while len(self._seen) > PROCESSES_KEPT:
            del self._seen[next(iter(self._seen))]

    def _miss(self, host: HostId, incarnation: Incarnation) -> None:
        session = self._catalog.sessions.get(host)
        if (host, incarnation) in self._ended or (session is not None and session.incarnation == incarnation):
            return
        self._end(host, incarnation)
        self._report_crash(host, incarnation, is_proven=False, why=f"{host} is silent, and out of session")
        if session is not None:
            self._report_back(session)

    def _end(self, host: HostId, incarnation: Incarnation) -> None:
        self._ended[host, incarnation] = self._clock.now()
        self._last_ended[host] = incarnation
        while len(self._ended) > PROCESSES_KEPT:
            del self._ended[next(iter(self._ended))]

    def _report_crash(self, host: HostId, incarnation: Incarnation, *, is_proven: bool, why: str) -> None:
        self._crashed[host] = incarnation
        reporters = self._reporters(host)
        if self._me not in reporters:
            return
        key = _process(host, incarnation)
        details: dict[str, Simple] = {"HostId": host, "Incarnation": incarnation, "IsProven": is_proven}
        location = self._location(host)
        self._report(FaultKind.HOST_CRASH, location, details=details, why=why, name=key, once=f"{key}/death")
        # The same fault in the specification's own terms, for consumers that know no others.
        self._report(FaultKind.OBJECT_CRASH, location, why=why, name=key, once=f"{key}/objects")
        if self._me == reporters[0]:
            hosted = [group for group, each in self._catalog.records.items() if host in each.placed_on]
            # Groups are failing over at this moment, and that has priority.
            self._later(MEMBERS_S, partial(self._report_members, host, key, hosted[:MEMBERS_TOLD_MAX]))

    def _report_members(self, host: HostId, key: str, groups: list[GroupId]) -> None:
        """Report some members now, and the rest after other pending work of the loop."""
        for group in groups[:MEMBERS_AT_ONCE]:
            self._report_member(FaultKind.OBJECT_CRASH, host, group, name=key, once=f"{key}/{group}")
        if len(groups) > MEMBERS_AT_ONCE:
            self._later(0, partial(self._report_members, host, key, groups[MEMBERS_AT_ONCE:]))

    def _report_back(self, session: Session) -> None:
        """Report the recovery of a host whose crash was reported and that now has a new process."""
        host, crashed = session.host, self._crashed.get(session.host)
        if crashed is None or session.incarnation <= crashed:
            return
        del self._crashed[host]
        if self._me not in self._reporters(HostId("")):
            return
        details: dict[str, Simple] = {"HostId": host, "From": FaultKind.HOST_CRASH.value}
        ended = self._ended.get((host, crashed))
        if ended is not None:
            details["AfterNs"] = self._clock.now() - ended
        once = f"{host}/{session.incarnation}/back"
        self._report(FaultKind.RECOVERED, self._location(host), details=details, once=once)

    def _reporters(self, dead: HostId) -> list[HostId]:
        """The hosts that report what all hosts see: those that run the notifier, or the first few."""
        group = self._catalog.find(NOTIFIER)
        record = self._catalog.records.get(group) if group is not None else None
        sessions = [each for each in sorted(self._catalog.sessions) if each != dead]
        hosting = [each for each in sessions if record is not None and each in record.placed_on]
        return hosting or sessions[:REPORTERS]

    def on_skew(self, skew_ns: int) -> None:
        """Report how far this host's clock is ahead of the others'; 0 reports that the skew has ended."""
        now, kind = self._clock.now(), FaultKind.CLOCK_SKEW
        details: dict[str, Simple] = {"HostId": self._me}
        if skew_ns:
            self._skewed_at = now
            details["SkewNs"] = max(-SKEW_NS_MAX, min(skew_ns, SKEW_NS_MAX))
            self._report(kind, self._location(self._me), details=details)
        else:
            details |= {"From": kind.value, "AfterNs": now - self._skewed_at}
            self._report(FaultKind.RECOVERED, self._location(self._me), details=details)

    def on_service_failed(self, name: str, why: str) -> None:
        """Report that a service of this host has failed."""
        details: dict[str, Simple] = {"HostId": self._me, "Service": name}
        self._report(FaultKind.SERVICE_FAILED, self._location(self._me), details=details, why=why)

    # --- groups

    def on_view(self, view: View) -> None:
        """Handle a group's new view. If the group lost a member, its primary's host reports it."""
        lost, record = view.cause.host, self._catalog.records.get(view.group)
        if view.primary != self._me or view.cause.why not in LOSSES or record is None:
            return
        is_news = self._clock.wall() - view.cause.at_ns < VIEW_NEWS_NS
        if not is_news or any(each.host == lost for each in view.members):
            return
        details: dict[str, Simple] = {
            "Epoch": view.epoch,
            "InSync": len(view.members),
            "MinInSync": record.min_in_sync,
        }
        once = f"{view.group}/{view.epoch}/shrunk"
        ended = self._last_ended.get(lost)
        name = "" if ended is None else _process(lost, ended)
        self._report_member(FaultKind.IN_SYNC_SHRUNK, lost, view.group, details=details, name=name, once=once)

    def on_fault(self, group: GroupId, kind: str, what: str) -> None:
        """Report a fault of an object on this host."""
        if kind in FAULTS:
            self._report_member(FAULTS[kind], self._me, group, why=what)

    def on_halted(self, group: GroupId, why: str) -> None:
        """Report that a member on this host has stopped for good."""
        self._report_member(FaultKind.OBJECT_CRASH, self._me, group, why=why)

    # --- reports

    def _report_member(
        self,
        kind: FaultKind,
        host: HostId,
        group: GroupId,
        *,
        details: Mapping[str, Simple] | None = None,
        why: str = "",
        name: str = "",
        once: str = "",
    ) -> None:
        """Report a fault of one member; *name* names the event that caused it."""
        record = self._catalog.records.get(group)
        if record is None or record.name == NOTIFIER:
            return  # the notifier cannot report faults of its own members to itself
        report = FaultReport(
            kind,
            self._domain,
            self._location(host),
            record.class_name,
            group,
            details or {},
            why[:WHY_MAX],
            name,
        )
        self._reports.report(report, once=once)

    def _report(
        self,
        kind: FaultKind,
        location: Location,
        *,
        details: Mapping[str, Simple] | None = None,
        why: str = "",
        name: str = "",
        once: str = "",
    ) -> None:
        report = FaultReport(
            kind, self._domain, location, details=details or {}, why=why[:WHY_MAX], name=name
        )
        self._reports.report(report, once=once)

    def _location(self, host: HostId) -> Location:
        known = self._catalog.sessions.get(host)
        if known is None:
            known = next((each for (name, _), each in reversed(self._seen.items()) if name == host), None)
        return fault_location(host, location_of(known) if known is not None else host)


def _process(host: HostId, incarnation: Incarnation) -> str:
    """The name shared by all events that follow from the end of this process."""
    return f"{host}/{incarnation}"


class DetectorReports:
    """Reports what monitoring finds on the host of *session*, and hangs that ended other hosts."""

    def __init__(self, reports: Reports, domain: str, session: Session) -> None:
        self._reports = reports
        self._domain = domain
        self._host = session.host
        self._location = fault_location(session.host, location_of(session))

    def on_finding(self, finding: Suspicion | Relief) -> None:
        """Report what monitoring has found about a member on this host."""
        domain, location, host = self._domain, self._location, self._host
        if isinstance(finding, Relief):
            self._reports.report(report_of(finding, domain=domain, location=location, host=host))
            return
        for report in reports_of(finding, domain=domain, location=location, host=host):
            self._reports.report(report)

    def on_hang(self, died: HostDied, catalog: GroupCatalog) -> None:
        """Report a host that ended itself because it hung, with the member that was running there, if any."""
        location = fault_location(died.host, location_known(died.host, catalog.sessions))
        once = f"{died.host}/{died.incarnation}/hang"
        hang = FaultReport(
            FaultKind.HANG, self._domain, location, details={"HostId": str(died.host)}, why=died.how
        )
        record = catalog.records.get(died.during[0].group) if died.during else None
        if record is not None:
            hang = replace(hang, type_id=record.class_name, group=record.group)
            # What consumers that know only the specification's own events understand (FTC-250).
            crash = replace(hang, kind=FaultKind.OBJECT_CRASH, details={})
            self._reports.report(crash, once=f"{once}/member")
        self._reports.report(hang, once=once)
