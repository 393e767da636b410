"""The witness: makes fault reports of what this host sees anyway: deaths of processes, lost sessions, views
that shrink, objects that fail (FTC 27.4.2).

A death is seen by every host. Those report it that house the notifier, which are few, under one key, so that
it is one event. What is one group's is reported by one host: its primary's, or the member's own.

What the detectors of this host find, as reports to the notifier.

Members are monitored where they are (:mod:`holdfast.groups.liveness_checks`). A host whose loop hangs can
tell nothing: it ends itself, its agent gives proof of that, and every other host files the same report, which
counts once.
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

WITNESSES: Final = 3
"""Hosts that report a death before there is a notifier, so that it does not depend on one of them."""
MEMBERS_TOLD_MAX: Final = 2_000
"""Members of a dead host that are reported one by one; that the host is dead says it of all."""
MEMBERS_S: Final = 1.0
"""After a host's death its members are reported so much later."""
MEMBERS_AT_ONCE: Final = 100
PROCESSES_KEPT: Final = 1_024
UNPROVEN_S: Final = 2.0
"""How long a host whose session ended may take to be proven dead, or to be back."""
VIEW_NEWS_NS: Final = 60 * SECOND
"""A view that was written longer ago is no news to a host that has just begun to follow."""
SKEW_NS_MAX: Final = 10**18
"""Some thirty years: what is further off is told as this."""
LOSSES: Final = (Why.DEAD, Why.SILENT, Why.DROPPED)
FAULTS: Final = {
    "divergence": FaultKind.DIVERGENCE,
    "checkpoint_failed": FaultKind.CHECKPOINT_FAILED,
    "object_failed": FaultKind.OBJECT_CRASH,
    "other_code": FaultKind.OTHER_CODE,
    "send_failed": FaultKind.MESSAGE_LOSS,
}
"""What an object's faults are called by the styles, and in reports."""


