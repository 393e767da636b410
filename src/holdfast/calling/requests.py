"""The requests of one client to one group, from the call to its end: each has exactly one outcome.

Rules. A request keeps its number and expiration for ever, and a number is never reused (FTC-93). Its
expiration counts in the group's time (X4); if it turns out to be wrong and the request has not run, the call
becomes a new request (:mod:`.request_ids`). A request is sent again, as the same request, until its duration
has passed: to the primary of the newest reference, else to every other address in turn (FTC-71), whenever
table 27-1 allows (:mod:`.retry`). Only newer references are adopted. A request ends once: with the group's
outcome, with an error that says it was not executed, or as ``CallOutcomeUnknown`` with its id, never with a
guess.

Mechanism. Requests gather until ``flush``, which sends everything that waits, ``CALLS_PER_FRAME_MAX`` to a
frame. A frame is in *flight* until all its requests have ended, until it is turned away, until its connection
ends, or until it has gone unanswered for too long; then the requests that have not ended wait again,
together. A frame that was turned away was not executed, because a connection delivers a frame at most once.
Of a lost frame nothing is known.
"""

from collections.abc import Hashable
from typing import Final

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.deadline import DeadlineTimer, GroupTime
from holdfast.calling.in_flight import InFlight, Outbox
from holdfast.calling.ordered_lane import OrderedLane
from holdfast.calling.outcomes import Outcomes, UnsettledRequests
from holdfast.calling.ports import Ended, RequestPorts
from holdfast.calling.request import Frame, PendingRequest, RequestLog, aside_frame, calls_frame
from holdfast.calling.request_ids import Floor, RequestIds, is_reckoned_wrong, mistrust, renewed
from holdfast.calling.retry import FAILURE_OF_REFUSAL, Completion, Failure, RetryPause, may_retry
from holdfast.calling.targets import Targets
from holdfast.execution.effects import RequestTrace
from holdfast.execution.records import Sent
from holdfast.model.calls import (
    CALL_BYTES_MAX,
    CALLS_PER_FRAME_MAX,
    NO_FRAME,
    CallOutcomeUnknown,
    Follow,
    Redirected,
    RefusalCode,
    Replies,
    RequestId,
    Seen,
    Turned,
)
from holdfast.model.errors import HoldfastError, InvalidRequest, Overloaded, Unavailable
from holdfast.model.ids import MILLISECOND, SECOND, ClientId, HostId
from holdfast.model.reference import Reference

NO_ARGUMENTS: Final = b"\x90"
SWEEP_NS: Final = 10 * MILLISECOND
"""The precision of deadlines: thousands that are due one after the other are handled together."""


