"""What the workers of the tests do: each is a function of bytes, as a worker's target must be."""

import ctypes
import os
import time

import msgspec


def double(job: bytes) -> bytes:
    return job + job


def pid(job: bytes) -> bytes:
    return str(os.getpid()).encode()


def environment(job: bytes) -> bytes:
    """What the process is: its niceness and session, who its parent is, and which files it has open."""
    files = []
    for each in os.listdir("/proc/self/fd"):
        try:
            files.append(os.readlink(f"/proc/self/fd/{each}"))
        except FileNotFoundError:
            continue  # the one that listed them
    return msgspec.msgpack.encode((os.nice(0), os.getsid(0), os.getppid(), files))


def fail(job: bytes) -> bytes:
    raise ValueError(f"cannot do {job.decode()}")


def leave(job: bytes) -> bytes:
    raise SystemExit(3)


def die(job: bytes) -> bytes:
    os.kill(os.getpid(), 9)
    return b""


def die_once(job: bytes) -> bytes:
    """Die when the file that the job names is not there yet."""
    try:
        os.close(os.open(job, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return b"alive"
    return die(job)


def much(job: bytes) -> bytes:
    return bytes(int(job))


def grow(job: bytes) -> bytes:
    return bytes(bytearray(int(job))[:1])


def spin(job: bytes) -> bytes:
    until = time.monotonic() + float(job)
    while time.monotonic() < until:
        pass
    return b"spun"


def hold(job: bytes) -> bytes:
    """Keep the interpreter: no other thread of the process runs meanwhile."""
    ctypes.PyDLL(None).usleep(int(float(job) * 1e6))
    return b"held"


def printing(job: bytes) -> bytes:
    print("what work prints is not its result")
    return job
