"""A lane: calls that must run in the order of their numbers (X5).

One frame of a lane is in flight at a time; the next leaves when every call in it has ended. A frame is
ordered as a whole, so no failover can reorder its calls. A call that ends without a known outcome might still
run after the next one, so nothing more is sent until its outcome is settled.
"""

from holdfast.calling.request import PendingRequest, frame_of
from holdfast.model.calls import RequestId
from holdfast.model.errors import Rejected


class OrderedLane:
    """The calls of one ordered proxy."""

    def __init__(self) -> None:
        self.blocked_by: RequestId | None = None
        """The call whose outcome must be known before others follow."""
        self._queue: list[PendingRequest] = []
        self._under_way: dict[int, PendingRequest] = {}
        self._last_place = 0

    def check(self, time_s: int) -> None:
        """Raise ``Rejected`` if a call may not join now. A call never runs after its expiration (X2)."""
        if self.blocked_by is not None and self.blocked_by.expiration_s <= time_s:
            self.blocked_by = None
        if self.blocked_by is not None:
            raise Rejected(f"ask for the outcome of request {self.blocked_by} first: later calls follow it")

    def add(self, request: PendingRequest) -> None:
        """Queue a new call, or one that was not answered, which goes again before everything after it."""
        if not request.place:
            self._last_place = request.place = self._last_place + 1
        self._under_way.pop(request.number, None)
        self._queue.append(request)
        if len(self._queue) > 1 and self._queue[-2].place > request.place:
            self._queue.sort(key=lambda each: each.place)

    def take(self, bytes_max: int, time_s: int) -> list[PendingRequest]:
        """Return the calls of the next frame; none while one is in flight. A call that may have expired by
        *time_s* goes alone: if it gets a new id (:mod:`.request_ids`), no later call has run before it."""
        if self._under_way or not self._queue:
            return []
        frame = frame_of(self._queue, bytes_max)
        doubtful = [index for index, each in enumerate(frame) if each.call.expiration_s <= time_s]
        if doubtful:
            frame = frame[: max(1, doubtful[0])]
        self._queue = self._queue[len(frame) :]
        self._under_way = {request.number: request for request in frame}
        return frame

    def on_ended(self, request: PendingRequest) -> None:
        if self._under_way.pop(request.number, None) is None:
            self._queue = [each for each in self._queue if each is not request]

    def is_last(self, request: PendingRequest) -> bool:
        """Whether no later call is in flight."""
        return all(each.place <= request.place for each in self._under_way.values())

    def block(self, by: RequestId) -> list[PendingRequest]:
        """Stop at a call without a known outcome. Returns the calls that will not be sent, or not sent
        again."""
        self.blocked_by = self.blocked_by or by
        return list(self._queue)

    def on_settled(self, request: RequestId) -> None:
        if self.blocked_by == request:
            self.blocked_by = None
