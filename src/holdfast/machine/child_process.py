"""A process that this process started: it ends exactly once, and `waitpid` says so.

The exit is seen through a pidfd in the event loop, within a millisecond or two of the kernel having freed
the process's memory. Nothing here trusts a pid: a number can be reused, a child of ours that has not
been waited for cannot.

What a process of the domain wrote to its standard error: kept within bounds, read for its last words.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.machine.files import make_private, open_private

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


HUNG_STATUS: Final = 87
"""With this a host ends itself whose loop has stood still for too long (K3): so its agent can tell a hang
from a crash."""
DAMAGED_STATUS: Final = 88
"""With this a host ends that cannot go on from what is on its disk, because it is not what was written."""


class Child:
    """One running child. *on_exit(code)* is called once, on the loop, after the child was waited for."""

    def __init__(self, command: Sequence[str], *, output: Output, on_exit: Callable[[int], None]) -> None:
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        # A session of its own: a terminal's Ctrl-C is for whoever shows the domain, and stops it in order.
        with output.begin() as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._exited)

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the child has been waited for."""
        if self.is_running:
            self._process.send_signal(number)

    def _exited(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._on_exit(self._process.wait())


def describe_exit(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
