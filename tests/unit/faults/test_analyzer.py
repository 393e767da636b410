"""Tests that the analyzer turns many reports into few without hiding news."""

import pytest

from holdfast.faults.analyzer import FLAPS_TOLD_MAX, Analysis
from holdfast.faults.events import EventHeader, EventType, FixedEventHeader, Location, StructuredEvent, find
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.faults.told_events import Told
from holdfast.model.ids import MILLISECOND, MINUTE, SECOND, GroupId


class Desk:
    """An analyzer, called as the notifier calls it."""

    def __init__(self) -> None:
        self.analysis = Analysis()
        self.number = 0
        self.regions: list[tuple[str, object]] = []

    def take(
        self,
        kind: FaultKind,
        location: str,
        at_ns: int,
        type_id: str | None = None,
        group: int | None = None,
        name: str = "",
    ) -> Told:
        number = None if group is None else GroupId(group)
        report = FaultReport(kind, "main", Location.parse(location), type_id, number, name=name)
        return self.event(report.to_event(), at_ns)

    def event(self, event: StructuredEvent, at_ns: int) -> Told:
        self.number += 1
        self.analysis = Analysis(self.analysis.state())  # as after a failover, each time
        judged = self.analysis.judge(event, self.number, at_ns)
        told = Told(self.number, at_ns, judged.event, judged.part_of)
        correlated = self.analysis.correlated(told)
        if correlated is not None:
            self.regions.append((str(correlated.location), correlated.details["Hosts"]))
        return told


def test_what_follows_a_hosts_death_is_part_of_it() -> None:
    """The members' faults are parts of the objects' crash, and that is a part of the host's; faults of other
    hosts are not."""
    desk = Desk()
    assert desk.take(FaultKind.HOST_CRASH, "h1", 0).part_of == 0
    assert desk.take(FaultKind.IN_SYNC_SHRUNK, "h1", 1, "A", 7).part_of == 1
    assert desk.take(FaultKind.OBJECT_CRASH, "h1", 1).part_of == 1
    assert desk.take(FaultKind.OBJECT_CRASH, "h1/p", 2, "A", 7).part_of == 3
    assert desk.take(FaultKind.OBJECT_CRASH, "h2", 3, "A", 7).part_of == 0
    assert desk.take(FaultKind.DIVERGENCE, "h1", 3, "A", 7).part_of == 0  # it does not follow from a crash
    assert desk.take(FaultKind.HOST_CRASH, "h1", 4).part_of == 0  # a second crash is no part of the first


@pytest.mark.covers("FTC-243")
def test_detectors_of_objects_processes_and_hosts_report_side_by_side() -> None:
    """Each level is a part of the one above, in whatever order the lower ones come after it."""
    desk = Desk()
    desk.take(FaultKind.OBJECT_CRASH, "h1", 0)
    assert desk.take(FaultKind.OBJECT_CRASH, "h1/p1", 1).part_of == 1
    assert desk.take(FaultKind.OBJECT_CRASH, "h1/p1", 2, "A", 7).part_of == 2
    assert desk.take(FaultKind.OBJECT_CRASH, "h1/p2", 3, "A", 7).part_of == 1
    assert desk.take(FaultKind.OBJECT_CRASH, "h2/p1", 4, "A", 7).part_of == 0


def test_a_recovered_location_has_faults_of_its_own_again() -> None:
    desk = Desk()
    desk.take(FaultKind.HOST_CRASH, "h1", 0)
    desk.take(FaultKind.RECOVERED, "h1", 1)
    assert desk.take(FaultKind.OBJECT_CRASH, "h1", 2, "A", 7).part_of == 0
    desk.take(FaultKind.HANG, "h3", 3)
    assert desk.take(FaultKind.OBJECT_CRASH, "h3", 4, "A", 7).part_of == 4
    assert desk.take(FaultKind.OBJECT_CRASH, "h3", 3 + 31 * SECOND, "A", 7).part_of == 0


def test_what_is_said_to_follow_is_a_part_however_late_it_comes() -> None:
    """A host may be back before the last of its members was reported."""
    desk = Desk()
    desk.take(FaultKind.HOST_CRASH, "h1", 0, name="h1/4")
    desk.take(FaultKind.RECOVERED, "h1", 1)
    assert desk.take(FaultKind.OBJECT_CRASH, "h1", 2 * MINUTE, "A", 7, name="h1/4").part_of == 1
    assert desk.take(FaultKind.OBJECT_CRASH, "h1", 2 * MINUTE, "A", 7, name="h1/5").part_of == 0
    assert desk.take(FaultKind.OBJECT_CRASH, "h1", 11 * MINUTE, "A", 8, name="h1/4").part_of == 0


def test_what_flaps_is_told_a_few_times_then_once_with_a_mark() -> None:
    """Repetitions are parts of the marked report. After a quiet minute, or ten noisy ones, the fault is told
    again."""
    desk = Desk()
    told = [desk.take(FaultKind.CLOCK_SKEW, "h1", each * SECOND) for each in range(20)]
    assert [each.part_of for each in told] == [0] * (FLAPS_TOLD_MAX + 1) + [FLAPS_TOLD_MAX + 1] * 14
    marked = told[FLAPS_TOLD_MAX].event.header.variable_header
    assert (find(marked, "IsFlapping"), find(marked, "Repeats")) == (True, FLAPS_TOLD_MAX + 1)
    assert desk.take(FaultKind.CLOCK_SKEW, "h2", 20 * SECOND).part_of == 0
    assert desk.take(FaultKind.CLOCK_SKEW, "h1", 20 * SECOND + 2 * MINUTE).part_of == 0
    noisy = [desk.take(FaultKind.HANG, "h1", (100 + each) * MINUTE // 2, "A", 1) for each in range(40)]
    assert [each.number - noisy[0].number for each in noisy if not each.part_of] == [0, 1, 2, 3, 4, 5, 25]


def test_hosts_of_one_region_that_crash_together_are_one_more_report() -> None:
    """It is made at two, four and eight hosts, but not for hosts of different regions or for later
    crashes."""
    desk = Desk()
    for number in range(1, 6):
        desk.take(FaultKind.HOST_CRASH, f"rack1/h{number}", number * 100 * MILLISECOND)
    assert desk.regions == [("rack1", 2), ("rack1", 4)]
    desk.take(FaultKind.HOST_CRASH, "rack2/h9", 600 * MILLISECOND)
    desk.take(FaultKind.HOST_CRASH, "alone", 600 * MILLISECOND)
    desk.take(FaultKind.HOST_CRASH, "rack2/h8", 5 * SECOND)
    assert len(desk.regions) == 2


def test_an_applications_own_events_are_left_alone() -> None:
    desk = Desk()
    own = StructuredEvent(EventHeader(FixedEventHeader(EventType("acme", "Overheated"))))
    assert [desk.event(own, 0) for _ in range(10)] == [Told(each, 0, own) for each in range(1, 11)]
