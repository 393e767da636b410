"""One benchmark at a time on a machine, so that two never measure each other.

The lock is the name of a Unix socket that is in no directory: it belongs to the machine and not to a user or
a working tree, and the kernel gives it back when its holder has ended, however that ended. Whoever waits asks
the socket who has it.
"""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.bench import Progress
from holdfast.model.errors import Unavailable

NAME: Final = "\0holdfast-benchmark"
POLL_S: Final = 1.0
WAIT_S: Final = 4 * 3600.0
"""How long to wait: about what all benchmarks together take on a slow machine."""
_CREDENTIALS: Final = struct.Struct("3i")


@contextmanager
def alone(progress: Progress, *, name: str = NAME, wait_s: float = WAIT_S) -> Iterator[None]:
    """Measure within this context. Waits while another process does; raises ``Unavailable`` in the end."""
    until, told = time.monotonic() + wait_s, ""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        while not _is_taken(lock, name):
            who = _holder(name)
            if time.monotonic() >= until:
                raise Unavailable(f"{who} still measures after {wait_s:g} s; two would measure each other")
            if who != told:
                progress(f"waiting for {who}, which measures on this machine")
                told = who
            time.sleep(min(POLL_S, max(0.0, until - time.monotonic())))
        yield


def _is_taken(lock: socket.socket, name: str) -> bool:
    try:
        lock.bind(name)
    except OSError:
        return False
    lock.listen()
    return True


def _holder(name: str) -> str:
    """Who has the lock, for people."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(name)
            found = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return "another benchmark"
    pid, _, _ = _CREDENTIALS.unpack(found)
    return f"the benchmark with pid {pid}"
