"""A directory of files to look into: what reading needs of the Disk port, and no way to change anything."""

import os
from pathlib import Path

from holdfast.model.errors import DiskFailed


class Directory:
    """Files of a stopped host. Unlike :class:`.disk.FileDisk` it needs no thread and makes nothing."""

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
