"""The requests to one group on an event loop: futures on :class:`holdfast.calling.requests.Requests`.

:class:`RequestQueue` holds the requests that wait because too many are in flight: first come, first served,
within bounds.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.connections import HostConnections
from holdfast.calling.ordered_lane import OrderedLane
from holdfast.calling.ports import Ended, RequestPorts
from holdfast.calling.requests import Requests
from holdfast.execution.effects import RequestTrace, Untraced
from holdfast.execution.records import Call, Sent, encode_calls, traced
from holdfast.machine.real_ports import LoopTimers, MachineClock, MachineRandom
from holdfast.machine.telemetry import CallSpan, find_telemetry
from holdfast.machine.trace import LibraryLog
from holdfast.model.calls import Redirected, RefusalCode, Replies, RequestId, Turned
from holdfast.model.conversion import fitted
from holdfast.model.errors import HoldfastError, Overloaded, Unavailable
from holdfast.model.ids import SECOND, ClientId, HostId
from holdfast.model.outcome import Outcome, Returned, decode_outcome, value_of
from holdfast.model.ports import NoTrace
from holdfast.model.reference import Reference
from holdfast.model.system_groups import is_system
from holdfast.model.traceparent import Traceparent
from holdfast.styles.call_log import CallLog

WAITING_MAX: Final = 100_000
WAITING_BYTES_MAX: Final = 64 << 20
"""How many requests, and bytes of their arguments, may wait. Further callers get ``Overloaded``."""

Make = Callable[[asyncio.Future[Any], CallPolicy], object]
"""Makes a queued request; raises ``Overloaded`` while there is no room."""


class RequestQueue:
    """The requests to one group that have not begun. They keep their order, and nobody overtakes those who
    wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self.waiting: deque[_Waiting] = deque()
        """The waiting requests, to be read only; nearly always empty."""
        self._bytes = 0
        self._is_admitting = False

    def add(self, make: Make, policy: CallPolicy, size: int) -> asyncio.Future[Any]:
        """Queue a request and return a future of its outcome. Its duration counts from now."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        is_full = len(self.waiting) >= WAITING_MAX or self._bytes + size > WAITING_BYTES_MAX
        if is_full or not policy.waits_for_room:
            answer.set_exception(Overloaded(f"{self._name}: too many requests have no answer yet"))
            return answer
        self.waiting.append(_Waiting(answer, make, policy, size, self._loop))
        self._bytes += size
        return answer

    def admit(self) -> None:
        """Start the requests that there is room for."""
        if self._is_admitting:
            return  # a connection ended because of the request that starts just now; the outer call goes on
        self._is_admitting = True
        try:
            while self.waiting and self._has_begun(self.waiting.popleft()):
                pass
        finally:
            self._is_admitting = False

    def _has_begun(self, first: "_Waiting") -> bool:
        """Start *first*, or put it back. Meanwhile it is not in the queue, so that it cannot start twice,
        whatever happens as it starts."""
        self._bytes -= first.size
        try:
            first.begin()
        except Overloaded:
            self.waiting.appendleft(first)
            self._bytes += first.size
            return False
        return True

    def close(self, error: HoldfastError) -> None:
        for each in self.waiting:
            each.end(error)
        self.waiting.clear()
        self._bytes = 0


class _Waiting:
    def __init__(
        self,
        answer: asyncio.Future[Any],
        make: Make,
        policy: CallPolicy,
        size: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.size = size
        self._answer = answer
        self._make = make
        self._policy = policy
        self._loop = loop
        self._until = loop.time() + policy.duration_ns / SECOND
        self._late = Overloaded("there was no room for the call within its duration; it was not executed")
        self._timer = loop.call_at(self._until, self.end, self._late)

    def begin(self) -> None:
        """Start the request. Raises ``Overloaded`` if it must go on waiting."""
        left_ns = round((self._until - self._loop.time()) * SECOND)
        if left_ns <= 0:
            self.end(self._late)  # its timer is due, and has not run yet
            return
        if not self._answer.done():
            try:
                self._make(self._answer, self._policy.lasting(left_ns))
            except Overloaded:
                raise
            except HoldfastError as error:
                self._answer.set_exception(error)
        self._timer.cancel()

    def end(self, error: HoldfastError) -> None:
        self._timer.cancel()
        if not self._answer.done():
            self._answer.set_exception(error)


log = LibraryLog("holdfast.calls")

Answer = asyncio.Future[Any]


class Typed(msgspec.Struct, frozen=True, eq=False):
    """A future whose result is converted to a known type."""

    answer: Answer
    returns: Any
    about: RequestId | None = None
    """The request whose outcome was asked for; None if the answer is to the call itself."""


Handle = Answer | Typed


class GroupClient:
    """One client's requests to one group. Everything happens in the loop's thread.

    Cancelling a future does not withdraw its call: it may be executed, and counts until it ends.
    """

    def __init__(
        self,
        reference: Reference,
        client: ClientId,
        time_ns: int,
        *,
        hosts: HostConnections,
        config: ClientConfig,
        on_reference: Callable[[Reference], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._timers: list[LoopTimers] = []
        self._queue = RequestQueue(self._loop, reference.name)
        clock = MachineClock()
        ports = RequestPorts(
            clock=clock,
            timers=self._make_timers,
            network=hosts,
            random=MachineRandom(),
            trace=NoTrace(),
            on_ended=self._end,
            later=self._flush_soon,
            on_reference=on_reference,
            lines=CallLog(log.info, clock),
        )
        self._requests = Requests(reference, client, time_ns, ports=ports, config=config)
        # Calls that the domain makes itself (polling the notifier, reports) belong to nobody's trace.
        self._telemetry = None if is_system(reference.name) else find_telemetry()
        self.is_gone = False
        """Whether the group no longer exists; another may have its name by now."""
        self.is_held = False
        """Whether a proxy uses it, and may call at any time."""
        self.has_answered = False
        """Whether the group has replied to anything: then ``time_s`` is its own time, not the guess of a
        host."""
        for host in hosts.connected:
            self._requests.on_connected(host)

    @property
    def reference(self) -> Reference:
        return self._requests.reference

    @property
    def time_s(self) -> int:
        """The group's time, as far as it is known here (X4)."""
        return self._requests.time_s

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything here."""
        return not self._queue.waiting and self._requests.is_idle

    # --- requests

    def call(
        self,
        method: str,
        arguments: bytes,
        policy: CallPolicy,
        is_query: bool = False,
        stale_ms: int | None = None,
        lane: OrderedLane | None = None,
        returns: Any = None,
        story: RequestTrace | None = None,
    ) -> Answer:
        """Make a call and return a future of its value, or of the error it ended with. The value is converted
        to the type *returns*, or ``ResultDoesNotFit`` is raised if it does not fit; with None it is left as
        it comes. *story* traces the call."""
        if not self._queue.waiting:
            answer: Answer = self._loop.create_future()
            handle: Handle = answer if returns is None else Typed(answer, returns)
            try:
                self._requests.call(handle, method, arguments, policy, is_query, stale_ms, lane, story)
                return answer
            except Overloaded:
                pass
        return self._put_off(method, arguments, policy, is_query, stale_ms, lane, returns, story)

    @property
    def is_followed(self) -> bool:
        """Whether this program wants a span for each call; :meth:`call_traced` makes them."""
        return self._telemetry is not None

    def call_traced(
        self,
        method: str,
        arguments: bytes,
        policy: CallPolicy,
        is_query: bool = False,
        stale_ms: int | None = None,
        lane: OrderedLane | None = None,
        returns: Any = None,
        traceparent: bytes = b"",
    ) -> Answer:
        """Make a call like :meth:`call`, in the trace of *traceparent* if there is one, else in that of the
        current span. It has its own span if the program wants one."""
        span = self._span(method, traceparent)
        story = span or (Untraced(traceparent) if traceparent else None)
        try:
            answer = self.call(method, arguments, policy, is_query, stale_ms, lane, returns, story)
        except HoldfastError as error:
            if span is not None:
                span.end(error)
            raise
        return _until_answered(answer, span)

    def outcome(self, about: RequestId, policy: CallPolicy, returns: Any = None) -> Answer:
        """Ask what became of a request, and return a future of what the request's own future would have.
        *returns* is as in :meth:`call`."""

        def ask(answer: Answer, policy: CallPolicy) -> None:
            handle: Handle = answer if returns is None else Typed(answer, returns, about)
            self._requests.ask_outcome(handle, about, policy)

        if not self._queue.waiting:
            answer: Answer = self._loop.create_future()
            try:
                ask(answer, policy)
                return answer
            except Overloaded:
                pass
        return self._queue.add(ask, policy, 0)

    def call_as(
        self,
        request: RequestId,
        method: str,
        arguments: bytes,
        policy: CallPolicy,
        traceparent: bytes = b"",
    ) -> Answer:
        """Make a call under an id that this client did not number; only hosts may do this. A call under the
        same id is the same request, no matter who makes it. It may have run before, so without an answer its
        outcome is unknown. Raises ``Overloaded``."""
        span = self._span(method, traceparent)
        trace = Traceparent.of(traceparent, self.reference.name, request.client, request.number)
        story = span or Untraced(trace.encoded())
        call = Call(request.number, method, msgspec.Raw(arguments), request.expiration_s)
        calls = encode_calls([traced(call, story.traceparent)])
        sent = Sent(request.client, request.number, request.expiration_s, calls)
        answer: Answer = self._loop.create_future()
        try:
            self._requests.relay(answer, sent, policy, method, story)
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
        lane: OrderedLane | None,
        returns: Any,
        story: RequestTrace | None,
    ) -> Answer:
        def make(answer: Answer, policy: CallPolicy) -> None:
            handle: Handle = answer if returns is None else Typed(answer, returns)
            self._requests.call(handle, method, arguments, policy, is_query, stale_ms, lane, story)

        return self._queue.add(make, policy, len(arguments))

    # --- events

    def on_up(self, host: HostId) -> None:
        self._requests.on_connected(host)

    def on_down(self, host: HostId) -> None:
        self._requests.on_disconnected(host)
        self._queue.admit()

    def on_message(self, host: HostId, message: Replies | Redirected | Turned) -> None:
        if isinstance(message, Replies):
            self.has_answered = True
            self._requests.on_replies(message)
        else:
            self.is_gone |= isinstance(message, Turned) and message.code is RefusalCode.NO_SUCH_GROUP
            self._requests.on_message(host, message)
        if self._queue.waiting:
            self._queue.admit()

    def close(self) -> None:
        error = Unavailable("the domain was closed; it was not executed")
        self._queue.close(error)
        self._requests.close(error)
        for timers in self._timers:
            timers.close()

    def _end(self, handle: Handle, how: Ended, call: Call) -> None:
        typed, answer = (handle, handle.answer) if isinstance(handle, Typed) else (None, handle)
        if answer.done():
            return  # cancelled, so nobody waits for it
        if not isinstance(how, bytes):
            answer.set_exception(how)
            return
        try:
            outcome: Outcome = decode_outcome(how)
            if type(outcome) is Returned:
                value = outcome.value
                if typed is not None and type(value) is not typed.returns:
                    value = self._made(value, typed, call)
                answer.set_result(value)
            else:
                answer.set_result(value_of(outcome))
        except Exception as error:
            # The error belongs to this call alone. If it went further, it would end the connection, and other
            # calls with it.
            answer.set_exception(error)

    def _made(self, value: Any, handle: Typed, call: Call) -> Any:
        group, client = self.reference.group, self._requests.client
        request = handle.about or RequestId(group, client, call.number, call.expiration_s)
        return fitted(value, handle.returns, call.method or "the call", request)

    # --- timers and flushing

    def _flush_soon(self) -> None:
        self._loop.call_soon(self._requests.flush)

    def _make_timers(self, on_timer: Callable[[Any], None]) -> LoopTimers:
        def fired(tag: Any) -> None:
            on_timer(tag)
            self._queue.admit()

        timers = LoopTimers(self._loop, fired)
        self._timers.append(timers)
        return timers


def _until_answered(answer: Answer, span: CallSpan | None) -> Answer:
    """Return *answer*, and end *span* when it is done."""
    if span is not None:
        answer.add_done_callback(partial(_end_span, span))
    return answer


def _end_span(span: CallSpan, answer: Answer) -> None:
    span.end(asyncio.CancelledError() if answer.cancelled() else answer.exception())
