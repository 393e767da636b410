"""The ports bound to this machine: its clocks, its event loop's timers, its randomness, its structured log.

A driver without opinions. The disk's port is in `storage/`, the network's in `net/`; the simulator has
counterparts of them all, and a core cannot tell the difference.
"""

from holdfast.machine.clock import MachineClock
from holdfast.machine.ending import end_on_broken_invariant
from holdfast.machine.randomness import MachineRandom
from holdfast.machine.timers import LoopTimers
from holdfast.machine.trace import LogTrace, log_to_stderr

__all__ = [
    "LogTrace",
    "LoopTimers",
    "MachineClock",
    "MachineRandom",
    "end_on_broken_invariant",
    "log_to_stderr",
]
