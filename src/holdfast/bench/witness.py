"""A witness of the machine's disk: a process that syncs a file of its own, again and again, beside what is
measured. When it waits as well, the disk stood still for everybody, whoever was to blame for that.

Machines share their disks: on the one that this was written on, syncs of nobody's in particular took 60 to
380 ms a few times a minute, longer than anything a checkpoint does to a call.
"""

import os
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Final

from holdfast.bench.windows import Window
from holdfast.machine import MachineClock
from holdfast.machine.parent import end_with

PAUSE_S: Final = 0.005
STALL_NS: Final = 10_000_000
"""A shorter sync is one like any other."""
BYTES: Final = bytes(4096)
_SYNCED: Final = Struct("<qq")
"""When a sync that stalled began, and when it ended."""


class Witness:
    """What one has seen: the stretches in which the disk stood still."""

    def __init__(self, stalls: Sequence[Window]) -> None:
        """*stalls* come one after the other."""
        self._stalls = stalls
        self._ends = [each.end_ns for each in stalls]

    def stood_still_ns(self, window: Window) -> int:
        """For so long of *window*."""
        total = 0
        for each in self._stalls[bisect_left(self._ends, window.start_ns) :]:
            if each.start_ns >= window.end_ns:
                break
            total += min(each.end_ns, window.end_ns) - max(each.start_ns, window.start_ns)
        return total

    def longest_ns(self, windows: Sequence[Window]) -> int:
        """The longest stall that began in one of *windows*."""
        began = [each for each in self._stalls for window in windows if _began_in(each, window)]
        return max((each.length_ns for each in began), default=0)


def _began_in(stall: Window, window: Window) -> bool:
    return window.start_ns <= stall.start_ns < window.end_ns


class Testimony:
    """Of a witness that is looking; it may be asked at any time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> Witness:
        seen = self._file.read_bytes() if self._file.exists() else b""
        whole = seen[: len(seen) // _SYNCED.size * _SYNCED.size]
        return Witness([Window(*each) for each in _SYNCED.iter_unpack(whole)])


@contextmanager
def witnessing(directory: Path) -> Iterator[Testimony]:
    """Have the disk of *directory* watched meanwhile."""
    process = subprocess.Popen([sys.executable, "-m", __name__, str(directory), str(os.getpid())])
    try:
        yield Testimony(directory / "seen")
    finally:
        process.kill()
        process.wait()


def watch(directory: Path) -> None:
    """Sync, and write down what took long; for ever."""
    clock = MachineClock()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    synced, seen = (os.open(directory / name, flags, 0o600) for name in ("synced", "seen"))
    while True:
        began = clock.now()
        os.pwrite(synced, BYTES, 0)
        os.fdatasync(synced)
        ended = clock.now()
        if ended - began >= STALL_NS:
            os.write(seen, _SYNCED.pack(began, ended))
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    end_with(int(sys.argv[2]), signal.SIGKILL)
    watch(Path(sys.argv[1]))
