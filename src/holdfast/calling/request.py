"""A request that has not ended, the frames that carry it, and what is logged about it.

:func:`calls_frame` and :func:`aside_frame` make the frames, with what each says besides its requests.
:class:`RequestLog` reports requests that are not simply answered: to people in log lines, and to the
request's trace.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from holdfast.execution.effects import RequestTrace
from holdfast.execution.records import Call, Sent
from holdfast.model.calls import CALLS_PER_FRAME_MAX, RefusalCode, RequestId
from holdfast.model.ids import HostId

if TYPE_CHECKING:
    from holdfast.calling.ordered_lane import OrderedLane
from typing import Final

from holdfast.calling.ports import Ended, RequestPorts
from holdfast.calling.targets import Targets
from holdfast.execution.records import LaneSent, encode_calls
from holdfast.model.calls import Calls, Nested, Reads, Seen, Settle
from holdfast.model.ids import MILLISECOND, ClientId
from holdfast.model.reference import Reference
from holdfast.model.traceparent import Traceparent


class PendingRequest(
    msgspec.Struct, eq=False
):  # a Struct, because one is made for every call: C code makes it, with its defaults
    """One request, from when it was made until it ends. Its call, number and expiration never change: every
    copy that is sent again is the same request (FTC-93)."""

    call: Call
    handle: object
    """Belongs to the maker, and is handed back with the outcome."""
    size: int
    began_ns: int
    deadline_ns: int
    outcome_ns: int
    """How long after the deadline its outcome can be asked for."""
    flight: "Frame | None" = None
    """The frame that carries it now; None while it waits to be sent."""
    is_plain: bool = True
    """Whether nothing below is set, so that any outcome simply ends it."""
    is_maybe: bool = False
    """Whether a copy was sent and nothing was heard of it, so that it may have been executed."""
    losses: int = 0
    """How many connections ended while a copy was on its way or being executed there."""
    turned_by: RefusalCode | None = None
    """Why it was last turned away without being executed."""
    turned_text: str = ""
    """The last reason that a host gave for not serving it, for people."""
    is_reinvoked: bool = True
    is_query: bool = False
    """Whether it changes nothing, so that executing it twice is harmless."""
    lane: "OrderedLane | None" = None
    place: int = 0
    """Its position among the calls of its lane, from 1."""
    stale_ms: int | None = None
    """The age of a state from which any member may answer this read."""
    asks_about: RequestId | None = None
    """The other request that this one asks about."""
    withdraws: bool = False
    """Whether the other request shall not begin if it is still queued."""
    relayed: Sent | None = None
    """The call of another group to this one (E3)."""
    tries: int = 0
    """How many of its copies failed."""
    story: RequestTrace | None = None
    """The trace of this request."""

    @property
    def number(self) -> int:
        return self.call.number

    @property
    def travels_alone(self) -> bool:
        return self.stale_ms is not None or self.asks_about is not None or self.relayed is not None

    @property
    def may_have_run(self) -> bool:
        return (self.is_maybe or self.flight is not None) and not self.is_query


class Frame(msgspec.Struct, eq=False):
    """One frame in flight, and the requests in it."""

    frame: int
    host: HostId
    requests: list[PendingRequest]
    sent_ns: int
    left: int
    """How many of them have not ended."""


def frame_of(requests: Iterable[PendingRequest], bytes_max: int) -> list[PendingRequest]:
    """Return as many of *requests*, from the first on, as one frame takes."""
    frame: list[PendingRequest] = []
    size = 0
    for request in requests:
        size += request.size
        if frame and (size > bytes_max or len(frame) == CALLS_PER_FRAME_MAX):
            break
        frame.append(request)
    return frame


_encode: Final = msgspec.msgpack.Encoder().encode
_call_of: Final = attrgetter("call")


def calls_frame(
    frame: int,
    reference: Reference,
    seen: Seen,
    client: ClientId,
    requests: list[PendingRequest],
    *,
    floor: int,
    horizon_s: int,
) -> Calls:
    """Make a frame of calls to be ordered. What the group keeps of them is encoded here, once for all
    members."""
    calls = msgspec.Raw(_encode(list(map(_call_of, requests))))
    if requests[0].lane is None:
        sent = Sent(client, floor, horizon_s, calls)
    else:
        sent = LaneSent(client, floor, horizon_s, calls, is_ordered=True)
    return Calls(frame, reference.group, reference.version, seen, msgspec.Raw(_encode(sent)))


def aside_frame(
    frame: int, reference: Reference, seen: Seen, client: ClientId, request: PendingRequest
) -> Settle | Reads | Nested:
    """Make the frame of a question about a request, of a call from another group, or of a stale read."""
    if request.relayed is not None:
        sent = msgspec.Raw(_encode(request.relayed))
        return Nested(frame, reference.group, reference.version, seen, request.number, sent)
    about = request.asks_about
    if about is None:
        calls = encode_calls([request.call])
        return Reads(frame, reference.group, reference.version, seen, request.stale_ms or 0, client, calls)
    return Settle(
        frame,
        reference.group,
        reference.version,
        seen,
        request.number,
        about.client,
        about.number,
        about.expiration_s,
        request.withdraws,
    )


class RequestLog:
    """Logs one client's requests to the group of *addresses*."""

    def __init__(self, addresses: Targets, client: ClientId, ports: RequestPorts) -> None:
        self._addresses = addresses
        self._client = client
        self._clock = ports.clock
        self._lines = ports.lines

    def trace_of(self, request: PendingRequest) -> Traceparent:
        call, name = request.call, self._addresses.reference.name
        return Traceparent.of(call.traceparent, name, self._client, call.number)

    def failed(self, event: str, host: HostId, requests: Sequence[PendingRequest], why: str) -> None:
        """Report that the copies of these requests at *host* failed."""
        for each in requests:
            each.tries += 1
            each.is_plain = False
            if each.story is not None:
                each.story.attempt(host, self._address_of(host), why)
        if requests and self._lines is not None:
            calls, name = [each.call for each in requests], self._addresses.reference.name
            self._lines.tell(event, name, self._client, calls, host=host, why=why)

    def ended(self, request: PendingRequest, how: Ended) -> None:
        """Report that a request has ended, with an answer or without, if it was not simply answered at the
        first try."""
        host = request.flight.host if request.flight is not None else None
        is_answered = isinstance(how, bytes)
        if request.story is not None and host is not None:
            request.story.attempt(host, self._address_of(host), "answered" if is_answered else "no answer")
        if self._lines is not None and (request.tries or not is_answered):
            self._lines.tell(
                "a call was answered" if is_answered else "a call has no answer",
                self._addresses.reference.name,
                self._client,
                [request.call],
                host=host,
                tries=request.tries + (host is not None),
                took_ms=(self._clock.now() - request.began_ns) // MILLISECOND,
                **({} if isinstance(how, bytes) else {"why": how.code}),
            )

    def _address_of(self, host: HostId) -> str:
        """Return the host's address, if the reference has it."""
        members = self._addresses.reference.members
        return next((each.address for each in members if each.host == host), "")
