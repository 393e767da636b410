"""A request that has not ended, and the frame that carries it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.model.calls import CALLS_PER_FRAME_MAX, RefusalCode, RequestId
from holdfast.model.ids import HostId
from holdfast.styles.operation import Call, Sent
from holdfast.styles.story import Story

if TYPE_CHECKING:
    from holdfast.calling.lane import Lane


class Pending(msgspec.Struct, eq=False):  # a Struct, as one is made for every call: in C, with its defaults
    """One request, from when it was made until it ends. Its call, number and expiration never change:
    whatever is sent again is the same request (FTC-93)."""

    call: Call
    handle: object
    """The maker's own; handed back with the outcome."""
    size: int
    began_ns: int
    deadline_ns: int
    outcome_ns: int
    """For how long after that its outcome can be asked for."""
    flight: "Flight | None" = None
    """The frame that carries it now; None while it waits to be sent."""
    is_plain: bool = True
    """Nothing below is set: an outcome ends it without further thought."""
    is_maybe: bool = False
    """A copy was sent of which nothing was heard: it may have been executed."""
    losses: int = 0
    """Connections that ended while a copy was on its way or being executed there."""
    turned_by: RefusalCode | None = None
    """Why it was last turned away, unexecuted."""
    turned_text: str = ""
    """What a host said of it that could not serve, last: the reason, for people."""
    is_reinvoked: bool = True
    is_query: bool = False
    """Changes nothing, so it is harmless whether it was executed."""
    lane: "Lane | None" = None
    place: int = 0
    """Among the calls of its lane, from 1."""
    stale_ms: int | None = None
    """A read that any member may answer from a state this old."""
    asks_about: RequestId | None = None
    """A question about another request."""
    withdraws: bool = False
    """And if that one stands in line, it shall not begin."""
    relayed: Sent | None = None
    """A group's call to this one (E3)."""
    tries: int = 0
    """How many of its copies came to nothing."""
    story: Story | None = None
    """Who follows it."""

    @property
    def number(self) -> int:
        return self.call.number

    @property
    def travels_alone(self) -> bool:
        return self.stale_ms is not None or self.asks_about is not None or self.relayed is not None

    @property
    def may_have_run(self) -> bool:
        return (self.is_maybe or self.flight is not None) and not self.is_query


class Flight:
    """One frame on its way, and the requests in it that have not ended."""

    __slots__ = ("frame", "host", "left", "requests", "sent_ns")

    def __init__(self, frame: int, host: HostId, requests: list[Pending], sent_ns: int) -> None:
        self.frame = frame
        self.host = host
        self.requests = requests
        self.left = len(requests)
        self.sent_ns = sent_ns


def frames_of(requests: Sequence[Pending], bytes_max: int) -> Iterator[list[Pending]]:
    """*requests* in order, cut into frames of bounded length."""
    frame: list[Pending] = []
    size = 0
    for request in requests:
        if frame and (len(frame) == CALLS_PER_FRAME_MAX or size + request.size > bytes_max):
            yield frame
            frame, size = [], 0
        frame.append(request)
        size += request.size
    if frame:
        yield frame
