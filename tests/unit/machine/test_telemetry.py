"""Spans of calls, with the real OpenTelemetry SDK: one for each call, wherever it goes."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from call_server import GROUP, Cluster, calls_to
from fake_group import FakeGroup
from group_classes import call, definition, sent
from ledger_domain import Ledger, tell, until
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from patient_client import PATIENT
from style_groups import ALL, CONFIG, told

import holdfast as hf
from holdfast.calling.config import CallPolicy
from holdfast.execution.records import encode_arguments, traced
from holdfast.machine.telemetry import Telemetry, find_telemetry
from holdfast.model.calls import RequestId
from holdfast.model.ids import ClientId, HostId
from holdfast.model.outcome import MethodRaised, Returned, encode_outcome
from holdfast.model.system_groups import NOTIFIER
from holdfast.model.traceparent import SAMPLED, Traceparent
from holdfast.node.tracing import CallTracer, onlooker_of

CARRIED = Traceparent(bytes(range(16)), bytes(range(1, 9)), 1)


class Spans:
    """The spans recorded by a program with a provider."""

    def __init__(self, provider: TracerProvider) -> None:
        self._exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("the program")

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def one(self, name: str) -> ReadableSpan:
        (found,) = (each for each in self.all() if each.name == name)
        return found


def provide(monkeypatch: pytest.MonkeyPatch, provider: TracerProvider) -> Spans:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)  # it can be set only once per process
    return Spans(provider)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    provider = TracerProvider(shutdown_on_exit=False)
    yield provide(monkeypatch, provider)
    provider.shutdown()


def attempts(span: ReadableSpan) -> list[tuple[Any, ...]]:
    names = ("holdfast.attempt", "holdfast.host", "holdfast.came_to")
    return [tuple((each.attributes or {})[name] for name in names) for each in span.events]


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def own(span: ReadableSpan) -> bytes:
    """The span's traceparent as a call carries it."""
    context = span.get_span_context()
    assert context is not None
    ids = context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big")
    return Traceparent(*ids, int(context.trace_flags)).encoded()


# --- whether there are spans


def test_without_a_provider_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    assert find_telemetry() is None
    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
    assert find_telemetry() is None


def test_nothing_is_imported_for_a_program_that_does_not_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert find_telemetry() is None
    assert onlooker_of(HostId("a"), "ledger") is None
    assert "opentelemetry.trace" not in sys.modules


# --- spans of callers


def test_a_call_that_survives_a_failover_is_one_span_with_an_event_for_each_copy(spans: Spans) -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a, b = await domain.group("ledger"), cluster.hosts["a"], cluster.hosts["b"]
        a.holds_replies = True
        with spans.tracer.start_as_current_span("checkout"):
            answer = group.deposit("alice", 5)
        await until(lambda: len(ledger.calls) == 1)
        view = cluster.move_to("b")
        b.push(view)
        await until(lambda: bool(calls_to(b)))
        await a.stop()
        assert await answer == 5
        await until(lambda: len(spans.all()) == 2)
        checkout, span = spans.one("checkout"), spans.one("ledger/deposit")
        assert span.kind is SpanKind.CLIENT
        assert checkout.context is not None
        assert parent_of(span) == checkout.context.span_id
        assert attempts(span) == [(1, "a", "transient"), (2, "b", "answered")]
        assert span.status.status_code is StatusCode.UNSET
        assert dict(span.attributes or {}) == {
            "rpc.system.name": "holdfast",
            "rpc.method": "ledger/deposit",
            "rpc.response.status_code": "ok",
            "server.address": b.address.host,
            "server.port": b.address.port,
        }
        assert {each.traceparent for _, each in (*calls_to(a), *calls_to(b))} == {own(span)}

    tell(story, duration_s=60, config=PATIENT)


def test_what_a_call_came_to_stands_on_its_span(spans: Spans) -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger")
        with pytest.raises(MethodRaised):
            await group.withdraw("alice", 5)
        with pytest.raises(hf.InvalidRequest):
            group.deposit("x" * (9 << 20), 1)
        cluster.hosts["a"].drops_frames = True
        waiting = group.deposit("alice", 1)
        await asyncio.sleep(0)
        waiting.cancel()
        await until(lambda: len(spans.all()) == 3)
        found = [
            (each.name, each.status.status_code, (each.attributes or {})["error.type"])
            for each in spans.all()
        ]
        assert found == [
            ("ledger/withdraw", StatusCode.ERROR, "ValueError"),
            ("ledger/deposit", StatusCode.ERROR, "invalid_request"),
            ("ledger/deposit", StatusCode.ERROR, "CancelledError"),
        ]

    tell(story, duration_s=60, config=PATIENT)


