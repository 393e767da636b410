"""The ports bound to this machine: its clocks, its event loop's timers, its randomness, its structured log.

This package makes no decisions of its own. The disk's port is in `storage/`, the network's in `net/`. The
simulator has counterparts of all of them, and a core cannot tell the difference.
"""

from holdfast.machine.process_end import end_on_broken_invariant
from holdfast.machine.real_ports import LoopTimers, MachineClock, MachineRandom
from holdfast.machine.trace import LogTrace, log_to_stderr

__all__ = [
    "LogTrace",
    "LoopTimers",
    "MachineClock",
    "MachineRandom",
    "end_on_broken_invariant",
    "log_to_stderr",
]
