"""Ends a process at once when an invariant is broken, and ends a child together with its parent.

A broken invariant must stop the replica, but an event loop only reports an exception of a callback and
continues with the next one. A process that holds state therefore tells its loop to end it instead. A process
that is useful only to its parent asks the kernel for a signal when the parent is gone.
"""

import asyncio
import ctypes
import os
import signal
import sys
import traceback
from typing import Any, Final

from holdfast.machine.trace import LibraryLog
from holdfast.model.errors import BrokenInvariant

EXIT_BROKEN: Final = 70
"""The exit code of a process that ended because of a broken invariant."""

log = LibraryLog("holdfast.process")


def end_on_broken_invariant(loop: asyncio.AbstractEventLoop) -> None:
    """End the process at once when a callback of *loop* breaks an invariant.

    The same holds for anything raised that is not an ``Exception``, such as ``SystemExit``. Every other
    exception is logged.
    """
    loop.set_exception_handler(_on_failure)


def _on_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if error is not None and not isinstance(error, Exception | asyncio.CancelledError):
        # An orderly shutdown is not possible: the state in memory must not be written to the disk.
        what = "a broken invariant" if isinstance(error, BrokenInvariant) else repr(error)
        print(f"holdfast: {what} ends this process: {error}", file=sys.stderr)
        traceback.print_exception(error)
        sys.stderr.flush()
        os._exit(EXIT_BROKEN)
    if log.is_heard:
        log.error(context.get("message", "a call-back failed"), exc_info=error)
    else:
        loop.default_exception_handler(context)


PR_SET_PDEATHSIG: Final = 1

_libc: Final = ctypes.CDLL(None, use_errno=True)


def end_with(parent: int, number: signal.Signals) -> None:
    """Ask the kernel to send the signal *number* when *parent*, which started this process, is gone.

    If it is gone already, send the signal here.
    """
    _libc.prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
