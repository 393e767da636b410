"""An exclusive lock on a directory, held from before a process serves until the process is gone (K2).

The kernel releases the lock when the process ends, however it ends, and not before. Whoever obtains the lock
therefore has proof that the last holder is gone. It is a POSIX record lock because a forked child does not
inherit those, so a helper of the holder can never keep the lock. These locks have one trap: closing *any*
descriptor of the file releases the lock. Therefore only this module opens the file, and a holder opens it
only once.
"""

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
_FLOCK: Final = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, length, pid


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The process that holds, or last held, a directory. Only the pid comes from the kernel."""

    pid: int
    what: str
    """A description for people: `host host1`, `agent`, `authority`."""
    since: str = ""
    incarnation: int | None = None


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
        make_private(directory)
        descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found = _holder(descriptor)
            os.close(descriptor)
            raise LockHeld(directory, found or Holder(pid=0, what="a process that ended just now")) from None
        lock = cls(descriptor, _note(descriptor))
        if holder is not None:
            lock.leave_word(holder)
        return lock

    def leave_word(self, holder: Holder) -> None:
        """Write down who holds the directory. The note need not outlive a power cut: the holder does not."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, msgspec.json.encode(holder), 0)

    def release(self) -> None:
        os.close(self._descriptor)


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
        return msgspec.json.decode(os.pread(descriptor, NOTE_BYTES_MAX, 0), type=Holder)
    except msgspec.DecodeError:
        return None