class Requests:
    """One client's requests to one group."""

    def __init__(
        self,
        reference: Reference,
        client: ClientId,
        time_ns: int,
        *,
        ports: RequestPorts,
        config: ClientConfig,
    ) -> None:
        """*time_ns* is the group's time now."""
        self.client = client
        self._ports = ports
        self._config = config
        self._clock = ports.clock
        self._addresses = Targets(reference)
        self._time = GroupTime(ports.clock, time_ns)
        self._numbering = RequestIds(self._time)
        self._floor = Floor()
        self._seen = Seen()
        self._awaited: dict[int, PendingRequest] = {}
        self._awaited_bytes = 0
        self._window = config.window_calls
        """How many requests may be awaited; 0 after :meth:`close`."""
        self._unsettled = UnsettledRequests(client, self._floor)
        timers = ports.timers(self._on_timer)
        self._outbox = Outbox(config.frame_bytes)
        self._in_flight = InFlight(ports.clock, timers, config, "patience")
        self._deadline = DeadlineTimer(timers, ports.clock, "deadline")
        self._backoff = RetryPause(timers, ports, config, "rest")
        self._is_flush_asked = False
        self._rng = ports.random.stream("invocation")
        self._outcomes = Outcomes(self._addresses, client, ports.clock)
        self._request_log = RequestLog(self._addresses, client, ports)

    # --- making requests

    @property
    def reference(self) -> Reference:
        return self._addresses.reference

    @property
    def time_s(self) -> int:
        """The group's time, as far as it is known here (X4)."""
        return (self._clock.now() + self._time.ahead_ns) // SECOND

    @property
    def is_idle(self) -> bool:
        """Whether every request has ended."""
        return not self._awaited

    @property
    def frames_sent(self) -> int:
        """How many frames of requests were sent, repetitions included."""
        return self._in_flight.departed

    def call(
        self,
        handle: object,
        method: str,
        arguments: bytes,
        policy: CallPolicy,
        is_query: bool = False,
        stale_ms: int | None = None,
        lane: OrderedLane | None = None,
        story: RequestTrace | None = None,
    ) -> int:
        """Make a call and return its number. ``on_ended`` follows, with *handle*.

        With *stale_ms* any member may answer from a state that old. *story* traces the call. Raises
        ``Overloaded`` if there is no room, ``Unavailable`` after :meth:`close`, ``InvalidRequest`` if the
        arguments are too long, and ``Rejected`` if *lane* is blocked; then nothing was sent.
        """
        if len(arguments) > CALL_BYTES_MAX:
            raise InvalidRequest(
                f"{method}: {len(arguments)} bytes of arguments; {CALL_BYTES_MAX} are allowed"
            )
        is_usual = lane is None and story is None and stale_ms is None and not is_query
        if not is_usual or not policy.is_reinvoked:
            if lane is not None:
                lane.check(self.time_s)
            self._check_room()
            request = self._numbering.request(handle, method, arguments, policy, self._clock.now(), story)
            request.is_plain = False
            request.lane = lane
            request.is_query = is_query or stale_ms is not None
            request.stale_ms = stale_ms
            request.is_reinvoked = policy.is_reinvoked or request.is_query
            self._begin(request)
            return request.call.number
        # Nearly every call, without a function for each of its steps (:meth:`_begin`).
        if len(self._awaited) >= self._window or self._awaited_bytes >= self._config.window_bytes:
            self._check_room()
        request = self._numbering.request(handle, method, arguments, policy, self._clock.now())
        number = request.call.number
        self._awaited[number] = request
        self._awaited_bytes += request.size
        if request.deadline_ns < self._deadline.at_ns:
            self._deadline.by(request.deadline_ns)
        calls = self._outbox.calls
        calls.append(request)
        if not len(calls) % CALLS_PER_FRAME_MAX:
            self.flush()
        elif not self._is_flush_asked:
            self._is_flush_asked = True
            self._ports.later()
        return number

    def ask_outcome(
        self, handle: object, about: RequestId, policy: CallPolicy, *, withdraws: bool = False
    ) -> int:
        """Ask for the final outcome of a request (X3). The question ends with that outcome. With *withdraws*,
        the request is withdrawn if it is queued and has not begun."""
        self._check_room()
        request = self._numbering.request(handle, "", NO_ARGUMENTS, policy, self._clock.now())
        request.is_plain = False
        request.is_query = True
        request.asks_about = about
        request.withdraws = withdraws
        self._begin(request)
        return request.call.number

    def relay(
        self,
        handle: object,
        sent: Sent,
        policy: CallPolicy,
        method: str = "",
        story: RequestTrace | None = None,
        *,
        may_have_left: bool = True,
    ) -> int:
        """Make the single call in *sent*, of *method*, on behalf of a group (E3). Its id and expiration are
        the group's and the same for every sender, so a copy may have been sent before (*may_have_left*)."""
        self._check_room()
        request = self._numbering.request(handle, method, NO_ARGUMENTS, policy, self._clock.now(), story)
        request.is_plain = False
        request.is_maybe = may_have_left
        request.relayed = sent
        request.size = len(sent.calls)
        self._begin(request)
        return request.call.number

    def close(self, error: HoldfastError) -> None:
        """End all requests: those that were not executed with *error*, those that may have been as
        unknown."""
        self._window = 0
        for request in list(self._awaited.values()):
            self._end(request, self._outcomes.unserved(request, error))
        self._deadline.cancel()
        self._backoff.end()
        self._in_flight.close()

    def flush(self) -> None:
        """Send everything that waits, if there is a host to send it to."""
        self._is_flush_asked = False
        target = None if self._backoff.is_on else self._addresses.target()
        if target is None:
            return
        if (outbox := self._outbox).calls:
            for requests in outbox.take_calls(self._awaited):
                self._send_calls(target, requests)
        if outbox.lanes or outbox.asides:
            for requests in outbox.take_lanes(self._time.most_s()):
                self._send_calls(target, requests)
            for request in outbox.take_asides(self._awaited):
                self._send_aside(target, request)

    # --- events

    def on_connected(self, host: HostId) -> None:
        self._addresses.on_connected(host)
        self._ports.network.send(host, Follow(self.reference.group))
        if not self._backoff.is_after_deaths:
            self._end_backoff()

    def on_disconnected(self, host: HostId) -> None:
        """Handle the end of a connection: nothing is known of what was sent on it."""
        self._addresses.on_disconnected(host)
        self._lose(host, Failure.COMM_FAILURE)

    def on_message(self, host: HostId, message: Replies | Redirected | Turned) -> None:
        match message:
            case Replies():
                self.on_replies(message)
            case Redirected(frame=frame, reference=reference) if frame == NO_FRAME:
                self._on_moved(host, reference)
            case Redirected(frame=frame, reference=reference):
                self._on_turned(host, Turned(frame, reference.group, RefusalCode.NOT_PRIMARY), reference)
            case Turned():
                self._on_turned(host, message, None)

    def _check_room(self) -> None:
        if not self._window:
            raise Unavailable(f"{self.reference.name}: the domain is closed")
        if len(self._awaited) >= self._window or self._awaited_bytes >= self._config.window_bytes:
            raise Overloaded(f"{len(self._awaited)} requests to {self.reference.name} have no answer yet")

    def _begin(self, request: PendingRequest) -> None:
        self._awaited[request.call.number] = request
        self._awaited_bytes += request.size
        if request.deadline_ns < self._deadline.at_ns:
            self._deadline.by(request.deadline_ns)
        if self._outbox.add(request):
            self.flush()
        else:
            self._ask_flush()

    def _ask_flush(self) -> None:
        if not self._is_flush_asked:
            self._is_flush_asked = True
            self._ports.later()

    # --- sending

    def _send_calls(self, host: HostId, requests: list[PendingRequest]) -> None:
        time_s = (self._clock.now() + self._time.ahead_ns) // SECOND
        floor = self._floor.value(self._awaited, self._numbering.next_number, time_s)
        frame, to = self._in_flight.depart(host, requests), self._addresses.reference
        latest_s = self._numbering.horizon_s
        message = calls_frame(frame, to, self._seen, self.client, requests, floor=floor, horizon_s=latest_s)
        self._ports.network.send(host, message)

    def _send_aside(self, target: HostId, request: PendingRequest) -> None:
        if request.stale_ms is not None and request.turned_by is None:
            # Any member will do at first; a read that was turned away goes to the primary.
            target = self._rng.choice(self._addresses.connected_members() or [target])
        frame = self._in_flight.depart(target, [request])
        message = aside_frame(frame, self.reference, self._seen, self.client, request)
        self._ports.network.send(target, message)

    # --- answers

    def on_replies(self, replies: Replies) -> None:
        """Handle the outcomes of requests."""
        seen = replies.seen
        if (seen.epoch, seen.position) > (self._seen.epoch, self._seen.position):
            self._seen = seen
        self._in_flight.slow_rounds = self._backoff.taken = 0  # somebody serves
        awaited, landed, ended = self._awaited, self._in_flight.on_ended, self._ports.on_ended
        first = next(filter(None, map(awaited.get, replies.numbers)), None)
        if first is not None and first.stale_ms is None:
            # Any member answers a stale read, which is alone in its frame. Any other reply shows who takes
            # calls, and tells the time by which they are stamped.
            if self._addresses.failed:
                self._addresses.on_served()
            if self._time.learn(replies.time_ns, seen.epoch):
                mistrust(awaited.values(), self.time_s)
        for number, outcome in zip(replies.numbers, replies.outcomes, strict=True):
            request = awaited.get(number)
            if request is None:
                continue  # another copy was answered before
            if not request.is_plain:
                self._judge(request, outcome)
                continue
            del awaited[number]
            self._awaited_bytes -= request.size
            if (flight := request.flight) is not None and flight.left > 1:
                flight.left -= 1
            else:
                landed(request)  # the last of its frame
            ended(request.handle, outcome, request.call)

    def _judge(self, request: PendingRequest, outcome: bytes) -> None:
        """Handle the answer to an unusual request, whose outcome may mean something else than it says."""
        if is_reckoned_wrong(request, outcome, self.time_s):
            self._forget(request)
            self._begin(renewed(request, self._numbering, self._request_log.trace_of(request)))
            return
        if request.asks_about is not None:
            self._unsettled.settle(request.asks_about)
        self._end(request, self._outcomes.judged(request, outcome))

    def _on_turned(self, host: HostId, turned: Turned, reference: Reference | None) -> None:
        """Handle a refused frame: nothing of it was executed (completion *no*)."""
        flight = self._in_flight.take(turned.frame)
        failure = FAILURE_OF_REFUSAL[turned.code]
        requests = self._unended(flight)
        self._request_log.failed("a call was turned away", host, requests, turned.code.value)
        for request in requests:
            request.flight = None
            request.turned_by = turned.code
            if turned.code in (RefusalCode.UNAVAILABLE, RefusalCode.OVERLOADED) and turned.text:
                request.turned_text = turned.text
            if may_retry(failure, Completion.NO, is_reinvoked=request.is_reinvoked):
                self._wait_again(request)
            else:
                self._end(request, self._outcomes.turned_away(request, turned))
        if reference is not None and self._addresses.is_news(reference):
            self._adopt(reference, told_by=host)
        elif flight is not None and (
            turned.code is RefusalCode.OVERLOADED or self._addresses.on_failed(host)
        ):
            self._backoff.begin()
        self._ask_flush()

    def _on_moved(self, host: HostId, reference: Reference) -> None:
        """Note that *host* serves the group from now on, in the view of *reference*."""
        if self._addresses.is_news(reference):
            self._adopt(reference, told_by=host)
        elif reference == self.reference:
            self._addresses.on_served()
            self._end_backoff()

    def _adopt(self, reference: Reference, told_by: HostId) -> None:
        old = self.reference.primary
        self._addresses.adopt(reference)
        self._ports.trace.note("reference", group=reference.group, version=reference.version)
        self._ports.on_reference(reference)
        if old not in (reference.primary, told_by):
            # The old primary will commit nothing more. If it had told us itself, it would turn away what it
            # holds.
            self._lose(old, Failure.TRANSIENT)
        self._end_backoff()

    # --- failures

    def _lose(self, host: HostId, failure: Failure) -> None:
        """Handle that nothing is known of the unanswered requests sent to *host* (completion *maybe*)."""
        lost = [each for flight in self._in_flight.take_all_to(host) for each in self._unended(flight)]
        self._request_log.failed("a call was lost", host, lost, failure.name.lower())
        if failure is Failure.COMM_FAILURE and any(each.losses for each in lost):
            self._backoff.begin_after_deaths()
        for request in lost:
            request.flight = None
            request.losses += failure is Failure.COMM_FAILURE
            request.is_maybe = True
            request.is_plain = False
            if may_retry(failure, Completion.MAYBE, is_reinvoked=request.is_reinvoked):
                self._wait_again(request)
            else:
                self._end(request, self._outcomes.unknown(request))
        if lost:
            self._ports.trace.note("lost", host=host, requests=len(lost), why=failure.name)
            self._ask_flush()

    def _unended(self, flight: Frame | None) -> list[PendingRequest]:
        """Return the requests of a frame that have not ended."""
        if flight is None:
            return []
        return [each for each in flight.requests if self._awaited.get(each.number) is each]

    def _wait_again(self, request: PendingRequest) -> None:
        blocked_by = request.lane.blocked_by if request.lane is not None else None
        if blocked_by is not None:
            self._end(request, self._outcomes.not_sent(request, blocked_by))
        else:
            self._outbox.add(request)

    def _end_backoff(self) -> None:
        self._backoff.end()
        self._ask_flush()

    # --- time

    def _on_timer(self, tag: Hashable) -> None:
        if tag == "deadline":
            self._end_overdue()
        elif tag == "patience":
            for host in self._in_flight.on_alarm():
                self._lose(host, Failure.NO_RESPONSE)
                self._addresses.on_failed(host)
        else:
            self._backoff.rang()
            self._ask_flush()

    def _end_overdue(self) -> None:
        self._deadline.rang()
        now = self._clock.now()
        for request in [each for each in self._awaited.values() if each.deadline_ns <= now]:
            self._end(request, self._outcomes.nobody(request))
        if self._awaited:
            earliest_ns = min(each.deadline_ns for each in self._awaited.values())
            self._deadline.by(max(earliest_ns, now + SWEEP_NS))

    # --- ending

    def _end(self, request: PendingRequest, how: Ended) -> None:
        if self._awaited.get(request.number) is not request:
            return  # another request's end ended this one too: the calls of a lane end together
        self._request_log.ended(request, how)
        self._forget(request)
        self._ports.on_ended(request.handle, how, request.call)
        if isinstance(how, CallOutcomeUnknown) and request.asks_about is None:
            for follower in self._unsettled.add(request, how.request_id, self.time_s):
                self._end(follower, self._outcomes.not_sent(follower, how.request_id))

    def _forget(self, request: PendingRequest) -> None:
        del self._awaited[request.number]
        self._awaited_bytes -= request.size
        self._in_flight.on_ended(request)
        self._outbox.on_ended(request)
        if request.lane is not None:
            self._ask_flush()
