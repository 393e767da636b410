"""What processes use of the machine: CPU time, memory, file descriptors. Linux says."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROCESS_CLOCK: Final = 2
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one process holds."""

    resident_bytes: int
    descriptors: int


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, its own and the kernel's for it; 0 for one that is gone."""
    try:
        # Its CPU-time clock, numbered as clock_getcpuclockid(3) does: /proc counts in ticks of 10 ms only.
        return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)
    except OSError:
        return 0.0


def cpu_of(pids: Mapping[str, int]) -> dict[str, float]:
    return {role: cpu_s(pid) for role, pid in pids.items()}


def footprint(pid: int) -> Footprint:
    """Raises ``OSError`` when the process is gone."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Footprint(pages * _PAGE_BYTES, len(os.listdir(f"/proc/{pid}/fd")))
