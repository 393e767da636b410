"""How long to wait before what has failed is tried again: longer each time, up to a bound."""

from dataclasses import dataclass
from random import Random
from typing import Final

DOUBLINGS_MAX: Final = 30
"""More would only make large numbers: the bound of any wait is below 2^30 times its first."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits of *first_ns*, doubled with each failure in a row up to *most_ns*."""

    first_ns: int
    most_ns: int

    def delay_ns(self, failures: int) -> int:
        """The wait after so many failures beyond the first."""
        return min(self.most_ns, self.first_ns << min(failures, DOUBLINGS_MAX))

    def jittered_ns(self, failures: int, random: Random) -> int:
        """Between half and all of that, so that those who lost the same peer do not all return at once."""
        delay_ns = self.delay_ns(failures)
        return delay_ns // 2 + random.randrange(delay_ns // 2 + 1)
