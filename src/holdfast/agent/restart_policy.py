"""Decides how soon to restart a process that has ended; a pure function of values.

A process that lived for a while is restarted at once; one that keeps dying young is restarted at growing
intervals. So a host that cannot run does not use up the machine, and a host that was killed is back within
milliseconds.
"""

from dataclasses import dataclass, replace

from holdfast.model.backoff import Backoff
from holdfast.model.ids import MILLISECOND, SECOND

FIRST_DELAY_NS = 100 * MILLISECOND
DELAY_NS_MAX = 10 * SECOND
DELAYS = Backoff(FIRST_DELAY_NS, DELAY_NS_MAX)
GROWN_UP_NS = 5 * SECOND
"""A process that lived this long started well: its death says nothing about the next one."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """The restart history of one process."""

    count: int = 0
    """How often it was restarted."""
    early_deaths: int = 0
    """How many times in a row it ended young."""

    def after_death(self, lived_ns: int) -> tuple["Restarts", int]:
        """The updated history, and how long to wait before the next start."""
        if lived_ns >= GROWN_UP_NS:
            return replace(self, count=self.count + 1, early_deaths=0), 0
        early = self.early_deaths + 1
        # The first early death causes no delay: a kill right after a start is as likely as a bad host.
        delay = 0 if early == 1 else DELAYS.delay_ns(early - 2)
        return Restarts(count=self.count + 1, early_deaths=early), delay
