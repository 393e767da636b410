"""Tests the reports that a host's detectors make: about a member, a process, or other hosts."""

import pytest

from holdfast.authority.groups import GroupRecord
from holdfast.authority.sessions import Session
from holdfast.execution.crash_attempts import Attempt
from holdfast.faults.events import Location
from holdfast.faults.monitor import Relief, Suspicion
from holdfast.faults.reports import FaultKind, FaultReport, Scope
from holdfast.model.ids import ClientId, GroupId, HostId, Incarnation, Nonce
from holdfast.node.faults.detector import DetectorReports
from holdfast.node.messages import HostDied

A, B = HostId("a"), HostId("b")


class Filed:
    """Where reports are left."""

    def __init__(self) -> None:
        self.all: list[tuple[FaultReport, str]] = []

    def report(self, report: FaultReport, *, once: str = "") -> None:
        self.all.append((report, once))


class Directory:
    """What a host knows of other hosts and of groups."""

    def __init__(self) -> None:
        self.sessions = {B: session(B, "rack2/b")}
        record = GroupRecord(
            group=GroupId(7), class_name="app:A", style="active", members=(), nonce=Nonce("n")
        )
        self.records = {record.group: record}


def session(host: HostId, location: str) -> Session:
    return Session(
        host=host,
        incarnation=Incarnation(1),
        address="127.0.0.1:1",
        heartbeat_address="",
        agent_address="",
        nonce=Nonce(""),
        details={"location": location},
    )


def died(*during: Attempt) -> HostDied:
    return HostDied(
        host=B, incarnation=Incarnation(4), proof="waitpid", how="stood", during=during, is_hang=True
    )


def test_a_member_is_reported_where_it_is_and_so_is_its_recovery() -> None:
    filed = Filed()
    findings = DetectorReports(filed, "main", session(A, "rack1/a"))
    findings.on_finding(Suspicion(GroupId(7), "app:A", Scope.MEMBER, "is_alive answered False"))
    findings.on_finding(Relief(GroupId(7), "app:A", 5))
    told = [(each.kind, str(each.location), each.type_id, each.group) for each, _ in filed.all]
    assert told == [
        (FaultKind.OBJECT_CRASH, "rack1/a", "app:A", 7),
        (FaultKind.RECOVERED, "rack1/a", "app:A", 7),
    ]


def test_the_member_that_hung_its_host_is_named_and_all_hosts_tell_the_same() -> None:
    """Each host sees the death. The key that makes it one event names the process and the kind."""
    during = Attempt(GroupId(7), ClientId("c"), 1, 1, 1)
    told = []
    for host in (A, HostId("c")):
        filed = Filed()
        DetectorReports(filed, "main", session(host, host)).on_hang(died(during), Directory())  # type: ignore[arg-type]  # as much of it as is read
        told.append(filed.all)
    assert told[0] == told[1]
    assert {(each.kind, each.group, str(each.location)) for each, _ in told[0]} == {
        (FaultKind.OBJECT_CRASH, 7, "rack2/b"),
        (FaultKind.HANG, 7, "rack2/b"),
    }
    assert all(once.startswith("b/4/hang") for _, once in told[0])


@pytest.mark.covers("FTC-243")
def test_detectors_of_objects_processes_and_regions_stand_side_by_side() -> None:
    """Each reports what it knows at its level, and the wider report covers the narrower one."""
    filed = Filed()
    findings = DetectorReports(filed, "main", session(B, "rack2/b"))
    findings.on_finding(Suspicion(GroupId(7), "app:A", Scope.MEMBER, "no"))
    findings.on_hang(died(), Directory())  # type: ignore[arg-type]  # as much of it as is read
    of_rack = FaultReport(
        FaultKind.OBJECT_CRASH, "main", Location.parse("rack2"), why="an application saw it"
    )
    filed.report(of_rack)
    member, process, rack = (each for each, _ in filed.all)
    assert [each.scope for each in (member, process, rack)] == [Scope.MEMBER, Scope.LOCATION, Scope.LOCATION]
    assert rack.location.covers(process.location)
    assert process.location.covers(member.location)
