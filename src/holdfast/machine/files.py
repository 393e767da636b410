"""Files for this user alone: what a domain keeps is its users' data, and its locks and logs say where it is.

Everything is made closed (directories 0700, files 0600), whatever the shell's umask is; what an earlier run
left open is closed when the domain starts.

A directory that is still there after a power cut: its own name is durable too (D3).
"""

import os
import stat
from collections.abc import Container
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.model.errors import InvalidRequest

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
OTHERS: Final = 0o077


def close_to_others() -> None:
    """Whatever this process and those it starts make from now on is theirs alone."""
    os.umask(OTHERS)


def make_private(directory: Path) -> None:
    """Make *directory* when absent, for this user alone."""
    directory.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)


def open_private(file: Path, flags: int) -> BinaryIO:
    """*file*, made when absent; also one that was left open is closed to others."""
    descriptor = os.open(file, flags | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    _narrow(file, os.fstat(descriptor))
    return os.fdopen(descriptor, "ab" if flags & os.O_APPEND else "wb")


def narrow(path: Path) -> None:
    """Close *path* to others, and everything in it when it is a directory. Links are left alone: what they
    lead to is somebody else's. Raises ``InvalidRequest`` for what is not ours to close."""
    try:
        found = path.lstat()
    except OSError:
        return  # it is not there, or whoever uses it will say what is wrong
    if stat.S_ISLNK(found.st_mode):
        return
    _narrow(path, found)  # a directory first: from then on nobody else can put anything in its place
    if not stat.S_ISDIR(found.st_mode):
        return
    try:
        names = os.listdir(path)
    except OSError:
        return
    for name in names:
        narrow(path / name)


def narrow_own(directory: Path, ours: Container[str]) -> None:
    """Close what is named in *ours* within *directory*; and the directory, if it holds nothing else. One that
    was somebody's before (``--dir .``) stays as open as they want it."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    if all(name in ours for name in names):
        narrow(directory)
        return
    for name in names:
        if name in ours:
            narrow(directory / name)


def _narrow(path: Path, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if not mode & OTHERS:
        return
    try:
        os.chmod(path, mode & ~OTHERS)
    except OSError as error:
        raise InvalidRequest(
            f"{path} is open to others (mode {mode:o}) and cannot be closed: {error.strerror}; "
            f"let it belong to the user who runs this, or `chmod go= {path}`"
        ) from None


def make_durably(directory: Path) -> None:
    """Make *directory* when absent; sync the names of it and its ancestors up to the root of the file system.
    What is made is this user's alone.

    Always, not only when made here: whoever laid it out or locked it first may have made it, unsynced.
    """
    make_private(directory)
    directory = directory.resolve()
    device = directory.stat().st_dev
    for ancestor in directory.parents:
        if ancestor.stat().st_dev != device:
            return  # beyond a mount point: it was there before anything below it
        try:
            descriptor = os.open(ancestor, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:
            return  # a process that may not look into it has made nothing in it
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
