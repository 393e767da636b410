"""Requests on their way: frames that are in flight, and requests that wait to be sent.

:class:`InFlight` has the frames that were sent and are not fully answered, turned away or lost.
:class:`Outbox` has what waits to be sent: calls, which are gathered into frames, and requests that travel in
frames of their own.
"""

from collections.abc import Container, Hashable

from holdfast.calling.config import ClientConfig
from holdfast.calling.deadline import DeadlineTimer
from holdfast.calling.ordered_lane import OrderedLane
from holdfast.calling.request import Frame, PendingRequest
from holdfast.model.calls import CALLS_PER_FRAME_MAX
from holdfast.model.ids import HostId
from holdfast.model.ports import Clock, Timers


class InFlight:
    """The frames in flight by number, and how long they may go unanswered."""

    def __init__(self, clock: Clock, timers: Timers, config: ClientConfig, tag: Hashable) -> None:
        self.departed = 0
        """How many frames have been sent; the newest has this number."""
        self._clock = clock
        self._config = config
        self._alarm = DeadlineTimer(timers, clock, tag)
        self._frames: dict[int, Frame] = {}
        self.slow_rounds = 0
        """How often in a row frames went unanswered for too long; patience grows with it. Reset it with every
        answer."""

    def depart(self, host: HostId, requests: list[PendingRequest]) -> int:
        """Record a frame that carries *requests* to *host*, and return its number."""
        self.departed = frame = self.departed + 1
        now = self._clock.now()
        flight = self._frames[frame] = Frame(frame, host, requests, now, len(requests))
        for request in requests:
            request.flight = flight
        if now + self._config.patience_ns < self._alarm.at_ns:  # the shortest there is
            self._alarm.by(now + self._patience_ns())
        return frame

    def on_ended(self, request: PendingRequest) -> None:
        flight = request.flight
        if flight is not None:
            flight.left -= 1
            if not flight.left:
                self._frames.pop(flight.frame, None)

    def take(self, frame: int) -> Frame | None:
        """Remove and return the frame; None if it is no longer in flight."""
        return self._frames.pop(frame, None)

    def take_all_to(self, host: HostId) -> list[Frame]:
        taken = [flight for flight in self._frames.values() if flight.host == host]
        for flight in taken:
            del self._frames[flight.frame]
        return taken

    def on_alarm(self) -> list[HostId]:
        """Handle the timer: return the hosts that have kept a frame for too long."""
        self._alarm.rang()
        overdue_ns = self._clock.now() - self._patience_ns()
        slow = {flight.host: None for flight in self._frames.values() if flight.sent_ns <= overdue_ns}
        if slow:
            self.slow_rounds += 1
        waiting = [flight.sent_ns for flight in self._frames.values() if flight.host not in slow]
        if waiting:
            self._alarm.by(min(waiting) + self._patience_ns())
        return list(slow)

    def close(self) -> None:
        self._alarm.cancel()

    def _patience_ns(self) -> int:
        longest_ns = self._config.patience_ns << min(self.slow_rounds, 20)
        return min(self._config.patience_most_ns, longest_ns)


class Outbox:
    """The requests to one group that are in no frame now. It may contain some that have ended in the
    meantime."""

    def __init__(self, frame_bytes: int) -> None:
        self._frame_bytes = frame_bytes
        self.calls: list[PendingRequest] = []
        """Calls that travel with others, in the order in which they were made."""
        self.asides: list[PendingRequest] = []
        """Requests that travel alone."""
        self.lanes: dict[OrderedLane, None] = {}
        """Lanes whose next frame may leave."""

    def add(self, request: PendingRequest) -> bool:
        """Keep the request until it is taken. Returns whether that filled a frame, which should then leave at
        once, so that the primary can start while the rest is still being made."""
        if not request.is_plain and request.lane is not None:
            request.lane.add(request)
            self.lanes[request.lane] = None
        elif not request.is_plain and request.travels_alone:
            self.asides.append(request)
        else:
            self.calls.append(request)
            return not len(self.calls) % CALLS_PER_FRAME_MAX
        return False

    def on_ended(self, request: PendingRequest) -> None:
        """Note that a request has ended; the next frame of its lane may have waited for that."""
        if request.lane is not None:
            request.lane.on_ended(request)
            self.lanes[request.lane] = None

    def take_calls(self, awaited: Container[int]) -> list[list[PendingRequest]]:
        """Return frames of the calls that are still *awaited*."""
        calls, self.calls = self.calls, []
        frames: list[list[PendingRequest]] = []
        frame: list[PendingRequest] = []
        size = 0
        for request in calls:
            if request.call.number not in awaited:
                continue
            size += request.size
            if not frame or size > self._frame_bytes or len(frame) == CALLS_PER_FRAME_MAX:
                frame, size = [], request.size
                frames.append(frame)
            frame.append(request)
        return frames

    def take_lanes(self, time_s: int) -> list[list[PendingRequest]]:
        """Return the next frame of each lane. *time_s* is the latest that the group's time can be."""
        lanes, self.lanes = self.lanes, {}
        return [frame for lane in lanes if (frame := lane.take(self._frame_bytes, time_s))]

    def take_asides(self, awaited: Container[int]) -> list[PendingRequest]:
        """Return reads and questions, each for a frame of its own."""
        asides, self.asides = self.asides, []
        return [each for each in asides if each.call.number in awaited]
