"""A process that is of use to its parent alone, and must not outlive it."""

import ctypes
import os
import signal
from typing import Final

PR_SET_PDEATHSIG: Final = 1

_libc: Final = ctypes.CDLL(None, use_errno=True)


def end_with(parent: int, number: signal.Signals) -> None:
    """Ask the kernel for the signal *number* when *parent*, which started this process, is gone. It may be
    gone already, and then nobody else sends it."""
    _libc.prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
