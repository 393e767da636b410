"""Tests the backlog of a host's fault reports."""

import pytest

from holdfast.faults.backlog import PART_DELAY_NS, Backlog
from holdfast.faults.events import Location
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.model.ids import GroupId


class Hand:
    """A clock that is set by hand."""

    time_ns = 0

    def now(self) -> int:
        return self.time_ns

    def wall(self) -> int:
        return self.time_ns


@pytest.fixture
def clock() -> Hand:
    return Hand()


def host(name: str) -> FaultReport:
    return FaultReport(FaultKind.HOST_CRASH, "main", Location.parse(name))


def member(name: str) -> FaultReport:
    return FaultReport(FaultKind.OBJECT_CRASH, "main", Location.parse(name), "A", GroupId(1))


def test_wholes_leave_at_once_and_parts_a_moment_later(clock: Hand) -> None:
    """Looking removes nothing, told reports are removed, and each kind keeps its order."""
    backlog = Backlog(clock)
    assert backlog.due_in_ns() is None
    backlog.report(member("h1"))
    backlog.report(host("h1"), once="h1/4/death")
    backlog.report(host("h2"))
    first = backlog.due(1)
    assert [(each.report, each.once) for each in first] == [(host("h1"), "h1/4/death")]
    backlog.forget(first)
    backlog.forget(backlog.due(10))
    assert backlog.due(10) == ()
    assert backlog.due_in_ns() == PART_DELAY_NS
    clock.time_ns += PART_DELAY_NS
    assert backlog.due_in_ns() == 0
    assert [each.report for each in backlog.due(10)] == [member("h1")]
    backlog.forget(backlog.due(10))
    assert len(backlog) == 0


def test_every_report_is_the_same_when_it_is_sent_again(clock: Hand) -> None:
    """If a report was given no key, it has one of the host's own."""
    backlog = Backlog(clock)
    backlog.name = "h1/4"
    backlog.report(host("h2"))
    backlog.report(host("h2"))
    assert [each.once for each in backlog.due(2)] == ["h1/4/1", "h1/4/2"]
    assert backlog.due(2) == backlog.due(2)


def test_a_full_backlog_drops_the_newest_and_counts_them(clock: Hand) -> None:
    """A storm of reports costs a bounded amount of memory, and its first reports stay."""
    told: list[int] = []
    backlog = Backlog(clock, size_max=2)
    backlog.on_filed = lambda: told.append(1)
    for number in range(5):
        backlog.report(host(f"h{number}"))
    assert [str(each.report.location) for each in backlog.due(10)] == ["h0", "h1"]
    assert (backlog.dropped, len(backlog), len(told)) == (3, 2, 2)
