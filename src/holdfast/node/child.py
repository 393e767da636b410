"""A process that this process started: it ends exactly once, and `waitpid` says so.

The exit is seen through a pidfd in the event loop, within a millisecond or two of the kernel having freed
the process's memory. Nothing here trusts a pid: a number can be reused, a child of ours that has not
been waited for cannot.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.node.output import Output

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
