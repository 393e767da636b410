"""The ports bound to this machine: its clocks, its event loop's timers, its randomness, its structured log.

`real_ports` binds clocks, timers and randomness, `trace` the log, `telemetry` spans; `files` are private and
durable, `child_process` starts children that die with us, `process_tuning` asks the kernel for short slices,
`process_end` ends a process that must not go on, `peer_user` says who is at the other end of a local socket.

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
