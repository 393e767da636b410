"""Work for a worker that does nothing but keep it busy, to show that its host does not mind (W4).

``python`` code that computes gives up its interpreter every few milliseconds; a library in C may keep it for
seconds, and nothing else of its process runs meanwhile. Both are what a host must not do itself.
"""

import ctypes
import os
import time
from typing import Literal

import msgspec


class BusyJob(msgspec.Struct, frozen=True, array_like=True):
    how: Literal["spin", "hold"]
    seconds: float


class BusyResult(msgspec.Struct, frozen=True, array_like=True):
    pid: int
    seconds: float


def work(job: bytes) -> bytes:
    """Be busy as the job says."""
    wanted = msgspec.msgpack.decode(job, type=BusyJob)
    began = time.monotonic()
    if wanted.how == "hold":
        # A library that is loaded like this keeps the interpreter while it is called.
        ctypes.PyDLL(None).usleep(int(wanted.seconds * 1e6))
    while time.monotonic() < began + wanted.seconds:
        pass
    return msgspec.msgpack.encode(BusyResult(os.getpid(), time.monotonic() - began))
