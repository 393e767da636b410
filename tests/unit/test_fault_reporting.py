"""The backlog of a host's fault reports."""

from holdfast.faults.events import Location
from holdfast.faults.reporting import Backlog, Filed
from holdfast.faults.reports import FaultKind, FaultReport


def _report(host: str) -> FaultReport:
    return FaultReport(FaultKind.HOST_CRASH, "main", Location.parse(host), details={"HostId": host})


def test_reports_are_kept_in_order_until_they_were_told() -> None:
    """The oldest come first, looking at them takes nothing away, and what was told is gone."""
    backlog = Backlog()
    first, second = _report("host1"), _report("host2")
    backlog.report(first)
    backlog.report(second, once="host2/4/death")
    assert backlog.first(10) == (Filed(first), Filed(second, "host2/4/death"))
    backlog.forget(1)
    assert backlog.first(10) == (Filed(second, "host2/4/death"),)


def test_a_full_backlog_drops_the_newest_and_counts_them() -> None:
    """A storm of reports costs a bounded amount of memory, and its first reports are those that stay."""
    told: list[int] = []
    backlog = Backlog(size_max=2, on_filed=lambda: told.append(1))
    for number in range(5):
        backlog.report(_report(f"host{number}"))
    assert [str(each.report.location) for each in backlog.first(10)] == ["host0", "host1"]
    assert (backlog.dropped, len(backlog), len(told)) == (3, 2, 2)
