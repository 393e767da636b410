"""Trace spans of a host: for the calls it executes for others, and for those that its groups make.

A host starts no trace of its own. A call that carries no trace, or one that is not sampled, gets no span
here; any other call gets a span within its caller's.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from holdfast.execution.effects import Outgoing
from holdfast.execution.records import Call
from holdfast.machine.telemetry import CallSpan, Telemetry, find_telemetry
from holdfast.model.calls import Request
from holdfast.model.errors import HoldfastError, Unavailable
from holdfast.model.ids import ClientId, HostId
from holdfast.model.outcome import decode_outcome, value_of
from holdfast.model.traceparent import SAMPLED, Traceparent

OPEN_MAX: Final = 10_000
"""How many unfinished calls of a group to follow: as many as may queue."""


def onlooker_of(host: HostId, group: str) -> "CallTracer | None":
    """The tracer for the calls of *group*; None without telemetry. Ask after loading the class, which may
    set the telemetry provider.
    """
    telemetry = find_telemetry()
    return CallTracer(telemetry, host, group) if telemetry is not None else None


class CallTracer:
    """Follows the calls of one group: implements :class:`holdfast.styles.ports.CallObserver`."""

    def __init__(self, telemetry: Telemetry, host: HostId, group: str) -> None:
        self._telemetry = telemetry
        self._host = host
        self._group = group
        self._open: dict[Request, CallSpan] = {}
        self._out: dict[Request, CallSpan] = {}
        """The spans of outgoing calls, by the request that waits for each."""

    def run(
        self, start: Callable[..., bytes | None], each: Call, client: ClientId, *more: Any
    ) -> bytes | None:
        if not _is_sampled(each.traceparent):
            return start(each, client, *more)
        span = self._telemetry.span("server", self._group, each.method, each.traceparent, host=self._host)
        with span.current():
            outcome = start(each, client, *more)
        if outcome is not None:
            _end(span, outcome)
        elif len(self._open) < OPEN_MAX:
            self._open[Request(client, each.number)] = span
        return outcome

    def ended(self, request: Request, outcome: bytes) -> None:
        span = self._open.pop(request, None)
        if span is not None:
            _end(span, outcome)

    def calls_out(self, outgoing: Outgoing) -> Outgoing:
        if not _is_sampled(outgoing.traceparent):
            return outgoing
        outer = self._open.get(outgoing.caller)
        parent = outer.traceparent if outer is not None else outgoing.traceparent
        span = self._telemetry.span("client", outgoing.group, outgoing.method, parent, host=self._host)
        self._out[outgoing.caller] = span
        return replace(outgoing, traceparent=span.traceparent, story=span)

    def came_back(self, caller: Request, outcome: bytes) -> None:
        span = self._out.pop(caller, None)
        if span is not None:
            _end(span, outcome)

    def forsake(self) -> None:
        out, self._out = self._out, {}
        spans, self._open = self._open, {}
        for span in (*out.values(), *spans.values()):
            span.end(Unavailable("this host serves the group no longer"))


def _is_sampled(carried: bytes) -> bool:
    found = Traceparent.decoded(carried) if carried else None
    return found is not None and bool(found.flags & SAMPLED)


def _end(span: CallSpan, outcome: bytes) -> None:
    try:
        value_of(decode_outcome(outcome))
        span.end()
    except (HoldfastError, msgspec.DecodeError) as error:
        span.end(error)
