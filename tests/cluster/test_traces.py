"""One call across kill -9 of the primary that executes it: one trace, in the caller's program and on the host
that completes it."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from domain import WAIT_S, Domain
from group_client import Client, run
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import LogCapture

from holdfast.model.outcome import MethodRaised
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster

PHASES = {"claimed", "committed", "ready"}
APPS = Path(__file__).parent / "apps"


@pytest.fixture
def domain(tmp_path: Path) -> Iterator[Domain]:
    with Domain(tmp_path / "d", "--app", str(APPS)) as made:
        yield made


@pytest.fixture
def log() -> Iterator[LogCapture]:
    capture = LogCapture()
    structlog.configure(processors=[capture])
    yield capture
    structlog.reset_defaults()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    provider, exporter = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)  # it can be set only once per process
    yield exporter
    provider.shutdown()


async def until(what: str, found: Callable[[], Any]) -> Any:
    """Return what *found* finds, as soon as it finds something."""
    for _ in range(round(WAIT_S / 0.05)):
        if it := found():
            return it
        await asyncio.sleep(0.05)
    raise AssertionError(f"did not happen within {WAIT_S:g} s: {what}")


def attempts(span: ReadableSpan) -> list[tuple[Any, Any]]:
    noted = [each.attributes or {} for each in span.events]
    return [(each["holdfast.host"], each["holdfast.came_to"]) for each in noted]


def spans_in(log: Path, trace_id: str) -> list[dict[str, Any]]:
    """Return the spans of one trace that a host has written."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [each for each in lines if each["context"]["trace_id"] == f"0x{trace_id}"]


def phases_at(door: str) -> set[str]:
    """Return the phases of failovers that a host has counted."""
    text = httpx.get(f"{door}/metrics", timeout=WAIT_S, trust_env=False).text
    return set(re.findall(r'holdfast_failover_phase_seconds_count\{phase="(\w+)"\}', text))


def test_a_call_that_survives_its_primary_is_one_trace_everywhere(
    domain: Domain, tmp_path: Path, log: LogCapture, spans: InMemorySpanExporter
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()

    async def work(client: Client) -> None:
        gate = await client.connection.create("gate:Gate", name="gate")
        await client.wait_in_sync("gate")
        call = gate.go_through(str(marks))
        await until("the call runs", (marks / "waits").exists)
        pid = int((marks / "waits").read_text())
        hosts = (await asyncio.to_thread(domain.status))["hosts"]
        (killed,) = (host["id"] for host in hosts if host["pid"] == pid)
        os.kill(pid, signal.SIGKILL)
        (marks / "open").touch()
        with pytest.raises(MethodRaised, match="beyond the gate"):
            await call
        (span,) = await until("the span has ended", spans.get_finished_spans)
        await check(span, killed)

    async def check(span: ReadableSpan, killed: str) -> None:
        """Check the caller's one span, and everything that has the id of its trace."""
        assert (span.name, span.kind) == ("gate/go_through", trace.SpanKind.CLIENT)
        assert span.context is not None
        trace_id = trace.format_trace_id(span.context.trace_id)
        *_, (last, came_to) = tried = attempts(span)
        assert came_to == "answered"
        assert killed in [host for host, _ in tried]
        assert killed != last
        mine = [(each["event"], each["host"]) for each in log.entries if each.get("trace_id") == trace_id]
        assert ("a call was lost", killed) in mine
        assert mine[-1] == ("a call was answered", last)
        output = Layout(domain.directory).output(last)
        (served,) = await until("the host has written its span", lambda: spans_in(output, trace_id))
        assert (served["name"], served["kind"]) == ("gate/go_through", "SpanKind.SERVER")
        assert served["parent_id"] == f"0x{trace.format_span_id(span.context.span_id)}"
        (raised,) = (each for each in output.read_text().splitlines() if '"a method raised"' in each)
        assert f"trace_id={trace_id}" in raised
        assert "gate:" in raised
        door = (await asyncio.to_thread(domain.host, last))["report"]["details"]["http"]
        await until("the host tells how long the failover took", lambda: phases_at(door) >= PHASES)
        await check_http(door)

    async def check_http(door: str) -> None:
        """A call by HTTP belongs to the trace that its header names."""
        trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
        headers = {"traceparent": f"00-{trace_id}-{span_id}-01", "Idempotency-Key": "through-the-gate"}
        url = f"{door}/v1/groups/gate/calls/go_through?duration_s=60"
        async with httpx.AsyncClient(timeout=WAIT_S, trust_env=False) as program:
            answer = await program.post(url, json=[str(marks)], headers=headers)
        assert answer.status_code == 422, answer.text
        await until("a host has written its line", lambda: lines_about(trace_id, "a method raised"))

    def lines_about(trace_id: str, event: str) -> list[str]:
        """Return the matching lines of the logs of all processes."""
        logs = (domain.directory / "output").glob("*.log")
        lines = [line for each in logs for line in each.read_text().splitlines()]
        return [line for line in lines if f"trace_id={trace_id}" in line and f'"{event}"' in line]

    run(domain, work)
