"""What processes use of the machine, and which periods of a run are compared with each other.

CPU time, memory and file descriptors are read from Linux.

Noise on a shared machine comes in waves. So the calls during an event are compared with the calls of the
nearest quiet time of the same length, and each event gives one difference.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.model.ids import SECOND

_PROCESS_CLOCK: Final = 2
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory and file descriptors of one process."""

    resident_bytes: int
    descriptors: int


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process so far, its own and the kernel's for it; 0 if the process is gone."""
    try:
        # Its CPU-time clock, numbered as clock_getcpuclockid(3) does: /proc counts in ticks of 10 ms only.
        return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)
    except OSError:
        return 0.0


def cpu_of(pids: Mapping[str, int]) -> dict[str, float]:
    return {role: cpu_s(pid) for role, pid in pids.items()}


def footprint(pid: int) -> Footprint:
    """Return the memory and file descriptors of a process. Raises ``OSError`` when the process is gone."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Footprint(pages * _PAGE_BYTES, len(os.listdir(f"/proc/{pid}/fd")))


SLICE_NS: Final = 1 * SECOND
"""Quiet time is divided into periods of this length."""


@dataclass(frozen=True, slots=True)
class Window:
    """A period of time on the machine's clock."""

    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Pair:
    """An event, and as much quiet time around it; less, if there was less."""

    during: Window
    quiet: tuple[Window, ...]


def paired(events: Iterable[Window], measured: Window) -> list[Pair]:
    """Pair events with quiet time.

    Overlapping events count as one; events without any quiet time are left out.
    """
    merged = _merged(events)
    quiet = _quiet(merged, measured)
    pairs = [Pair(each, _nearest(each, quiet)) for each in merged if each.end_ns <= measured.end_ns]
    return [pair for pair in pairs if pair.quiet]


def _merged(events: Iterable[Window]) -> list[Window]:
    merged: list[Window] = []
    for each in sorted(events, key=lambda window: window.start_ns):
        if merged and each.start_ns <= merged[-1].end_ns:
            merged[-1] = Window(merged[-1].start_ns, max(merged[-1].end_ns, each.end_ns))
        else:
            merged.append(each)
    return merged


def _quiet(merged: Sequence[Window], measured: Window) -> list[Window]:
    slices, at = [], measured.start_ns
    for each in (*merged, Window(measured.end_ns, measured.end_ns)):
        while at + SLICE_NS <= min(each.start_ns, measured.end_ns):
            slices.append(Window(at, at + SLICE_NS))
            at += SLICE_NS
        at = max(at, each.end_ns)
    return slices


def _nearest(event: Window, quiet: Sequence[Window]) -> tuple[Window, ...]:
    def distance(each: Window) -> int:
        return max(each.start_ns - event.end_ns, event.start_ns - each.end_ns)

    count = -(-event.length_ns // SLICE_NS)
    return tuple(sorted(quiet, key=distance)[:count])
