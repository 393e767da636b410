"""This machine's clocks as a Clock port."""

import time


class MachineClock:
    """``now`` counts suspended time: a lease must not outlive a closed lid (PROTOCOL R3)."""

    def now(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def wall(self) -> int:
        return time.time_ns()
