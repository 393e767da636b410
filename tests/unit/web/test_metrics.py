"""The metrics of failures and failovers that operators watch, in Prometheus' form."""

import re
from types import SimpleNamespace
from typing import Any

from holdfast.directory.hosting.orders import LinkInfo, ReplicaInfo
from holdfast.faults.backlog import Backlog
from holdfast.machine.trace import CountingTrace
from holdfast.model.admin.streams import StreamFigures, StreamsInspected
from holdfast.model.ids import SECOND, HostId
from holdfast.model.ports import NoTrace
from holdfast.node.services.directory_service import ClientCounts, DirectoryService
from holdfast.web.metrics import Metrics
from means import ROOT


def test_failovers_and_detections_are_histograms() -> None:
    """They record what members note: each step of a failover, and how long a suspect had been silent."""
    metrics, trace = Metrics(), CountingTrace(NoTrace())
    trace.listeners.append(metrics.on_note)
    steps = {"claimed_ns": SECOND // 100, "committed_ns": SECOND // 50, "ready_ns": None}
    trace.note("failed_over", **steps, silent_ns=SECOND)
    trace.note("first_answer", after_ns=SECOND // 4)
    trace.note("promise_lapsed", host="a", incarnations=[1], silent_ns=SECOND // 2)
    trace.note("heard_again", host="a")
    trace.note("death_proven", host="b", incarnation=1, silent_ns=SECOND // 4)
    trace.note("member_suspected", group=1, why="no", is_new=True, waited_ns=0)
    trace.note("member_suspected", group=1, why="no answer", is_new=True, waited_ns=SECOND)
    trace.note("member_suspected", group=1, why="no answer", is_new=False, waited_ns=SECOND)
    lines = metrics.text().decode().splitlines()
    assert 'holdfast_failover_seconds_count{until="claimed"} 1.0' in lines
    assert 'holdfast_failover_seconds_sum{until="committed"} 0.02' in lines
    assert not any('until="ready"' in line for line in lines)
    phases = {"noticed": "1.0", "claimed": "0.01", "committed": "0.01", "answered": "0.25"}
    for phase, took_s in phases.items():
        assert f'holdfast_failover_phase_seconds_sum{{phase="{phase}"}} {took_s}' in lines
    assert not any('phase="ready"' in line for line in lines)
    assert 'holdfast_detection_seconds_sum{of="host"} 0.5' in lines
    assert 'holdfast_detection_seconds_sum{of="process"} 0.25' in lines
    assert "holdfast_false_suspicions_total 1.0" in lines
    assert 'holdfast_detection_seconds_count{of="member"} 1.0' in lines
    assert (trace.counts["failed_over"], trace.counts["member_suspected"]) == (1, 3)


def test_the_page_of_metrics_lists_what_a_host_tells_and_nothing_else() -> None:
    metrics = Metrics()
    metrics.watch(host_context())
    told = {line.split()[2] for line in metrics.text().decode().splitlines() if line.startswith("# TYPE")}
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(holdfast_\w+)`", page, re.MULTILINE)
    assert sorted(listed) == sorted(name for name in told if not name.endswith("_created"))


class Directory(DirectoryService):
    """The service of a host whose replica has one peer."""

    def __init__(self) -> None:
        link = LinkInfo(peer=HostId("b"), state="open", lag_p50_ms=2.0, lag_p99_ms=8.0, behind_ms=0.0)
        self._info = ReplicaInfo(
            host=HostId("a"), state="serving", suffix="dc=example", conflicts=3, links=(link,)
        )
        self.count_clients = lambda: ClientCounts(7, 1000, 1)

    def shown(self) -> tuple[ReplicaInfo, ...]:
        return (self._info,)


def test_what_is_told_of_a_directory() -> None:
    metrics = Metrics()
    metrics.watch(host_context())
    told = metrics.text().decode().splitlines()
    for line in (
        'holdfast_directory_serving{suffix="dc=example"} 1.0',
        'holdfast_directory_conflicts{suffix="dc=example"} 3.0',
        'holdfast_directory_link_open{peer="b",suffix="dc=example"} 1.0',
        'holdfast_directory_lag_p50_seconds{peer="b",suffix="dc=example"} 0.002',
        "holdfast_ldap_clients 7.0",
        "holdfast_ldap_operations_total 1000.0",
    ):
        assert line in told


def host_context() -> Any:
    """The context of a host without groups."""
    directory = Directory()
    report = SimpleNamespace(host="a", incarnation=1, in_session=True, log_bytes=1, peers=())
    return SimpleNamespace(
        domain="main",
        report=lambda: report,
        groups=SimpleNamespace(hosted={}, catalog=SimpleNamespace(sessions={})),
        notes={"won": 1},
        reports=Backlog(1),
        listeners=[],
        services=SimpleNamespace(running=lambda name: directory),
        admin_dispatch=SimpleNamespace(streams=SimpleNamespace(local=_Streams())),
    )


class _Streams:
    """A host with one stream."""

    def inspected(self, name: str, group: str) -> StreamsInspected:
        figures = StreamFigures(name="orders", delivered=7, counts={"messages": 9, "tag": 1})
        return StreamsInspected(host=HostId("a"), streams=(figures,), kernel_drops=3)


def test_streams() -> None:
    """What became of messages and datagrams of each stream, and what was decided about losses."""
    metrics = Metrics()
    metrics.watch(host_context())
    metrics.on_note("decided", {"stream": "orders", "lost": "1 to 2", "action": "recover", "by": "a"})
    lines = metrics.text().decode().splitlines()
    assert 'holdfast_stream_counts_total{outcome="messages",stream="orders"} 9.0' in lines
    assert 'holdfast_stream_delivered{stream="orders"} 7.0' in lines
    assert "holdfast_stream_kernel_drops_total 3.0" in lines
    assert 'holdfast_stream_losses_total{action="recover",stream="orders"} 1.0' in lines
