"""The few calls that tests of a disk use: write, sync or not, and sync the directory."""

import os
from contextlib import suppress
from pathlib import Path


def write(path: Path, data: bytes, *, sync: bool, offset: int = 0) -> None:
    """Write into *path*, which is created when absent, and optionally *sync* it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(descriptor, data, offset)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, data: bytes) -> Path:
    """Write and sync *path* and its name."""
    write(path, data, sync=True)
    sync_directory(path.parent)
    return path


def close_dead(descriptor: int) -> None:
    """Close a file whose disk has lost power; whether that is an error depends on what happened before."""
    with suppress(OSError):
        os.close(descriptor)
