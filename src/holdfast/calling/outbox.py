"""What waits to be sent: calls, gathered into frames; and what travels in frames of its own."""

from collections.abc import Container, Iterator

from holdfast.calling.lane import Lane
from holdfast.calling.pending import Pending, frames_of
from holdfast.model.calls import CALLS_PER_FRAME_MAX


class Outbox:
    """The requests of one group that are in no frame now. It may hold some that have ended meanwhile."""

    def __init__(self, frame_bytes: int) -> None:
        self._frame_bytes = frame_bytes
        self._calls: list[Pending] = []
        self._asides: list[Pending] = []
        self._lanes: dict[Lane, None] = {}

    def add(self, request: Pending) -> bool:
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

    def on_ended(self, request: Pending) -> None:
        """It has ended. In a lane that may be what the next frame waited for."""
        if request.lane is not None:
            request.lane.on_ended(request)
            self._lanes[request.lane] = None

    def take_calls(self, awaited: Container[int], time_s: int) -> Iterator[list[Pending]]:
        """Frames of calls, as far as these are still *awaited*. The group's time is *time_s* at most."""
        if self._calls:
            calls, self._calls = self._calls, []
            yield from frames_of([each for each in calls if each.call.number in awaited], self._frame_bytes)
        if self._lanes:
            lanes, self._lanes = self._lanes, {}
            for lane in lanes:
                if frame := lane.take(self._frame_bytes, time_s):
                    yield frame

    def take_asides(self, awaited: Container[int]) -> list[Pending]:
        """Reads and questions, each for a frame of its own."""
        if not self._asides:
            return []
        asides, self._asides = self._asides, []
        return [each for each in asides if each.call.number in awaited]
