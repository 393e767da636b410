"""What processes use of the machine: CPU time, memory, file descriptors. Linux's ``/proc`` says."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one process holds."""

    resident_bytes: int
    descriptors: int


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, its own and the kernel's for it; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def cpu_of(pids: Mapping[str, int]) -> dict[str, float]:
    return {role: cpu_s(pid) for role, pid in pids.items()}


def footprint(pid: int) -> Footprint:
    """Raises ``OSError`` when the process is gone."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Footprint(pages * _PAGE_BYTES, len(os.listdir(f"/proc/{pid}/fd")))
