"""A directory of real files, changed step by step by one thread; the first failure is the last step (D1).

:class:`Freeing` releases the blocks of removed files a little at a time, in a thread of its own. Freeing a
hundred megabytes at once takes 30 to 100 ms, during which no sync of that file system ends, so the log's
syncs waited whenever an old checkpoint was removed. A removed file keeps its blocks while it is open. Its
name is therefore removed at once, and its blocks follow, from the end, with pauses.
"""

import errno
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from holdfast.machine.files import make_durably
from holdfast.model.errors import DiskFailed, HoldfastError, NoSpace
from holdfast.storage.free_space import FreeSpace

STEP_BYTES: Final = 4 << 20
"""The bytes freed in one step; a file up to this size needs no steps."""
PAUSE_S: Final = 0.03
"""The pause between two steps: 130 MB/s, faster than checkpoints are written."""


class Freeing:
    """Removes files. Its thread starts with the first large one."""

    def __init__(self) -> None:
        self._held: SimpleQueue[int | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def remove(self, path: Path | str, *, within: int | None = None) -> None:
        """Remove the file, whose name is gone when this returns; *within* is the descriptor of its directory.

        If the process ends before all blocks are freed, the kernel frees the rest. Raises ``OSError``.
        """
        is_large = os.stat(path, dir_fd=within).st_size > STEP_BYTES
        held = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=within) if is_large else None
        os.unlink(path, dir_fd=within)
        if held is None:
            return
        if os.fstat(held).st_nlink:
            # Somebody has the file under another name. *Without it:* a database that was fetched is cut to
            # nothing while its object uses it, because the shelf lets go of its own name.
            os.close(held)
            return
        self._held.put(held)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="freeing", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Let the thread end when it has finished; nobody waits for it."""
        self._held.put(None)

    def _run(self) -> None:
        while (held := self._held.get()) is not None:
            with suppress(OSError):  # closing the file frees it anyway, only all at once
                _cut(held)
            os.close(held)


def _cut(descriptor: int) -> None:
    """Truncate the file to nothing, step by step."""
    for size in range(os.fstat(descriptor).st_size - STEP_BYTES, 0, -STEP_BYTES):
        os.ftruncate(descriptor, size)
        time.sleep(PAUSE_S)


OPEN_FILES_MAX: Final = 64
"""A host has two checkpoints for each of its groups, more files than a process may hold open."""


class Volume:
    """One directory (created when absent). After the first failure its methods do nothing (D1)."""

    def __init__(self, directory: Path) -> None:
        self.failure: HoldfastError | None = None
        self._descriptors: OrderedDict[str, int] = OrderedDict()
        # Files that this process has synced completely and not changed since. Any other file may hold bytes
        # that never reached the disk, including bytes that another process wrote.
        self._synced: set[str] = set()
        self._freeing = Freeing()
        try:
            make_durably(directory)
            self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise translated(error, str(directory)) from error

    def survey(self) -> list[tuple[str, int]]:
        """Names and sizes of the plain files in the directory."""
        try:
            with os.scandir(self._directory) as entries:
                return [(entry.name, entry.stat().st_size) for entry in entries if entry.is_file()]
        except OSError as error:
            raise translated(error, "directory") from error

    def size(self, name: str) -> int:
        try:
            return os.stat(name, dir_fd=self._directory).st_size
        except OSError as error:
            raise translated(error, name) from error

    def space(self) -> FreeSpace | None:
        """The space on the disk of this directory; None if the system does not say."""
        try:
            found = os.fstatvfs(self._directory)
        except OSError:
            return None
        return FreeSpace(free=found.f_bavail * found.f_frsize, total=found.f_blocks * found.f_frsize)

    def open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=self._directory)

    def allocate(self, name: str, size: int) -> None:
        self._attempt(name, self._allocate, name, size)

    def create(self, name: str) -> None:
        self._attempt(name, self._create, name)

    def write(self, name: str, offset: int, data: bytes) -> None:
        self._attempt(name, self._write, name, offset, data)

    def write_and_sync(self, name: str, offset: int, data: bytes) -> None:
        """Like :meth:`write` followed by :meth:`sync`."""
        if self.failure is None:
            written = 0
            try:
                if name in self._synced and name in self._descriptors:
                    # One system call: between two calls, another thread may keep the interpreter while the
                    # disk is idle. The call syncs only what it writes, hence the condition.
                    written = os.pwritev(self._descriptors[name], [data], offset, os.RWF_DSYNC)
                if written < len(data):
                    self._write(name, offset + written, data[written:])
                    self._sync(name)
            except OSError as error:
                self.failure = translated(error, name)

    def truncate(self, name: str, size: int) -> None:
        self._attempt(name, lambda: os.ftruncate(self._changing(name), size))

    def rename(self, old: str, new: str) -> None:
        self._attempt(old, self._rename, old, new)

    def remove(self, name: str) -> None:
        self._attempt(name, self._remove, name)

    def sync(self, name: str) -> None:
        self._attempt(name, self._sync, name)

    def sync_dir(self) -> None:
        self._attempt("directory", os.fsync, self._directory)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        os.close(self._directory)
        self._freeing.close()

    def _attempt(self, name: str, work: Callable[..., object], *arguments: object) -> None:
        if self.failure is None:
            try:
                work(*arguments)
            except OSError as error:
                self.failure = translated(error, name)

    def _allocate(self, name: str, size: int) -> None:
        self._create(name)
        os.posix_fallocate(self._descriptors[name], 0, size)

    def _create(self, name: str) -> None:
        self._release(name)
        self._keep(name, self.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC))

    def _write(self, name: str, offset: int, data: bytes) -> None:
        descriptor = self._changing(name)
        written = os.pwrite(descriptor, data, offset)
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], offset + written)

    def _sync(self, name: str) -> None:
        os.fdatasync(self._descriptor(name))
        self._synced.add(name)

    def _rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._release(new)
        if old in self._descriptors:
            self._descriptors[new] = self._descriptors.pop(old)
        if old in self._synced:
            self._synced.remove(old)
            self._synced.add(new)

    def _remove(self, name: str) -> None:
        self._freeing.remove(name, within=self._directory)
        self._release(name)

    def _changing(self, name: str) -> int:
        self._synced.discard(name)
        return self._descriptor(name)

    def _descriptor(self, name: str) -> int:
        if name not in self._descriptors:
            self._keep(name, self.open(name, os.O_RDWR))
        return self._descriptors[name]

    def _keep(self, name: str, descriptor: int) -> None:
        self._descriptors[name] = descriptor
        if len(self._descriptors) > OPEN_FILES_MAX:
            # Never one with unsynced writes: the kernel may report their failure only to this descriptor.
            for candidate in self._descriptors:
                if candidate in self._synced and candidate != name:
                    os.close(self._descriptors.pop(candidate))
                    break

    def _release(self, name: str) -> None:
        self._synced.discard(name)
        descriptor = self._descriptors.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)


def translated(error: OSError, name: str) -> HoldfastError:
    """Translate a failed system call into an error of Holdfast; *name* says where."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(f"{name}: {error.strerror}")
    return DiskFailed(f"{name}: {error.strerror}")
