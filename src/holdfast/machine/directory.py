"""A directory that is still there after a power cut: its own name is durable too (D3)."""

import os
from pathlib import Path

from holdfast.machine.privacy import make_private


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
