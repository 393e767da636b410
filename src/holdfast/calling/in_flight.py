"""The frames on their way: sent, and neither answered in full nor turned away nor lost.

What waits to be sent: calls, gathered into frames; and what travels in frames of its own.
"""

from collections.abc import Container, Hashable, Iterator

from holdfast.calling.config import ClientConfig
from holdfast.calling.deadline import DeadlineTimer
from holdfast.calling.ordered_lane import OrderedLane
from holdfast.calling.request import Frame, PendingRequest, frames_of
from holdfast.model.calls import CALLS_PER_FRAME_MAX
from holdfast.model.ids import HostId
from holdfast.model.ports import Clock, Timers


class InFlight:
    """Frames by number, and how long they may stay without an answer."""

    def __init__(self, clock: Clock, timers: Timers, config: ClientConfig, tag: Hashable) -> None:
        self.departed = 0
        """How many frames have been sent; the newest bears this number."""
        self._clock = clock
        self._config = config
        self._alarm = DeadlineTimer(timers, clock, tag)
        self._flights: dict[int, Frame] = {}
        self._disappointments = 0

    def depart(self, host: HostId, requests: list[PendingRequest]) -> int:
        """The number of the frame that carries *requests* to *host*."""
        self.departed = frame = self.departed + 1
        now = self._clock.now()
        flight = self._flights[frame] = Frame(frame, host, requests, now)
        for request in requests:
            request.flight = flight
        self._alarm.by(now + self._patience_ns())
        return frame

    def on_ended(self, request: PendingRequest) -> None:
        flight = request.flight
        if flight is not None:
            flight.left -= 1
            if not flight.left:
                self._flights.pop(flight.frame, None)

    def on_answered(self) -> None:
        """Somebody serves: patience is as short as at first."""
        self._disappointments = 0

    def take(self, frame: int) -> Frame | None:
        """That frame, which has landed; None when it is not on its way any more."""
        return self._flights.pop(frame, None)

    def take_all_to(self, host: HostId) -> list[Frame]:
        taken = [flight for flight in self._flights.values() if flight.host == host]
        for flight in taken:
            del self._flights[flight.frame]
        return taken

    def on_alarm(self) -> list[HostId]:
        """The timer has fired: hosts that have kept a frame for too long."""
        self._alarm.rang()
        overdue_ns = self._clock.now() - self._patience_ns()
        slow = {flight.host: None for flight in self._flights.values() if flight.sent_ns <= overdue_ns}
        if slow:
            self._disappointments += 1
        waiting = [flight.sent_ns for flight in self._flights.values() if flight.host not in slow]
        if waiting:
            self._alarm.by(min(waiting) + self._patience_ns())
        return list(slow)

    def close(self) -> None:
        self._alarm.cancel()

    def _patience_ns(self) -> int:
        longest_ns = self._config.patience_ns << min(self._disappointments, 20)
        return min(self._config.patience_most_ns, longest_ns)


class Outbox:
    """The requests of one group that are in no frame now. It may hold some that have ended meanwhile."""

    def __init__(self, frame_bytes: int) -> None:
        self._frame_bytes = frame_bytes
        self._calls: list[PendingRequest] = []
        self._asides: list[PendingRequest] = []
        self._lanes: dict[OrderedLane, None] = {}

    def add(self, request: PendingRequest) -> bool:
        """Keep it until it is taken; says whether that filled a frame, which should then leave at once: the
        primary can begin while the rest is still being made."""
        if not request.is_plain and request.lane is not None:
            request.lane.add(request)
            self._lanes[request.lane] = None
        elif not request.is_plain and request.travels_alone:
            self._asides.append(request)
        else:
            self._calls.append(request)
            return not len(self._calls) % CALLS_PER_FRAME_MAX
        return False

    def on_ended(self, request: PendingRequest) -> None:
        """It has ended. In a lane that may be what the next frame waited for."""
        if request.lane is not None:
            request.lane.on_ended(request)
            self._lanes[request.lane] = None

    def take_calls(self, awaited: Container[int], time_s: int) -> Iterator[list[PendingRequest]]:
        """Frames of calls, as far as these are still *awaited*. The group's time is *time_s* at most."""
        if self._calls:
            calls, self._calls = self._calls, []
            yield from frames_of([each for each in calls if each.call.number in awaited], self._frame_bytes)
        if self._lanes:
            lanes, self._lanes = self._lanes, {}
            for lane in lanes:
                if frame := lane.take(self._frame_bytes, time_s):
                    yield frame

    def take_asides(self, awaited: Container[int]) -> list[PendingRequest]:
        """Reads and questions, each for a frame of its own."""
        if not self._asides:
            return []
        asides, self._asides = self._asides, []
        return [each for each in asides if each.call.number in awaited]
