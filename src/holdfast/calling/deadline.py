"""Time on the client side: one timer for many deadlines, and the group's own time."""

from collections.abc import Hashable
from typing import Final

from holdfast.model.ids import SECOND, Epoch
from holdfast.model.ports import Clock, TimerId, Timers

FAR_S: Final = 1 << 62
NEVER_NS: Final = 1 << 63
LEAP_NS: Final = 1 * SECOND
"""A smaller change of time harms no request, because expirations are whole seconds, rounded up."""


class DeadlineTimer:
    """One timer for many deadlines, which fires at the earliest that was asked for.

    A timer per call would cost as much as the call. When it fires, its owner checks all its deadlines and
    asks again for the earliest that is left.
    """

    def __init__(self, timers: Timers, clock: Clock, tag: Hashable) -> None:
        self._timers = timers
        self._clock = clock
        self._tag = tag
        self._timer: TimerId | None = None
        self.at_ns = NEVER_NS
        """When it fires. Whoever makes a call looks here first, because nearly every deadline is later."""

    def by(self, at_ns: int) -> None:
        """Fire at *at_ns*, or earlier if that was asked for already."""
        if self.at_ns <= at_ns:
            return
        if self._timer is not None:
            self._timers.cancel(self._timer)
        self.at_ns = at_ns
        self._timer = self._timers.set(max(0, at_ns - self._clock.now()), self._tag)

    def rang(self) -> None:
        """Note that the timer has fired; the owner must call this."""
        self._timer, self.at_ns = None, NEVER_NS

    def cancel(self) -> None:
        if self._timer is not None:
            self._timers.cancel(self._timer)
            self._timer, self.at_ns = None, NEVER_NS


class GroupTime:
    """The group's time, learnt from each reply and advanced by the local clock in between (X4).

    The client's own date plays no part. If it were two hours off, all its requests would be expired, or kept
    for two hours too long.
    """

    def __init__(self, clock: Clock, time_ns: int) -> None:
        self._clock = clock
        self._epoch = Epoch(0)
        self.ahead_ns = time_ns - clock.now()
        """How far the group's time is ahead of the local clock."""
        self._leapt_ns = self.ahead_ns
        """The offset at the last leap, or the smallest one since."""

    def learn(self, time_ns: int, epoch: Epoch) -> bool:
        """Take the time *time_ns* from a reply of the primary. Within an epoch one primary stamps, so a late
        reply is ignored. Returns whether the time has leapt: requests made before may have expired, or expire
        much too late."""
        ahead_ns = time_ns - self._clock.now()
        if epoch < self._epoch or (epoch == self._epoch and ahead_ns <= self.ahead_ns):
            return False
        has_leapt = ahead_ns - self._leapt_ns > LEAP_NS or self.ahead_ns - ahead_ns > LEAP_NS
        self._epoch, self.ahead_ns = epoch, ahead_ns
        self._leapt_ns = ahead_ns if has_leapt else min(ahead_ns, self._leapt_ns)
        return has_leapt

    def most_s(self) -> int:
        """Return the latest that the group's time can be. It is not known before the group has replied,
        because the host through which the group was found need not be the one that stamps."""
        return (self._clock.now() + self.ahead_ns) // SECOND if self._epoch else FAR_S
