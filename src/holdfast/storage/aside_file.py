"""A file of a store that is written outside the disk's own thread, with syncs on the way."""

import errno
import os
from pathlib import Path
from typing import Final

SYNC_EVERY_BYTES: Final = 1 << 20
"""Sync after this many bytes: the log's syncs share the disk with this file and must not wait long for it."""


class AsideFailed(Exception):
    """Raised when the disk fails, as opposed to an ``OSError`` of the application's own code."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror)
        self.number = error.errno or errno.EIO


class AsideFile:
    """Writes one such file from the beginning. Every method raises :class:`AsideFailed`."""

    def __init__(self, path: Path) -> None:
        self._unsynced = 0
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AsideFailed(error) from None

    def write(self, data: bytes) -> None:
        try:
            written = os.write(self._descriptor, data)
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            raise AsideFailed(error) from None
        self._unsynced += len(data)
        if self._unsynced >= SYNC_EVERY_BYTES:
            self.sync()

    def sync(self) -> None:
        self._unsynced = 0
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise AsideFailed(error) from None

    def close(self) -> None:
        os.close(self._descriptor)
