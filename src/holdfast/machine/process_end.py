"""How a process ends when the program contradicts itself.

A broken invariant must stop the replica, but an event loop only reports what its call-backs raise and goes on
with the next one. So a process that holds state tells its loop to end it instead.

A process that is of use to its parent alone, and must not outlive it.
"""

import asyncio
import ctypes
import os
import signal
import sys
import traceback
from typing import Any, Final

import structlog

from holdfast.model.errors import BrokenInvariant

EXIT_BROKEN: Final = 70
"""The code of a process that ended by a broken invariant."""

log = structlog.get_logger("holdfast.process")


def end_on_broken_invariant(loop: asyncio.AbstractEventLoop) -> None:
    """End the process at once when a call-back of *loop* finds an invariant broken, or is left by what is no
    ``Exception``, as by ``sys.exit``; log anything else."""
    loop.set_exception_handler(_on_failure)


def _on_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if error is not None and not isinstance(error, Exception | asyncio.CancelledError):
        # Nothing runs in order after this: what is in memory is not to be trusted with the disk.
        what = "a broken invariant" if isinstance(error, BrokenInvariant) else repr(error)
        print(f"holdfast: {what} ends this process: {error}", file=sys.stderr)
        traceback.print_exception(error)
        sys.stderr.flush()
        os._exit(EXIT_BROKEN)
    log.error(context.get("message", "a call-back failed"), exc_info=error)


PR_SET_PDEATHSIG: Final = 1

_libc: Final = ctypes.CDLL(None, use_errno=True)


def end_with(parent: int, number: signal.Signals) -> None:
    """Ask the kernel for the signal *number* when *parent*, which started this process, is gone. It may be
    gone already, and then nobody else sends it."""
    _libc.prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
