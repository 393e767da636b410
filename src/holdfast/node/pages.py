"""Huge pages for a large heap, so that a copy of the process is made in a millisecond or two.

A fork copies the table of the process's pages while every call waits: 27 ms for a gigabyte in pages of 4 kB
on the machine this was measured on, 3 ms in pages of 2 MB (decision 0007). The kernel is asked to put the
heap into such pages, on a thread of its own: it takes about 2 s of its time for a gigabyte, in steps of some
milliseconds. What is written while a copy runs falls apart into small pages again, so copies grow slower, and
then the heap is gathered anew. A kernel that has no huge pages says so, and copies are made as they can be.
"""

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.model.units import MILLISECOND

HUGE_BYTES: Final = 2 << 20
HEAP_BYTES_MIN: Final = 128 << 20
"""A smaller process is copied in a few milliseconds as it is."""
GROWTH: Final = 1.25
"""The heap is gone through again when the process has grown so much since."""
SLOW_COPY_NS: Final = 8 * MILLISECOND
"""Likewise when a copy took so long."""
_PAGE_BYTES: Final = 4096
_MADV_HUGEPAGE: Final = 14
_MADV_COLLAPSE: Final = 25
_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class HugePages:
    """Of this process. Used from one thread, the loop's."""

    def __init__(self, call_soon: Callable[..., object], heap_bytes_min: int = HEAP_BYTES_MIN) -> None:
        """*call_soon* runs what it is given on that thread."""
        self._call_soon = call_soon
        self._heap_bytes_min = heap_bytes_min
        self._gathered_at = 0
        self._is_gathering = False
        self.copy_ns = 0
        """What the last copy took of the processor; to be told by whoever makes them."""

    def are_ready(self) -> bool:
        """Whether a copy may be made now; if not, the heap is being gathered, which this has begun."""
        if self._is_gathering:
            return False
        resident = resident_bytes()
        is_grown = resident > self._gathered_at * GROWTH
        if resident < self._heap_bytes_min or not (is_grown or self.copy_ns > SLOW_COPY_NS):
            return True
        self._is_gathering = True
        threading.Thread(target=self._gather, args=(resident,), name="huge pages", daemon=True).start()
        return False

    def _gather(self, resident: int) -> None:
        for start, end in heap():
            for at in range(start, end, HUGE_BYTES):
                # Each for itself: a call for all would hold the map of the memory for seconds.
                _libc.madvise(at, HUGE_BYTES, _MADV_HUGEPAGE)
                _libc.madvise(at, HUGE_BYTES, _MADV_COLLAPSE)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._call_soon(self._gathered, resident)

    def _gathered(self, resident: int) -> None:
        self._gathered_at = resident
        self._is_gathering = False
        self.copy_ns = 0


def resident_bytes() -> int:
    """What this process holds of the machine's memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


def heap() -> list[tuple[int, int]]:
    """The stretches of private memory that hold whole huge pages, as (start, end) on their bounds."""
    found = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        where, rights, _, _, inode, *name = line.split(maxsplit=5)
        if rights != "rw-p" or inode != "0" or name[:1] not in ([], ["[heap]"]):
            continue
        start, end = (int(each, 16) for each in where.split("-"))
        start, end = -(-start // HUGE_BYTES) * HUGE_BYTES, end // HUGE_BYTES * HUGE_BYTES
        if start < end:
            found.append((start, end))
    return found
