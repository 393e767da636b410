"""Durable timers: calls that a group makes to itself later (E6).

The table is part of the state: every member builds the same one from the same sequence. A timer falls due by
the group's time; the primary then orders a firing, which counts only if the timer still is what it was when
the firing was ordered. So it fires once, and a cancelled one not at all, whatever was on its way.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from holdfast.model.calls import Request
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ClientId
from holdfast.styles.cron import parse_schedule

TIMERS_MAX: Final = 100_000
"""Per group. They are in every checkpoint."""


_CLIENT: Final = "timer/"
"""No client's id begins so: theirs have no slash."""


class TooManyTimers(InvalidRequest):
    """Raised when a group sets more timers than it may have."""

    code = "too_many_timers"


class Timer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One call to come."""

    number: int
    due_ns: int
    method: str
    arguments: msgspec.Raw
    schedule: str = ""
    """The cron expression of one that comes again."""
    firings: int = 0

    @property
    def request(self) -> Request:
        """The id under which its next firing is executed."""
        return Request(ClientId(f"{_CLIENT}{self.number}"), self.firings + 1)


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    issued: int
    timers: list[Timer]


def is_timer(request: Request) -> bool:
    """Whether a timer made it; nobody waits for its outcome."""
    return request.client.startswith(_CLIENT)


class Timers:
    """The timers of one group."""

    def __init__(self) -> None:
        self._issued = 0
        self._timers: dict[int, Timer] = {}
        self._by_due: list[tuple[int, int]] = []
        """A heap of (due, number); what was cancelled or set anew is thrown out when it comes to the top."""

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, due_ns: int, method: str, arguments: msgspec.Raw, *, schedule: str = "") -> int:
        """A new timer; its number is never used again."""
        if len(self._timers) >= TIMERS_MAX:
            raise TooManyTimers(f"a group has at most {TIMERS_MAX} timers")
        self._issued += 1
        self._keep(Timer(self._issued, due_ns, method, arguments, schedule))
        return self._issued

    def cancel(self, number: int) -> bool:
        """Whether it was still to come."""
        return self._timers.pop(number, None) is not None

    def next_due_ns(self) -> int | None:
        while self._by_due and not self._is_current(*self._by_due[0]):
            heappop(self._by_due)
        return self._by_due[0][0] if self._by_due else None

    def due(self, time_ns: int, at_most: int) -> list[Timer]:
        """What is due by *time_ns*, earliest first."""
        ripe: list[Timer] = []
        while len(ripe) < at_most and (due_ns := self.next_due_ns()) is not None and due_ns <= time_ns:
            ripe.append(self._timers[heappop(self._by_due)[1]])
        for timer in ripe:
            # Due is not fired: that happens when the firing has its place in the sequence.
            heappush(self._by_due, (timer.due_ns, timer.number))
        return ripe

    def fired_by(self, number: int, due_ns: int) -> Timer | None:
        """The timer that a firing speaks of; None when that firing is out of date."""
        timer = self._timers.get(number)
        return timer if timer is not None and timer.due_ns == due_ns else None

    def to_come(self) -> Iterable[Timer]:
        """All of them, in no order."""
        return self._timers.values()

    def methods(self) -> frozenset[str]:
        """What they call."""
        return frozenset(timer.method for timer in self._timers.values())

    def is_to_come(self, request: Request) -> bool:
        """Whether it is the next firing of a timer."""
        return any(timer.request == request for timer in self._timers.values())

    def fire(self, number: int, due_ns: int, time_ns: int) -> Timer | None:
        """The timer whose firing was ordered; None when that firing is out of date. One that comes again is
        set for its next time after *time_ns*: times missed while the group was down fire once, not each."""
        timer = self.fired_by(number, due_ns)
        if timer is None:
            return None
        if timer.schedule:
            following = parse_schedule(timer.schedule).after(max(time_ns, due_ns))
            self._keep(msgspec.structs.replace(timer, due_ns=following, firings=timer.firings + 1))
        else:
            del self._timers[number]
        return timer

    def save(self) -> bytes:
        return msgspec.msgpack.encode(_Saved(self._issued, [self._timers[n] for n in sorted(self._timers)]))

    @classmethod
    def load(cls, saved: bytes) -> "Timers":
        """The table that was saved. Raises ``msgspec.DecodeError`` for anything else."""
        table, found = cls(), msgspec.msgpack.decode(saved, type=_Saved)
        table._issued = found.issued
        table._timers = {timer.number: timer for timer in found.timers}
        table._by_due = [(timer.due_ns, timer.number) for timer in found.timers]
        heapify(table._by_due)
        return table

    def _keep(self, timer: Timer) -> None:
        self._timers[timer.number] = timer
        heappush(self._by_due, (timer.due_ns, timer.number))

    def _is_current(self, due_ns: int, number: int) -> bool:
        timer = self._timers.get(number)
        return timer is not None and timer.due_ns == due_ns