def test_what_the_domain_asks_itself_has_no_span(spans: Spans) -> None:
    """Watching faults polls the notifier, and hosts report to it; these calls have no span."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        cluster.state.name = NOTIFIER
        cluster.move_to("a")
        group = await domain.group(NOTIFIER)
        assert await group.deposit("alice", 5) == 5
        await asyncio.sleep(0)
        assert spans.all() == []

    tell(story)


def test_a_trace_that_is_not_recorded_is_carried_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = provide(monkeypatch, TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger")
        await group.deposit("alice", 5)
        ((_, found),) = calls_to(cluster.hosts["a"])
        carried = Traceparent.decoded(found.traceparent)
        assert carried is not None
        assert not carried.flags & SAMPLED
        assert spans.all() == []

    tell(story)


def test_a_call_in_a_given_trace_is_within_it(spans: Spans) -> None:
    """For example, the call of an HTTP caller with a header; this also holds for a call with its own id."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        caller = await domain.caller("ledger")
        arguments, carried = bytes(encode_arguments(("alice", 5), {})), CARRIED.encoded()
        await caller.call_traced("deposit", arguments, CallPolicy(), traceparent=carried)
        request = RequestId(GROUP, ClientId("somebody else"), 1, caller.time_s + 60)
        await caller.call_as(request, "deposit", arguments, CallPolicy(), carried)
        await until(lambda: len(spans.all()) == 2)
        assert {parent_of(each) for each in spans.all()} == {int.from_bytes(CARRIED.span, "big")}
        assert {own(each)[:16] for each in spans.all()} == {CARRIED.trace}

    tell(story)


def test_the_synchronous_face_finds_the_span_of_the_thread_that_calls(spans: Spans) -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        def run() -> None:
            with (
                hf.connect_sync(cluster.url) as own_domain,
                spans.tracer.start_as_current_span("checkout"),
            ):
                own_domain.group("ledger").deposit("alice", 5)

        await asyncio.to_thread(run)
        checkout = spans.one("checkout")
        assert checkout.context is not None
        assert parent_of(spans.one("ledger/deposit")) == checkout.context.span_id

    tell(story)


# --- spans of hosts


class Shop:
    """Looks at the span it runs in."""

    def __init__(self) -> None:
        self.sold = 0

    def sell(self) -> int:
        found = trace.get_current_span().get_span_context()
        self.sold += 1
        Shop.seen = found.span_id
        return self.sold

    def fail(self) -> None:
        raise ValueError("no")

    async def order(self) -> int:
        await hf.context.group("stock").reserve()
        self.sold += 1
        return self.sold

    @hf.query
    def count(self) -> int:
        return self.sold

    seen = 0


class Looked(FakeGroup):
    """A group whose members each have an onlooker."""

    def start(self, name: str) -> Any:
        telemetry = find_telemetry()
        assert isinstance(telemetry, Telemetry)
        self.onlooker = CallTracer(telemetry, HostId(name), "shop")
        return super().start(name)


def shop(style: str) -> FakeGroup:
    return Looked(style, definition(Shop, "shop"), CONFIG)


def do(made: FakeGroup, *methods: str, carried: bytes = b"", first: int = 1) -> None:
    calls = [traced(call(number, method), carried) for number, method in enumerate(methods, first)]
    made.replicas[made.primary].on_calls("t", sent(*calls))
    made.settle()


@pytest.mark.parametrize("style", ALL)
def test_a_host_has_a_span_of_each_call_it_executes_within_its_callers(spans: Spans, style: str) -> None:
    """Backups and replays have none, and a call without a trace has none."""
    made = shop(style)
    do(made, "sell", "fail", "count", carried=CARRIED.encoded())
    do(made, "sell", first=4)
    made.fail_over("b", is_crash=True)
    made.settle()
    found = spans.all()
    assert sorted(each.name for each in found) == ["shop/count", "shop/fail", "shop/sell"]
    assert {each.kind for each in found} == {SpanKind.SERVER}
    assert {parent_of(each) for each in found} == {int.from_bytes(CARRIED.span, "big")}
    assert {(each.attributes or {})["holdfast.host"] for each in found} == {"a"}
    failed = spans.one("shop/fail")
    assert (failed.status.status_code, (failed.attributes or {})["error.type"]) == (
        StatusCode.ERROR,
        "ValueError",
    )


def test_a_methods_own_spans_are_within_that_of_its_call(spans: Spans) -> None:
    made = shop("warm")
    do(made, "sell", carried=CARRIED.encoded())
    context = spans.one("shop/sell").context
    assert context is not None
    assert Shop.seen == context.span_id


@pytest.mark.parametrize("style", ALL)
def test_a_call_within_a_call_has_a_span_within_that_of_the_operation(spans: Spans, style: str) -> None:
    made = shop(style)
    do(made, "order", carried=CARRIED.encoded())
    ((name, outgoing),), made.outgoing = made.outgoing, []
    assert outgoing.story is not None
    outgoing.story.attempt(HostId("c"), "10.0.0.3:7400", "answered")
    made.replicas[name].on_nested_outcome(outgoing.caller, outgoing.call, encode_outcome(Returned(None)))
    made.settle()
    assert told(made)[-1][2] == [Returned(1)]
    outer, inner = spans.one("shop/order"), spans.one("stock/reserve")
    assert (outer.kind, inner.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert outer.context is not None
    assert parent_of(inner) == outer.context.span_id
    assert own(inner) == outgoing.traceparent
    assert attempts(inner) == [(1, "c", "answered")]


@pytest.mark.parametrize("style", ALL)
def test_what_a_host_can_no_longer_execute_ends_there(spans: Spans, style: str) -> None:
    made = shop(style)
    do(made, "order", carried=CARRIED.encoded())
    made.fail_over("b", is_crash=False)
    made.settle()
    ended = {each.name: (each.attributes or {})["error.type"] for each in spans.all()}
    assert ended == {"shop/order": "unavailable", "stock/reserve": "unavailable"}
