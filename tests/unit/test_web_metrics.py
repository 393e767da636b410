"""What operators watch of detectors, in Prometheus' form."""

from holdfast.machine.counting import CountingTrace
from holdfast.model.ports import NoTrace
from holdfast.model.units import SECOND
from holdfast.web.metrics import Metrics


def test_failovers_and_detections_are_histograms() -> None:
    """Of what members note: each step of a failover, and how long who is suspected had been silent."""
    metrics, trace = Metrics(), CountingTrace(NoTrace())
    trace.listeners.append(metrics.on_note)
    trace.note("failed_over", claimed_ns=SECOND // 100, committed_ns=SECOND // 50, ready_ns=None)
    trace.note("promise_lapsed", host="a", incarnations=[1], silent_ns=SECOND // 2)
    trace.note("member_suspected", group=1, why="no", is_new=True, waited_ns=0)
    trace.note("member_suspected", group=1, why="no answer", is_new=True, waited_ns=SECOND)
    lines = metrics.text().decode().splitlines()
    assert 'holdfast_failover_seconds_count{until="claimed"} 1.0' in lines
    assert 'holdfast_failover_seconds_sum{until="committed"} 0.02' in lines
    assert not any('until="ready"' in line for line in lines)
    assert 'holdfast_detection_seconds_sum{of="host"} 0.5' in lines
    assert 'holdfast_detection_seconds_count{of="member"} 1.0' in lines
    assert trace.counts == {"failed_over": 1, "promise_lapsed": 1, "member_suspected": 2}
