"""What the detectors of this host find, as reports to the notifier.

Members are monitored where they are (:mod:`holdfast.housing.checkups`). A host whose loop hangs can tell
nothing: it ends itself, its agent gives proof of that, and every other host files the same report, which
counts once.
"""

from dataclasses import replace

from holdfast.authority.sessions import Session
from holdfast.faults.findings import report_of, reports_of
from holdfast.faults.monitoring import Relief, Suspicion
from holdfast.faults.reporting import Reports
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.housing.directory import GroupDirectory
from holdfast.node.census import location_of
from holdfast.node.locating import fault_location, location_known
from holdfast.node.messages import HostDied


class Findings:
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

    def on_hang(self, died: HostDied, directory: GroupDirectory) -> None:
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
