"""The Disk port on real files, and a read-only view of a directory.

:class:`FileDisk` passes every change, in order, to one long-lived thread. The owner's thread never waits for
a stalled disk, so that a slow sync does not silence a host's heartbeats. The names and sizes of the files are
kept in memory, and a read combines the file's content with the writes that are still queued, so that the
owner always sees its own changes. Only a read of a file whose creation, renaming or truncation is still
queued waits for the thread. The first failure is final (D1): the thread changes nothing any more, every sync
answers ``ok=False``, and every further change raises the failure.

:class:`Directory` offers the reading part of the Disk port and cannot change anything.
"""

import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.ports import Token
from holdfast.storage.free_space import FreeSpace
from holdfast.storage.volume import OPEN_FILES_MAX, Volume, translated

CLOSE_WAIT_S = 10.0

Told = Callable[[bool], None]
Job = tuple[Callable[..., None], tuple[object, ...], Told | None]
"""What the thread does, and who is told when it is a sync."""


class FileDisk:
    """One directory (created when absent) as a Disk port. Only the owner's thread may call its methods.

    *call_soon* must run its argument on the owner's thread (``loop.call_soon_threadsafe``). *on_synced* is
    called there; one turn may report several syncs.
    """

    def __init__(
        self,
        directory: Path,
        on_synced: Callable[[Token, bool], None],
        call_soon: Callable[..., object],
    ) -> None:
        self._volume = Volume(directory)
        self._on_synced = on_synced
        self._call_soon = call_soon
        self._files = {name: _File(size) for name, size in self._volume.survey()}
        self._readers: OrderedDict[str, int] = OrderedDict()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._queued = 0
        self._executed = 0
        self._ended: deque[tuple[Told, bool]] = deque()
        self._is_call_due = False
        self._is_closed = False
        self._syncs_began: deque[int] = deque()
        self._space = self._volume.space()
        self._is_looking = False
        self._thread = threading.Thread(target=self._run, name=f"disk {directory.name}", daemon=True)
        self._thread.start()

    # --- the port

    def list(self) -> list[str]:
        return sorted(self._files)

    def size(self, name: str) -> int:
        return self._file(name).size

    def read(self, name: str, offset: int, length: int) -> bytes:
        file = self._file(name)
        if file.reshaped > self._executed:
            self._wait_for_thread()
        length = max(0, min(length, file.size - offset))
        # taken before the read: a write executed during the read may or may not be in it
        executed = self._executed
        try:
            found = os.pread(self._reader(name), length, offset)
        except OSError as error:
            raise translated(error, name) from error
        return file.overlaid(found, offset, length, executed)

    def allocate(self, name: str, size: int) -> None:
        self._reshape(name, self._volume.allocate, name, size)
        self._files[name] = _File(size, reshaped=self._queued)

    def append(self, name: str, data: bytes) -> None:
        if name not in self._files:
            self._reshape(name, self._volume.create, name)
            self._files[name] = _File(0, reshaped=self._queued)
        self.write_at(name, self._files[name].size, data)

    def write_at(self, name: str, offset: int, data: bytes) -> None:
        file = self._file(name)
        self._put(self._volume.write, name, offset, data)
        file.note_write(self._queued, offset, data, self._executed)

    def write_durably(self, name: str, offset: int, data: bytes, then: Told) -> None:
        file = self._files.get(name)
        if file is None or self._is_closed or self._volume.failure is not None:
            file = self._file(name)
            self._check_working()
        self._put_sync(then, self._volume.write_and_sync, name, offset, data)
        file.note_write(self._queued, offset, data, self._executed)

    def truncate(self, name: str, size: int) -> None:
        file = self._file(name)
        self._reshape(name, self._volume.truncate, name, size)
        file.size, file.reshaped = size, self._queued

    def rename(self, old: str, new: str) -> None:
        self._file(old)
        self._forget_reader(new)
        self._reshape(old, self._volume.rename, old, new)
        self._files[new] = self._files.pop(old)
        self._files[new].reshaped = self._queued

    def remove(self, name: str) -> None:
        self._file(name)
        self._reshape(name, self._volume.remove, name)
        del self._files[name]

    def sync(self, name: str, token: Token) -> None:
        self._file(name)
        self._put_sync(partial(self._on_synced, token), self._volume.sync, name)

    def sync_dir(self, token: Token) -> None:
        self._put_sync(partial(self._on_synced, token), self._volume.sync_dir)

    # --- additions to the port for the host

    @property
    def failure(self) -> HoldfastError | None:
        """The failure that ended this disk (``NoSpace`` or ``DiskFailed``); None while it works."""
        return self._volume.failure

    def adopt(self, name: str) -> None:
        """Add a file that another process of this host has written to the directory, complete and synced."""
        self._files[name] = _File(self._volume.size(name))

    def oldest_sync_age_ns(self) -> int:
        """How long the oldest unfinished sync has waited; 0 without one (K3). Callable from any thread."""
        try:
            return now_ns() - self._syncs_began[0]
        except IndexError:
            return 0

    def space(self) -> FreeSpace | None:
        """The space on the disk as the thread last saw it, which looks again now: the owner does not wait for
        a disk that hangs (D5)."""
        if not self._is_looking and not self._is_closed:
            self._is_looking = True
            self._queued += 1
            self._queue.put((self._look, (), None))
        return self._space

    def close(self) -> None:
        """Let the thread finish the queue, then release the files. No callback follows."""
        if self._is_closed:
            return
        self._is_closed = True
        self._queue.put(None)
        # A hung disk must not hang the shutdown too: the thread is a daemon and ends with the process.
        self._thread.join(CLOSE_WAIT_S)
        while self._readers:
            os.close(self._readers.popitem()[1])

    # --- the owner's side

    def _file(self, name: str) -> "_File":
        file = self._files.get(name)
        if file is None:
            raise DiskFailed(f"{name}: no such file")
        return file

    def _check_working(self) -> None:
        if self._is_closed:
            raise DiskFailed("the disk is closed")
        if self._volume.failure is not None:
            raise self._volume.failure

    def _put(self, work: Callable[..., None], *arguments: object) -> None:
        self._check_working()
        self._queued += 1
        self._queue.put((work, arguments, None))

    def _reshape(self, name: str, work: Callable[..., None], *arguments: object) -> None:
        self._put(work, *arguments)
        self._forget_reader(name)

    def _put_sync(self, then: Told, work: Callable[..., None], *arguments: object) -> None:
        # Unlike a change, a sync is answered even after a failure: its owner waits for the answer.
        if self._is_closed:
            return
        self._syncs_began.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        self._queued += 1
        self._queue.put((work, arguments, then))
        if len(self._syncs_began) == 1:
            # Let the thread start now: the owner would keep the interpreter while the disk is idle.
            time.sleep(0)

    def _reader(self, name: str) -> int:
        descriptor = self._readers.get(name)
        if descriptor is None:
            descriptor = self._readers[name] = self._volume.open(name, os.O_RDONLY)
            if len(self._readers) > OPEN_FILES_MAX:
                os.close(self._readers.popitem(last=False)[1])
        self._readers.move_to_end(name)
        return descriptor

    def _forget_reader(self, name: str) -> None:
        descriptor = self._readers.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def _wait_for_thread(self) -> None:
        passed = threading.Event()
        self._queued += 1
        self._queue.put((passed.set, (), None))
        passed.wait()

    def _deliver(self) -> None:
        self._is_call_due = False
        while self._ended and not self._is_closed:
            then, ok = self._ended.popleft()
            then(ok)

    # --- the thread's side

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            work, arguments, then = job
            work(*arguments)
            if then is not None:
                self._report(then)
            self._executed += 1
        self._volume.close()

    def _look(self) -> None:
        self._space = self._volume.space()
        self._is_looking = False

    def _report(self, then: Told) -> None:
        self._syncs_began.popleft()
        self._ended.append((then, self._volume.failure is None))
        # The answer is appended before the flag is read, and the owner clears the flag before it empties the
        # queue. No answer is left behind; at worst there is one unnecessary call.
        if not self._is_call_due and not self._is_closed:
            self._is_call_due = True
            self._call_soon(self._deliver)


