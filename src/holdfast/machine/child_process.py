"""A child process and its output file: the child ends exactly once, and its last error message can be read.

:class:`Child` sees the exit through a pidfd in the event loop, within a millisecond or two after the kernel
has freed the process's memory. It never relies on a pid alone: a number can be reused, but not while the
child has not been waited for. :class:`Output` is the bounded file of what the process wrote to its standard
error.
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
"""When the process starts again, a longer file is renamed; one older file is kept."""
TAIL_BYTES: Final = 16 << 10
COMPLAINT: Final = "holdfast: "
"""The beginning of the line in which a process says why it ends."""
COMPLAINT_CHARS_MAX: Final = 400


class Output:
    """The output file of one process, across all its restarts."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began_at = 0

    def begin(self) -> BinaryIO:
        """Open the file for another run of the process, which appends to it."""
        make_private(self._file.parent)
        self._began_at = self._size()
        if self._began_at > BYTES_MAX:
            self._file.replace(self._file.with_suffix(".log.old"))
            self._began_at = 0
        return open_private(self._file, os.O_WRONLY | os.O_APPEND)

    def tail(self, lines: int, *, start: int = 0) -> list[str]:
        """The last lines written, at most *lines*, none from before byte *start*."""
        try:
            with self._file.open("rb") as file:
                file.seek(max(start, self._size() - TAIL_BYTES))
                return file.read(TAIL_BYTES).decode(errors="replace").splitlines()[-lines:]
        except FileNotFoundError:
            return []

    def complaint(self) -> str | None:
        """Why the process of the latest run ended, in its own words; None when it did not say."""
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
"""The exit code of a host that ends itself because its loop stood still for too long (K3). It lets the agent
distinguish a hang from a crash."""
DAMAGED_STATUS: Final = 88
"""The exit code of a host that cannot continue because its disk does not hold what was written."""


class Child:
    """One running child. *on_exit(code)* is called once, on the loop, after the child was waited for."""

    def __init__(self, command: Sequence[str], *, output: Output, on_exit: Callable[[int], None]) -> None:
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        # The child gets its own session: Ctrl-C in a terminal goes only to the command that shows the domain,
        # which then stops the child in an orderly way.
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
    """Describe in words how a process ended."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
