"""The requests to one group on an event loop: futures on :class:`holdfast.calling.invocation.Invocations`."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import msgspec

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.hosts import Hosts
from holdfast.calling.invocation import Invocations
from holdfast.calling.lane import Lane
from holdfast.calling.ports import Ended, InvocationPorts
from holdfast.calling.queueing import Queueing
from holdfast.machine.clock import MachineClock
from holdfast.machine.library_log import LibraryLog
from holdfast.machine.randomness import MachineRandom
from holdfast.machine.telemetry import CallSpan, find_telemetry
from holdfast.machine.timers import LoopTimers
from holdfast.model.calls import Redirected, RefusalCode, Replies, RequestId, Turned
from holdfast.model.errors import HoldfastError, Overloaded, Unavailable
from holdfast.model.fitting import fitted
from holdfast.model.ids import ClientId, HostId
from holdfast.model.outcome import Outcome, Returned, decode_outcome, value_of
from holdfast.model.ports import NoTrace
from holdfast.model.reference import Reference
from holdfast.model.system_groups import is_system
from holdfast.model.traceparent import Traceparent
from holdfast.styles.lines import CallLines
from holdfast.styles.operation import Call, Sent, encode_calls, traced
from holdfast.styles.story import Story, Unfollowed

log = LibraryLog("holdfast.calls")

Answer = asyncio.Future[Any]


class Typed(msgspec.Struct, frozen=True, eq=False):
    """An answer whose value is of a known type once it has come."""

    answer: Answer
    returns: Any
    about: RequestId | None = None
    """The request whose outcome was asked for; None: the answer is to the call itself."""


Handle = Answer | Typed


class Caller:
    """One client's requests to one group. Everything happens in the loop's thread.

    A future that is cancelled does not take its call back: it may be executed, and counts until it ends.
    """

    def __init__(
        self,
        reference: Reference,
        client: ClientId,
        time_ns: int,
        *,
        hosts: Hosts,
        config: ClientConfig,
        on_reference: Callable[[Reference], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._timers: list[LoopTimers] = []
        self._queueing = Queueing(self._loop, reference.name)
        clock = MachineClock()
        ports = InvocationPorts(
            clock=clock,
            timers=self._make_timers,
            network=hosts,
            random=MachineRandom(),
            trace=NoTrace(),
            on_ended=self._end,
            later=self._flush_soon,
            on_reference=on_reference,
            lines=CallLines(log.info, clock),
        )
        self._invocations = Invocations(reference, client, time_ns, ports=ports, config=config)
        # What the domain asks itself (pollers of the notifier, reports) is nobody's trace.
        self._telemetry = None if is_system(reference.name) else find_telemetry()
        self.is_gone = False
        """There is no such group any more: another may have its name by now."""
        self.is_held = False
        """A proxy stands on it, and may call whenever its program likes."""
        self.has_answered = False
        """The group has replied to something: ``time_s`` is its own, not the guess of a host."""
        for host in hosts.connected:
            self._invocations.on_connected(host)

    @property
    def reference(self) -> Reference:
        return self._invocations.reference

    @property
    def time_s(self) -> int:
        """The group's time, as far as it is known here (X4)."""
        return self._invocations.time_s

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything here."""
        return not self._queueing.waiting and self._invocations.is_idle

    # --- requests

    def call(
        self,
        method: str,
        arguments: bytes,
        policy: CallPolicy,
        is_query: bool = False,
        stale_ms: int | None = None,
        lane: Lane | None = None,
        returns: Any = None,
        story: Story | None = None,
    ) -> Answer:
        """Make a call; the future has its value, or the error it ended with. *returns*: the value's type,
        into which it is made, or ``ResultDoesNotFit`` says that it is none; None leaves it as it comes.
        *story* follows it."""
        if not self._queueing.waiting:
            answer: Answer = self._loop.create_future()
            handle: Handle = answer if returns is None else Typed(answer, returns)
            try:
                self._invocations.call(handle, method, arguments, policy, is_query, stale_ms, lane, story)
                return answer
            except Overloaded:
                pass
        return self._put_off(method, arguments, policy, is_query, stale_ms, lane, returns, story)

    @property
    def is_followed(self) -> bool:
        """Whether this program wants a span of each call: :meth:`call_traced` makes them."""
        return self._telemetry is not None

    def call_traced(
        self,
        method: str,
        arguments: bytes,
        policy: CallPolicy,
        is_query: bool = False,
        stale_ms: int | None = None,
        lane: Lane | None = None,
        returns: Any = None,
        traceparent: bytes = b"",
    ) -> Answer:
        """As :meth:`call`, in the trace of *traceparent* if there is one, else in that of the current span;
        with a span of its own, where the program wants one."""
        span = self._span(method, traceparent)
        story = span or (Unfollowed(traceparent) if traceparent else None)
        try:
            answer = self.call(method, arguments, policy, is_query, stale_ms, lane, returns, story)
        except HoldfastError as error:
            if span is not None:
                span.end(error)
            raise
        return _until_answered(answer, span)

    def outcome(self, about: RequestId, policy: CallPolicy, returns: Any = None) -> Answer:
        """Ask what became of a request; the future has what the request's own would have. *returns* as of
        :meth:`call`."""

        def ask(answer: Answer, policy: CallPolicy) -> None:
            handle: Handle = answer if returns is None else Typed(answer, returns, about)
            self._invocations.ask_outcome(handle, about, policy)

        if not self._queueing.waiting:
            answer: Answer = self._loop.create_future()
            try:
                ask(answer, policy)
                return answer
            except Overloaded:
                pass
        return self._queueing.add(ask, policy, 0)

    def call_as(
        self,
        request: RequestId,
        method: str,
        arguments: bytes,
        policy: CallPolicy,
        traceparent: bytes = b"",
    ) -> Answer:
        """Make a call under an id that is not of this client's numbering; only hosts may. Whoever else makes
        it under the same id, it is the same request: it may have run before, so what nobody answers is
        unknown. Raises ``Overloaded``."""
        span = self._span(method, traceparent)
        trace = Traceparent.of(traceparent, self.reference.name, request.client, request.number)
        story = span or Unfollowed(trace.encoded())
        call = Call(request.number, method, msgspec.Raw(arguments), request.expiration_s)
        calls = encode_calls([traced(call, story.traceparent)])
        sent = Sent(request.client, request.number, request.expiration_s, calls)
        answer: Answer = self._loop.create_future()
        try:
            self._invocations.relay(answer, sent, policy, method, story)
        except HoldfastError as error:
            if span is not None:
                span.end(error)
            raise
        return _until_answered(answer, span)

    def _span(self, method: str, traceparent: bytes) -> CallSpan | None:
        if self._telemetry is None:
            return None
        return self._telemetry.span("client", self.reference.name, method, traceparent)

    def _put_off(
        self,
        method: str,
        arguments: bytes,
        policy: CallPolicy,
        is_query: bool,
        stale_ms: int | None,
        lane: Lane | None,
        returns: Any,
        story: Story | None,
    ) -> Answer:
        def make(answer: Answer, policy: CallPolicy) -> None:
            handle: Handle = answer if returns is None else Typed(answer, returns)
            self._invocations.call(handle, method, arguments, policy, is_query, stale_ms, lane, story)

        return self._queueing.add(make, policy, len(arguments))

    # --- events

    def on_up(self, host: HostId) -> None:
        self._invocations.on_connected(host)

    def on_down(self, host: HostId) -> None:
        self._invocations.on_disconnected(host)
        self._queueing.admit()

    def on_message(self, host: HostId, message: Replies | Redirected | Turned) -> None:
        if isinstance(message, Replies):
            self.has_answered = True
        elif isinstance(message, Turned) and message.code is RefusalCode.NO_SUCH_GROUP:
            self.is_gone = True
        self._invocations.on_message(host, message)
        if self._queueing.waiting:
            self._queueing.admit()

    def close(self) -> None:
        error = Unavailable("the domain was closed; it was not executed")
        self._queueing.close(error)
        self._invocations.close(error)
        for timers in self._timers:
            timers.close()

    def _end(self, handle: Handle, how: Ended, call: Call) -> None:
        answer = handle.answer if type(handle) is Typed else cast(Answer, handle)
        if answer.done():
            return  # cancelled: nobody waits for it
        if not isinstance(how, bytes):
            answer.set_exception(how)
            return
        try:
            outcome: Outcome = decode_outcome(how)
            if type(outcome) is Returned:
                value = outcome.value
                answer.set_result(value if handle is answer else self._made(value, cast(Typed, handle), call))
            else:
                answer.set_result(value_of(outcome))
        except Exception as error:
            # Whatever it is, it is this call's alone: beyond here it would end the connection, and others'
            # calls.
            answer.set_exception(error)

    def _made(self, value: Any, handle: Typed, call: Call) -> Any:
        if type(value) is handle.returns:
            return value
        group, client = self.reference.group, self._invocations.client
        request = handle.about or RequestId(group, client, call.number, call.expiration_s)
        return fitted(value, handle.returns, call.method or "the call", request)

    # --- keeping

    def _flush_soon(self) -> None:
        self._loop.call_soon(self._invocations.flush)

    def _make_timers(self, on_timer: Callable[[Any], None]) -> LoopTimers:
        def fired(tag: Any) -> None:
            on_timer(tag)
            self._queueing.admit()

        timers = LoopTimers(self._loop, fired)
        self._timers.append(timers)
        return timers


def _until_answered(answer: Answer, span: CallSpan | None) -> Answer:
    """The same, which ends *span*."""
    if span is not None:
        answer.add_done_callback(partial(_end_span, span))
    return answer


def _end_span(span: CallSpan, answer: Answer) -> None:
    span.end(asyncio.CancelledError() if answer.cancelled() else answer.exception())
