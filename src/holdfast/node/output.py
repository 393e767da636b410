"""What a process of the domain wrote to its standard error: kept within bounds, read for its last words."""

import os
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.machine.privacy import make_private, open_private

BYTES_MAX: Final = 8 << 20
"""A longer file is moved aside when the process starts again; one older file is kept."""
TAIL_BYTES: Final = 16 << 10
COMPLAINT: Final = "holdfast: "
"""How the line begins in which a process says why it ends."""
COMPLAINT_CHARS_MAX: Final = 400


class Output:
    """The file of one process, through all its lives."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began_at = 0

    def begin(self) -> BinaryIO:
        """Open the file for one more life of the process, which adds to its end."""
        make_private(self._file.parent)
        self._began_at = self._size()
        if self._began_at > BYTES_MAX:
            self._file.replace(self._file.with_suffix(".log.old"))
            self._began_at = 0
        return open_private(self._file, os.O_WRONLY | os.O_APPEND)

    def tail(self, lines: int, *, start: int = 0) -> list[str]:
        """The last lines written, at most *lines* of them, none from before byte *start*."""
        try:
            with self._file.open("rb") as file:
                file.seek(max(start, self._size() - TAIL_BYTES))
                return file.read(TAIL_BYTES).decode(errors="replace").splitlines()[-lines:]
        except FileNotFoundError:
            return []

    def complaint(self) -> str | None:
        """Why the process of the life last begun ended, in its own words; None when it did not say."""
        for line in reversed(self.tail(TAIL_BYTES, start=self._began_at)):
            if line.startswith(COMPLAINT):
                return line.removeprefix(COMPLAINT)[:COMPLAINT_CHARS_MAX]
        return None

    def _size(self) -> int:
        try:
            return self._file.stat().st_size
        except FileNotFoundError:
            return 0
