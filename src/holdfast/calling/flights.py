"""The frames on their way: sent, and neither answered in full nor turned away nor lost."""

from collections.abc import Hashable

from holdfast.calling.config import ClientConfig
from holdfast.calling.deadline import Alarm
from holdfast.calling.pending import Flight, Pending
from holdfast.model.ids import HostId
from holdfast.model.ports import Clock, Timers


class Flights:
    """Frames by number, and how long they may stay without an answer."""

    def __init__(self, clock: Clock, timers: Timers, config: ClientConfig, tag: Hashable) -> None:
        self.departed = 0
        """How many frames have been sent; the newest bears this number."""
        self._clock = clock
        self._config = config
        self._alarm = Alarm(timers, clock, tag)
        self._flights: dict[int, Flight] = {}
        self._disappointments = 0

    def depart(self, host: HostId, requests: list[Pending]) -> int:
        """The number of the frame that carries *requests* to *host*."""
        self.departed = frame = self.departed + 1
        now = self._clock.now()
        flight = self._flights[frame] = Flight(frame, host, requests, now)
        for request in requests:
            request.flight = flight
        self._alarm.by(now + self._patience_ns())
        return frame

    def on_ended(self, request: Pending) -> None:
        flight = request.flight
        if flight is not None:
            flight.left -= 1
            if not flight.left:
                self._flights.pop(flight.frame, None)

    def on_answered(self) -> None:
        """Somebody serves: patience is as short as at first."""
        self._disappointments = 0

    def take(self, frame: int) -> Flight | None:
        """That frame, which has landed; None when it is not on its way any more."""
        return self._flights.pop(frame, None)

    def take_all_to(self, host: HostId) -> list[Flight]:
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
