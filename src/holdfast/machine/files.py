"""Files that only this user can access, and directories that survive a power cut.

A domain's files are its users' data, and its locks and logs reveal where that is. Everything is therefore
created private (directories 0700, files 0600), whatever the shell's umask is, and files that an earlier run
left accessible are made private when the domain starts. :func:`make_durably` also makes the name of a
directory durable, :func:`write_durably` those of a file and its contents, :func:`rename_durably` that of
something written aside (D3).
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
    """Make everything that this process and its children create from now on private to this user."""
    os.umask(OTHERS)


def make_private(directory: Path) -> None:
    """Create *directory* when absent, private to this user."""
    directory.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)


def open_private(file: Path, flags: int) -> BinaryIO:
    """Open *file*, creating it when absent, and make it private if it was not."""
    descriptor = os.open(file, flags | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    _narrow(file, os.fstat(descriptor))
    return os.fdopen(descriptor, "ab" if flags & os.O_APPEND else "wb")


def write_durably(file: Path, contents: bytes) -> None:
    """Replace *file* by *contents*, as a whole or not at all, durably, and never readable by others.

    The contents are synced before they get the name, and the name before this returns (D3). *Without that:*
    the power fails, and the file is empty, or the old one is back though others have seen the new one.
    """
    rename_durably(write_aside(file, contents), file)


def rename_durably(aside: Path, name: Path) -> None:
    """Give a file or directory, whose contents are synced, its name in a directory that exists (D3)."""
    aside.rename(name)
    sync_directory(name.parent)


def create_file(file: Path, contents: bytes) -> bool:
    """Make *file* in the same way if there is none; the first of several processes that do so wins. Returns
    whether this one did."""
    aside = write_aside(file, contents)
    try:
        os.link(aside, file)
    except FileExistsError:
        return False
    finally:
        aside.unlink()
        sync_directory(file.parent)
    return True


def write_aside(file: Path, contents: bytes) -> Path:
    """Write *contents*, synced, to a file beside *file* that no other process uses."""
    aside = file.with_name(f"{file.name}.{os.getpid()}.new")
    with open_private(aside, os.O_WRONLY | os.O_TRUNC) as opened:
        opened.write(contents)
        opened.flush()
        os.fsync(opened.fileno())
    return aside


def sync_directory(directory: Path) -> None:
    """Make the names in *directory* durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def narrow(path: Path) -> None:
    """Make *path* private, and everything in it when it is a directory.

    Links are left alone, because their targets belong to somebody else. Raises ``InvalidRequest`` for a path
    whose mode we may not change.
    """
    try:
        found = path.lstat()
    except OSError:
        return  # it does not exist, or its user will report what is wrong
    if stat.S_ISLNK(found.st_mode):
        return
    _narrow(path, found)  # a directory first: from then on nobody else can replace anything in it
    if not stat.S_ISDIR(found.st_mode):
        return
    try:
        names = os.listdir(path)
    except OSError:
        return
    for name in names:
        narrow(path / name)


def narrow_own(directory: Path, ours: Container[str]) -> None:
    """Make the entries of *directory* that are named in *ours* private.

    The directory itself is made private if it holds nothing else. A directory that somebody used before
    (``--dir .``) keeps its mode.
    """
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
    """Create *directory* when absent, private to this user, and make its name durable.

    The names of it and its ancestors are synced up to the root of the file system, even if the directory
    exists: whoever prepared or locked it first may have created it without a sync.
    """
    make_private(directory)
    directory = directory.resolve()
    device = directory.stat().st_dev
    for ancestor in directory.parents:
        if ancestor.stat().st_dev != device:
            return  # beyond a mount point, which existed before anything below it
        try:
            sync_directory(ancestor)
        except PermissionError:
            return  # a process that may not open it has created nothing in it
