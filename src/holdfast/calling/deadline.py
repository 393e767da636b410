"""Time, as a client reckons it: one timer for many deadlines, and the group's own time."""

from collections.abc import Hashable
from typing import Final

from holdfast.model.ids import SECOND, Epoch
from holdfast.model.ports import Clock, TimerId, Timers

FAR_S: Final = 1 << 62
LEAP_NS: Final = 1 * SECOND
"""Expirations are whole seconds, rounded up: time that is set by less hurts no request."""


class DeadlineTimer:
    """One timer that stands for many deadlines: it goes off at the earliest that was asked for.

    A timer per call would cost as much as the call. Whoever is called looks at all its deadlines and asks
    again for the earliest left.
    """

    def __init__(self, timers: Timers, clock: Clock, tag: Hashable) -> None:
        self._timers = timers
        self._clock = clock
        self._tag = tag
        self._timer: TimerId | None = None
        self._at_ns = 0

    def by(self, at_ns: int) -> None:
        """Go off at *at_ns*, or earlier if that was asked for already."""
        if self._timer is not None:
            if self._at_ns <= at_ns:
                return
            self._timers.cancel(self._timer)
        self._at_ns = at_ns
        self._timer = self._timers.set(max(0, at_ns - self._clock.now()), self._tag)

    def rang(self) -> None:
        """To be called when the timer has fired."""
        self._timer = None

    def cancel(self) -> None:
        if self._timer is not None:
            self._timers.cancel(self._timer)
            self._timer = None


class GroupTime:
    """The group's time, learnt with each reply and carried on by the local clock between them (X4).

    A client's own idea of the date plays no part: were it two hours off, all its requests would be expired,
    or kept for two hours too long.
    """

    def __init__(self, clock: Clock, time_ns: int) -> None:
        self._clock = clock
        self._epoch = Epoch(0)
        self._ahead_ns = time_ns - clock.now()
        self._leapt_ns = self._ahead_ns
        """What that was at the last leap, or least since."""

    def learn(self, time_ns: int, epoch: Epoch) -> bool:
        """A reply of the primary carried *time_ns*. Within an epoch one primary stamps: a reply that was late
        says less. Answers whether time has leapt: what was reckoned before may have expired, or expire much
        too late."""
        ahead_ns = time_ns - self._clock.now()
        if epoch < self._epoch or (epoch == self._epoch and ahead_ns <= self._ahead_ns):
            return False
        has_leapt = ahead_ns - self._leapt_ns > LEAP_NS or self._ahead_ns - ahead_ns > LEAP_NS
        self._epoch, self._ahead_ns = epoch, ahead_ns
        self._leapt_ns = ahead_ns if has_leapt else min(ahead_ns, self._leapt_ns)
        return has_leapt

    def most_s(self) -> int:
        """What it is at most. As long as the group has not replied that is not known: where it was found need
        not be who stamps."""
        return self.at(self._clock.now()) // SECOND if self._epoch else FAR_S

    def at(self, now_ns: int) -> int:
        """What the group's time is, at *now_ns* of the local clock."""
        return now_ns + self._ahead_ns
