"""Huge pages for a large heap, so that a copy of the process is made in a millisecond or two.

A fork copies the table of the process's pages while every call waits: 20 ms for 750 MB in pages of 4 kB on
the machine this was measured on, 2 ms in pages of 2 MB (decision 0007). So the kernel is asked to put the
heap into such pages before each copy: what is written while a copy runs falls apart into small pages again,
nearly all of it when calls change the object here and there.

This is done on a thread of its own, page by page. While the kernel moves one, whatever else of the process
touches memory for the first time waits for it: a third of a millisecond where the machine's memory is in use
already, some milliseconds where it is new. Hence the pauses between two pages: without them, on a machine
with little to spare, calls waited hundreds of milliseconds. A kernel that has no huge pages says so, and
copies are made as they can be.
"""

import ctypes
import errno
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

HUGE_BYTES: Final = 2 << 20
HEAP_BYTES_MIN: Final = 128 << 20
"""A smaller process is copied in a few milliseconds as it is."""
PAUSE_S: Final = 0.001
PAUSES: Final = 3.0
"""Between two pages, at least so long, and so many times as long as the last one took; after ``SPREAD_S``
only as long as it took: the log grows while a checkpoint waits."""
SPREAD_S: Final = 20.0
THREAD_NAME: Final = "huge pages"
"""As ``top -H`` shows it."""
_PAGE_BYTES: Final = 4096
_MADV_HUGEPAGE: Final = 14
_MADV_COLLAPSE: Final = 25
_PR_SET_NAME: Final = 15
_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

log = structlog.get_logger("holdfast.copies")


class HugePages:
    """Of this process. Used from one thread, the loop's."""

    def __init__(self, call_soon: Callable[..., object], heap_bytes_min: int = HEAP_BYTES_MIN) -> None:
        """*call_soon* runs what it is given on that thread."""
        self._call_soon = call_soon
        self._heap_bytes_min = heap_bytes_min
        self._is_gathering = False
        self._are_gathered = False

    def are_ready(self) -> bool:
        """Whether a copy may be made now; if not, the heap is being gathered, which this has begun."""
        if self._is_gathering:
            return False
        if self._are_gathered or resident_bytes() < self._heap_bytes_min:
            return True
        self._is_gathering = True
        threading.Thread(target=self._gather, name=THREAD_NAME, daemon=True).start()
        return False

    def copied(self) -> None:
        """A copy was made: from now on every write takes a page apart."""
        self._are_gathered = False

    def _gather(self) -> None:
        _libc.prctl(_PR_SET_NAME, THREAD_NAME.encode())
        began = time.monotonic()
        pages = [at for start, end in heap() for at in range(start, end, HUGE_BYTES)]
        for at in pages:
            asked = time.monotonic()
            if not _collapse(at):
                break
            now = time.monotonic()
            pauses = PAUSES if now < began + SPREAD_S else 1.0
            time.sleep(max(PAUSE_S, pauses * (now - asked)))
        took_ms = round((time.monotonic() - began) * 1000)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._call_soon(self._gathered, len(pages), took_ms)

    def _gathered(self, pages: int, took_ms: int) -> None:
        log.info("the heap is in huge pages", pages=pages, took_ms=took_ms)
        self._is_gathering = False
        self._are_gathered = True


def _collapse(at: int) -> bool:
    """Put the memory at *at* into one huge page, as far as it can be had; whether there is such a thing.

    Each for itself: one call for all would hold the map of the memory for seconds.
    """
    if _libc.madvise(at, HUGE_BYTES, _MADV_HUGEPAGE) != 0 and ctypes.get_errno() == errno.EINVAL:
        return False
    _libc.madvise(at, HUGE_BYTES, _MADV_COLLAPSE)
    return True


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