class _File:
    """A file as the owner sees it: its state once the thread has processed its queue."""

    __slots__ = ("queued_writes", "reshaped", "size")

    def __init__(self, size: int, *, reshaped: int = 0) -> None:
        self.size = size
        self.reshaped = reshaped
        """The number of the last job that created, renamed or truncated this file."""
        self.queued_writes: deque[tuple[int, int, bytes]] = deque()
        """(job number, offset, data); entries already executed may remain until the next read or write."""

    def note_write(self, job: int, offset: int, data: bytes, executed: int) -> None:
        while self.queued_writes and self.queued_writes[0][0] <= executed:
            self.queued_writes.popleft()
        self.queued_writes.append((job, offset, data))
        self.size = max(self.size, offset + len(data))

    def overlaid(self, found: bytes, offset: int, length: int, executed: int) -> bytes:
        """Return *found*, read after *executed* jobs, with every later write applied to it."""
        while self.queued_writes and self.queued_writes[0][0] <= executed:
            self.queued_writes.popleft()  # a file that is only read from now on must not keep them in memory
        late = [write for write in self.queued_writes if write[0] > executed]
        if not late:
            return found
        result = bytearray(found.ljust(length, b"\0"))
        for _, at, data in late:
            start, end = max(at, offset), min(at + len(data), offset + length)
            if start < end:
                result[start - offset : end - offset] = data[start - at : end - at]
        return bytes(result)


def now_ns() -> int:
    """Nanoseconds including suspended time: a sync that hangs across a suspend is still old."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Directory:
    """The files of a stopped host. Unlike :class:`FileDisk` it has no thread and creates nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def list(self) -> list[str]:
        """The names of the files, sorted."""
        try:
            return sorted(entry.name for entry in os.scandir(self._path) if entry.is_file())
        except OSError as error:
            raise DiskFailed(f"{self._path}: {error.strerror}") from error

    def size(self, name: str) -> int:
        try:
            return (self._path / name).stat().st_size
        except OSError as error:
            raise DiskFailed(f"{name}: {error.strerror}") from error

    def read(self, name: str, offset: int, length: int) -> bytes:
        """At most *length* bytes, fewer at the end of the file."""
        try:
            with (self._path / name).open("rb", buffering=0) as file:
                return os.pread(file.fileno(), length, offset)
        except OSError as error:
            raise DiskFailed(f"{name}: {error.strerror}") from error
