"""This machine's clocks as a Clock port."""

import time
from functools import partial


class MachineClock:
    """``now`` counts suspended time: a lease must not outlive a closed lid (R3)."""

    # Not methods of ours: one call looks at the clocks twenty times, and a Python function around each look
    # costs more than the look.
    now = staticmethod(partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME))
    wall = staticmethod(time.time_ns)
