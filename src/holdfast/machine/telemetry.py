"""OpenTelemetry spans of calls, in programs that have set a provider; nothing in others.

Names and attributes follow the semantic conventions for RPC: a call of ``deposit`` of the group ``ledger`` is
``ledger/deposit``. A call is one span however often it is sent, and each copy sent is an event of the span.
Only the API is used, and only if the program itself has imported it: a program with a provider has.
"""

import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Literal

from holdfast.model.errors import HoldfastError
from holdfast.model.outcome import CallRefused, MethodRaised
from holdfast.model.traceparent import Traceparent

if TYPE_CHECKING:
    from opentelemetry import trace as api

SYSTEM: Final = "holdfast"
ATTEMPT: Final = "attempt"
"""The event of one copy of a call: the host it was sent to, and its result."""
ATTEMPTS_MAX: Final = 100
"""The most copies of one call that make an event: a call may be retried for a day."""
TEXT_MAX: Final = 300
OK: Final = "ok"

Kind = Literal["client", "server"]


class CallSpan:
    """The span of one call, as its caller or its host sees it. It ends once."""

    def __init__(self, telemetry: "Telemetry", span: "api.Span") -> None:
        self._telemetry = telemetry
        self._span = span
        self._attempts = 0
        found = span.get_span_context()
        trace, own = found.trace_id.to_bytes(16, "big"), found.span_id.to_bytes(8, "big")
        self.traceparent = Traceparent(trace, own, int(found.trace_flags)).encoded()

    def attempt(self, host: str, address: str, came_to: str) -> None:
        """Record that a copy was sent to *host*, and its result."""
        self._attempts += 1
        if self._attempts <= ATTEMPTS_MAX:
            noted: dict[str, str | int] = {
                "holdfast.attempt": self._attempts,
                "holdfast.host": host,
                "holdfast.came_to": came_to,
            }
            self._span.add_event(ATTEMPT, noted)
        name, colon, port = address.rpartition(":")
        if colon and port.isdigit():
            self._span.set_attributes({"server.address": name, "server.port": int(port)})

    def current(self) -> AbstractContextManager["api.Span"]:
        """Make this the current span: spans started inside the context become its children."""
        found: AbstractContextManager[api.Span] = self._telemetry.api.use_span(
            self._span, record_exception=False, set_status_on_exception=False
        )
        return found

    def end(self, error: BaseException | None = None) -> None:
        """End the span with *error*, or with success when it is None."""
        self._span.set_attribute("rpc.response.status_code", _code_of(error))
        if error is not None:
            self._span.set_attribute("error.type", _type_of(error))
            self._span.set_status(self._telemetry.api.StatusCode.ERROR, str(error)[:TEXT_MAX])
        self._span.end()


class Telemetry:
    """Creates the spans of this process."""

    def __init__(self, api: Any, tracer: "api.Tracer") -> None:
        self.api = api
        self._tracer = tracer

    def span(self, kind: Kind, group: str, method: str, parent: bytes = b"", **more: str) -> CallSpan:
        """Start a call's span inside *parent* (a traceparent as calls carry it), else the current span."""
        name = f"{group}/{method}"
        attributes = {"rpc.system.name": SYSTEM, "rpc.method": name}
        attributes |= {f"holdfast.{key}": value for key, value in more.items()}
        kinds = self.api.SpanKind
        span = self._tracer.start_span(
            name,
            self._within(parent),
            kinds.CLIENT if kind == "client" else kinds.SERVER,
            attributes,
        )
        return CallSpan(self, span)

    def _within(self, parent: bytes) -> Any:
        found = Traceparent.decoded(parent)
        if found is None:
            return None
        context = self.api.SpanContext(
            int.from_bytes(found.trace, "big"),
            int.from_bytes(found.span, "big"),
            is_remote=True,
            trace_flags=self.api.TraceFlags(found.flags),
        )
        return self.api.set_span_in_context(self.api.NonRecordingSpan(context))


def find_telemetry() -> Telemetry | None:
    """Find the provider of spans, or None without one. A provider that is set later is found later."""
    found: Any = sys.modules.get("opentelemetry.trace")
    if found is None:
        return None
    provider = found.get_tracer_provider()
    if isinstance(provider, found.ProxyTracerProvider | found.NoOpTracerProvider):
        return None
    return Telemetry(found, provider.get_tracer(SYSTEM))


def _code_of(error: BaseException | None) -> str:
    if error is None:
        return OK
    return error.code if isinstance(error, HoldfastError) else "failed"


def _type_of(error: BaseException) -> str:
    """The name of the class's own exception, the reason of a refusal, or the error code."""
    match error:
        case MethodRaised(type_name=name):
            return name
        case CallRefused(reason=reason):
            return reason
        case HoldfastError(code=code):
            return code
        case _:
            return type(error).__name__
