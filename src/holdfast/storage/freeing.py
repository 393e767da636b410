"""Giving back what removed files held, a little at a time and beside the thread that syncs.

To free a hundred megabytes at once takes 30 to 100 ms, in which no sync of that file system ends: the log's
syncs waited so long whenever an old checkpoint went. A file that is removed while it is open keeps its blocks
until it is closed; so its name goes in its turn, and its blocks follow, from the end, with pauses.
"""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final

STEP_BYTES: Final = 4 << 20
"""Freed at once; a file up to this size is no matter."""
PAUSE_S: Final = 0.03
"""Between two steps: 130 MB/s, faster than checkpoints are written."""


class Freeing:
    """Removes files. Its thread begins with the first large one."""

    def __init__(self) -> None:
        self._held: SimpleQueue[int | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def remove(self, path: Path | str, *, within: int | None = None) -> None:
        """Remove the file, which has no name any more when this returns; *within* is a directory that is
        open. A process that ends before all is freed leaves the rest to the kernel. Raises ``OSError``."""
        is_large = os.stat(path, dir_fd=within).st_size > STEP_BYTES
        held = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=within) if is_large else None
        os.unlink(path, dir_fd=within)
        if held is None:
            return
        self._held.put(held)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="freeing", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """The thread ends when it is through; nobody waits for it."""
        self._held.put(None)

    def _run(self) -> None:
        while (held := self._held.get()) is not None:
            with suppress(OSError):  # closing it will do, only at once
                _cut(held)
            os.close(held)


def _cut(descriptor: int) -> None:
    """To nothing, step by step."""
    for size in range(os.fstat(descriptor).st_size - STEP_BYTES, 0, -STEP_BYTES):
        os.ftruncate(descriptor, size)
        time.sleep(PAUSE_S)