class FaultDetector:
    """What one host sees. *is_heard* says whether a host's heartbeats arrive; *later* has something done
    after so many seconds."""

    def __init__(
        self,
        me: HostId,
        domain: str,
        directory: GroupCatalog,
        reports: Reports,
        clock: Clock,
        *,
        is_heard: Callable[[HostId], bool],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._me = me
        self._domain = domain
        self._directory = directory
        self._reports = reports
        self._clock = clock
        self._is_heard = is_heard
        self._later = later
        self._seen: dict[tuple[HostId, Incarnation], Session] = {}
        """Processes lately in session."""
        self._ended: dict[tuple[HostId, Incarnation], int] = {}
        """Processes that are known to have ended, and when that was learnt."""
        self._last_ended: dict[HostId, Incarnation] = {}
        self._crashed: dict[HostId, Incarnation] = {}
        """The last process of a host that was reported, until its next one was."""
        self._skewed_at = 0

    # --- processes

    def on_died(self, died: HostDied) -> None:
        """An agent has proof."""
        self._end(died.host, died.incarnation)
        if died.is_damaged and self._me in self._witnesses(died.host):
            self._report(
                FaultKind.DAMAGED_STORE,
                self._location(died.host),
                details={"HostId": died.host},
                why=f"{died.host} {died.how}",
                once=f"{died.host}/{died.incarnation}/damage",
            )
        if died.is_crash:
            self._report_crash(died.host, died.incarnation, is_proven=True, why=f"{died.host} {died.how}")
        session = self._directory.sessions.get(died.host)
        if session is not None and session.incarnation > died.incarnation:
            self._report_back(session)  # its next process was faster than the word of its death

    def on_sessions(self, sessions: Mapping[HostId, Session]) -> None:
        """Hosts have come or gone."""
        for host, session in sessions.items():
            self._seen[host, session.incarnation] = session
            self._report_back(session)
        for (host, incarnation), session in list(self._seen.items()):
            if sessions.get(host) == session or (host, incarnation) in self._ended:
                continue
            if not self._is_heard(host):
                # Its agent may be about to prove the death, or have told us of an end in order.
                self._later(UNPROVEN_S, partial(self._miss, host, incarnation))
        while len(self._seen) > PROCESSES_KEPT:
            del self._seen[next(iter(self._seen))]

    def _miss(self, host: HostId, incarnation: Incarnation) -> None:
        session = self._directory.sessions.get(host)
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
        witnesses = self._witnesses(host)
        if self._me not in witnesses:
            return
        key = _process(host, incarnation)
        details: dict[str, Simple] = {"HostId": host, "Incarnation": incarnation, "IsProven": is_proven}
        location = self._location(host)
        self._report(FaultKind.HOST_CRASH, location, details=details, why=why, name=key, once=f"{key}/death")
        # The same in the words of the source, for consumers that know no others.
        self._report(FaultKind.OBJECT_CRASH, location, why=why, name=key, once=f"{key}/objects")
        if self._me == witnesses[0]:
            housed = [group for group, each in self._directory.records.items() if host in each.placed_on]
            # Groups fail over at this very moment, and come first.
            self._later(MEMBERS_S, partial(self._report_members, host, key, housed[:MEMBERS_TOLD_MAX]))

    def _report_members(self, host: HostId, key: str, groups: list[GroupId]) -> None:
        """Some now, the others after whatever else there is to do."""
        for group in groups[:MEMBERS_AT_ONCE]:
            self._report_member(FaultKind.OBJECT_CRASH, host, group, name=key, once=f"{key}/{group}")
        if len(groups) > MEMBERS_AT_ONCE:
            self._later(0, partial(self._report_members, host, key, groups[MEMBERS_AT_ONCE:]))

    def _report_back(self, session: Session) -> None:
        """A host of which a crash was reported has another process."""
        host, crashed = session.host, self._crashed.get(session.host)
        if crashed is None or session.incarnation <= crashed:
            return
        del self._crashed[host]
        if self._me not in self._witnesses(HostId("")):
            return
        details: dict[str, Simple] = {"HostId": host, "From": FaultKind.HOST_CRASH.value}
        ended = self._ended.get((host, crashed))
        if ended is not None:
            details["AfterNs"] = self._clock.now() - ended
        once = f"{host}/{session.incarnation}/back"
        self._report(FaultKind.RECOVERED, self._location(host), details=details, once=once)

    def _witnesses(self, dead: HostId) -> list[HostId]:
        """The hosts that report what all of them see."""
        group = self._directory.find(NOTIFIER)
        record = self._directory.records.get(group) if group is not None else None
        sessions = [each for each in sorted(self._directory.sessions) if each != dead]
        housing = [each for each in sessions if record is not None and each in record.placed_on]
        return housing or sessions[:WITNESSES]

    def on_skew(self, skew_ns: int) -> None:
        """This host's time is so far ahead of the others'; 0: no longer."""
        now, kind = self._clock.now(), FaultKind.CLOCK_SKEW
        details: dict[str, Simple] = {"HostId": self._me}
        if skew_ns:
            self._skewed_at = now
            details["SkewNs"] = max(-SKEW_NS_MAX, min(skew_ns, SKEW_NS_MAX))
            self._report(kind, self._location(self._me), details=details)
        else:
            details |= {"From": kind.value, "AfterNs": now - self._skewed_at}
            self._report(FaultKind.RECOVERED, self._location(self._me), details=details)

    # --- groups

    def on_view(self, view: View) -> None:
        """A group has a new view: whether it has lost a member is for its primary to report."""
        lost, record = view.cause.host, self._directory.records.get(view.group)
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
        """An object here has a fault."""
        if kind in FAULTS:
            self._report_member(FAULTS[kind], self._me, group, why=what)

    def on_halted(self, group: GroupId, why: str) -> None:
        """A member here has stopped for good."""
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
        """*name*: of the event that it follows from."""
        record = self._directory.records.get(group)
        if record is None or record.name == NOTIFIER:
            return  # of the notifier's own members it would be told by itself
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
        known = self._directory.sessions.get(host)
        if known is None:
            known = next((each for (name, _), each in reversed(self._seen.items()) if name == host), None)
        return fault_location(host, location_of(known) if known is not None else host)


def _process(host: HostId, incarnation: Incarnation) -> str:
    """One process: all that is reported because it ended has this name."""
    return f"{host}/{incarnation}"


class DetectorReports:
    """Of the host that has this session."""

    def __init__(self, reports: Reports, domain: str, session: Session) -> None:
        self._reports = reports
        self._domain = domain
        self._host = session.host
        self._location = fault_location(session.host, location_of(session))

    def on_finding(self, finding: Suspicion | Relief) -> None:
        """Monitoring has found something about a member here."""
        domain, location, host = self._domain, self._location, self._host
        if isinstance(finding, Relief):
            self._reports.report(report_of(finding, domain=domain, location=location, host=host))
            return
        for report in reports_of(finding, domain=domain, location=location, host=host):
            self._reports.report(report)

    def on_hang(self, died: HostDied, directory: GroupCatalog) -> None:
        """A host has made an end of its own hang; told of the member that was running there, if one was."""
        location = fault_location(died.host, location_known(died.host, directory.sessions))
        once = f"{died.host}/{died.incarnation}/hang"
        hang = FaultReport(
            FaultKind.HANG, self._domain, location, details={"HostId": str(died.host)}, why=died.how
        )
        record = directory.records.get(died.during.group) if died.during is not None else None
        if record is not None:
            hang = replace(hang, type_id=record.class_name, group=record.group)
            # What consumers of the source's own domain know (FTC-250).
            crash = replace(hang, kind=FaultKind.OBJECT_CRASH, details={})
            self._reports.report(crash, once=f"{once}/member")
        self._reports.report(hang, once=once)
