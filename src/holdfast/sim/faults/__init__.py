"""The kinds of faults: how each is drawn from a seed, and what it does to a world.

A fault is drawn once, before the run, into a :class:`holdfast.sim.engine.options.FaultEvent` of plain data.
Applying it draws nothing more from the seed, so a schedule can be kept, replayed, and reduced while its other
faults stay the same. A lasting fault ends after the time drawn for it, or when the world is healed.
"""

from typing import Final

from holdfast.sim.faults.disks import DISKS
from holdfast.sim.faults.kind import FaultKind, Field, Parameters
from holdfast.sim.faults.links import LINKS
from holdfast.sim.faults.machines import MACHINES, TIMEKEEPING

KINDS: Final[dict[str, FaultKind]] = {kind.name: kind for kind in (*MACHINES, *LINKS, *TIMEKEEPING, *DISKS)}

PROCESS_KINDS: Final = ("kill", "kill_inside", "quick_restart", "pause")
POWER_KINDS: Final = ("power_cut", "power_cut_inside", "power_cut_all")
NETWORK_KINDS: Final = ("partition", "isolation", "one_way", "partial", "flapping", "swizzle", "storm")
CLOCK_KINDS: Final = ("clock_jump", "clock_rate", "suspend")
DISK_KINDS: Final = ("sync_fail", "sync_hang", "read_fail", "write_fail", "disk_full", "disk_slow")
DAMAGE_KINDS: Final = ("bit_rot", "zero_sector", "wipe", "copy", "roll_back")

__all__ = [
    "CLOCK_KINDS",
    "DAMAGE_KINDS",
    "DISK_KINDS",
    "KINDS",
    "NETWORK_KINDS",
    "POWER_KINDS",
    "PROCESS_KINDS",
    "FaultKind",
    "Field",
    "Parameters",
]
