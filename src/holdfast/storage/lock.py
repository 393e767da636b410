"""An exclusive lock on a directory, held from before a process serves until the process is gone (K2).

The kernel releases the lock when the process ends, however it ends, and not before. Whoever obtains the lock
therefore has proof that the last holder is gone. It is a POSIX record lock because a forked child does not
inherit those, so a helper of the holder can never keep the lock. These locks have one trap: closing *any*
descriptor of the file releases the lock. Therefore only this module opens the file, and a holder opens it
only once.

The lock is one of a file, not of a name. The holder's note says in which file it was written, so that the
note in a copy of a directory, or in a lock file that was put there, proves nothing about anybody. Whoever
waits for a holder keeps the file itself open (:class:`LockWatch`): if the directory is moved away and another
takes its name, the lock that is waited for is still the holder's.
*Without it:* a host's directory is moved away while the host runs, and a copy of it takes its place. The
agent obtains the lock of the copy, whose note names the running process, and proves that it is dead.
"""

import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import Final

import msgspec

from holdfast.machine.files import FILE_MODE, make_private
from holdfast.model.errors import Rejected

LOCK_FILE: Final = "lock"
NOTE_BYTES_MAX: Final = 4096
SWAPS_MAX: Final = 8
"""How often a lock file may be replaced while it is being locked, before that is an error."""
_FLOCK: Final = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, length, pid


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The process that holds, or last held, a directory. Only the pid comes from the kernel."""

    pid: int
    what: str
    """A description for people: `host host1`, `agent`, `authority`."""
    since: str = ""
    incarnation: int | None = None
    file: str = ""
    """The file that the note was written in, as device and inode; set by :meth:`DirectoryLock.leave_word`."""


class LockHeld(Rejected):
    """Raised when another process has locked a directory; ``holder`` describes it."""

    code = "held"

    def __init__(self, directory: Path, holder: Holder) -> None:
        since = f" since {holder.since}" if holder.since else ""
        super().__init__(f"{directory} is held by {holder.what} (pid {holder.pid}){since}")
        self.holder = holder


class DirectoryLock:
    """A held lock. It lasts until :meth:`release` or the end of the process."""

    def __init__(self, descriptor: int, last_holder: Holder | None) -> None:
        self._descriptor = descriptor
        self.last_holder = last_holder
        """The previous holder; None when there was none or it left no note."""

    @classmethod
    def take(cls, directory: Path, holder: Holder | None = None) -> "DirectoryLock":
        """Lock *directory* and write down the holder. Raises :class:`LockHeld`.

        Without a *holder*, the note of the last one stays, as an agent needs that only wants proof.
        """
        taken = seize(directory)
        if isinstance(taken, LockWatch):
            found = taken.holder() or Holder(pid=0, what="a process that ended just now")
            taken.close()
            raise LockHeld(directory, found)
        if holder is not None:
            taken.leave_word(holder)
        return taken

    def leave_word(self, holder: Holder) -> None:
        """Write down who holds the directory. The note need not outlive a power cut: the holder does not."""
        note = msgspec.structs.replace(holder, file=_file_of(self._descriptor))
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, msgspec.json.encode(note), 0)

    def release(self) -> None:
        os.close(self._descriptor)


class LockWatch:
    """The lock file of a directory that another process holds, kept open until that process is gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def holder(self) -> Holder | None:
        """Who holds the lock now; None when nobody does."""
        return _holder(self._descriptor)

    def take(self) -> DirectoryLock | None:
        """The lock, which proves that its holder is gone; None while it is held. The lock takes the place of
        this watch."""
        return DirectoryLock(self._descriptor, _note(self._descriptor)) if _lock(self._descriptor) else None

    def close(self) -> None:
        os.close(self._descriptor)


def seize(directory: Path) -> DirectoryLock | LockWatch:
    """Lock *directory*, or return a watch on the lock if another process holds it."""
    make_private(directory)
    path = directory / LOCK_FILE
    for _ in range(SWAPS_MAX):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        if not _lock(descriptor):
            return LockWatch(descriptor)
        if _file_at(path) == _file_of(descriptor):
            return DirectoryLock(descriptor, _note(descriptor))
        os.close(descriptor)  # another file took its name meanwhile, and another process may lock that one
    raise OSError(errno.EAGAIN, "the lock file is replaced again and again", str(path))


def _lock(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _file_of(descriptor: int) -> str:
    found = os.fstat(descriptor)
    return f"{found.st_dev}:{found.st_ino}"


def _file_at(path: Path) -> str | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return f"{found.st_dev}:{found.st_ino}"


def holder_of(directory: Path) -> Holder | None:
    """Who holds *directory* now; None when nobody does.

    A process must not ask about a directory that it holds itself: closing the file would release its lock.
    """
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _holder(descriptor)
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> Holder | None:
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    if kind == fcntl.F_UNLCK:
        return None
    note = _note(descriptor)
    # The note of an earlier holder says nothing about this one.
    return note if note is not None and note.pid == pid else Holder(pid=pid, what="another process")


def _note(descriptor: int) -> Holder | None:
    try:
        note = msgspec.json.decode(os.pread(descriptor, NOTE_BYTES_MAX, 0), type=Holder)
    except msgspec.DecodeError:
        return None
    # A note that was copied here with its directory is about the holder of another lock.
    return note if note.file == _file_of(descriptor) else None
