"""Observes the checkpoints of real hosts, and the machine's disk, from outside.

Checkpoints show by the files they leave, and by the thread that gathers a host's heap before it is copied.

A witness of the disk is a process that syncs its own file, again and again, next to what is measured. When
the witness waits as well, the disk stalled for everyone, whatever the cause. Machines share their disks: on
the one that this was written on, syncs by anyone took 60 to 380 ms a few times a minute, longer than anything
a checkpoint does to a call.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import Final

from holdfast.bench.measuring.usage import Window
from holdfast.machine import MachineClock
from holdfast.machine.process_end import end_with
from holdfast.model.ids import HostId
from holdfast.node.fork_checkpoint import THREAD_NAME
from holdfast.node.layout import Description, Layout
from holdfast.node.store import STORE
from holdfast.storage.checkpoint import UNFINISHED, checkpoint_of
from holdfast.storage.lock import holder_of

POLL_S: Final = 0.02

_clock = MachineClock()


class CheckpointWatch:
    """Observes checkpoints, from the first time one is seen being written until it has its final name."""

    def __init__(self, layout: Layout, description: Description) -> None:
        self._directories = {host: layout.host(host) for host in description.hosts}
        self._begun: dict[tuple[HostId, int], int] = {}
        self._known: dict[tuple[HostId, int], None] = {}
        self._gathering: dict[HostId, int] = {}
        self._gathered: list[Window] = []
        self.finished: list[Window] = []

    async def always(self) -> None:
        for host, position, is_aside in self._look():
            if not is_aside:
                self._known[host, position] = None
        while True:
            for host, position, is_aside in self._look():
                self._note(host, position, is_aside)
            for host, directory in self._directories.items():
                self._note_gathering(host, _is_gathering(directory))
            await asyncio.sleep(POLL_S)

    def activity(self, until_ns: int) -> list[Window]:
        """Return all activity for checkpoints, finished or not; unfinished activity ends after *until_ns*."""
        under_way = (*self._begun.values(), *self._gathering.values())
        return [*self.finished, *self._gathered, *(Window(each, until_ns + 1) for each in under_way)]

    def _look(self) -> Iterator[tuple[HostId, int, bool]]:
        for host, directory in self._directories.items():
            for name in os.listdir(directory / STORE):
                which = checkpoint_of(name)
                if which is not None:
                    yield host, int(which[1]), name.endswith(UNFINISHED)

    def _note(self, host: HostId, position: int, is_aside: bool) -> None:
        key = (host, position)
        if is_aside:
            self._begun.setdefault(key, _clock.now())
        elif key not in self._known:
            self._known[key] = None
            self.finished.append(Window(self._begun.pop(key, _clock.now()), _clock.now()))

    def _note_gathering(self, host: HostId, is_gathering: bool) -> None:
        if is_gathering:
            self._gathering.setdefault(host, _clock.now())
        elif host in self._gathering:
            self._gathered.append(Window(self._gathering.pop(host), _clock.now()))


def _is_gathering(directory: Path) -> bool:
    holder = holder_of(directory)
    if holder is None:
        return False
    with suppress(OSError):  # the thread or the host may be gone by now
        tasks = Path(f"/proc/{holder.pid}/task").iterdir()
        return any((task / "comm").read_text().strip() == THREAD_NAME for task in tasks)
    return False


PAUSE_S: Final = 0.005
STALL_NS: Final = 10_000_000
"""A shorter sync is an ordinary one."""
BYTES: Final = bytes(4096)
_SYNCED: Final = Struct("<qq")
"""When a stalled sync began, and when it ended."""


class Witness:
    """What a witness has seen: the periods in which the disk stalled."""

    def __init__(self, stalls: Sequence[Window]) -> None:
        """*stalls* are in order of time."""
        self._stalls = stalls
        self._ends = [each.end_ns for each in stalls]

    def stalled_ns(self, window: Window) -> int:
        """Return for how much of *window* the disk stalled."""
        total = 0
        for each in self._stalls[bisect_left(self._ends, window.start_ns) :]:
            if each.start_ns >= window.end_ns:
                break
            total += min(each.end_ns, window.end_ns) - max(each.start_ns, window.start_ns)
        return total

    def longest_ns(self, windows: Sequence[Window]) -> int:
        """Return the longest stall that began in one of *windows*."""
        began = [each for each in self._stalls for window in windows if _began_in(each, window)]
        return max((each.length_ns for each in began), default=0)


def _began_in(stall: Window, window: Window) -> bool:
    return window.start_ns <= stall.start_ns < window.end_ns


class Testimony:
    """The record of a running witness; it may be read at any time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> Witness:
        seen = self._file.read_bytes() if self._file.exists() else b""
        whole = seen[: len(seen) // _SYNCED.size * _SYNCED.size]
        return Witness([Window(*each) for each in _SYNCED.iter_unpack(whole)])


@contextmanager
def witnessing(directory: Path) -> Iterator[Testimony]:
    """Run a witness of the disk of *directory* within the context."""
    process = subprocess.Popen([sys.executable, "-m", __name__, str(directory), str(os.getpid())])
    try:
        yield Testimony(directory / "seen")
    finally:
        process.kill()
        process.wait()


def watch(directory: Path) -> None:
    """Sync a file again and again, and record the syncs that took long; never returns."""
    clock = MachineClock()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    synced, seen = (os.open(directory / name, flags, 0o600) for name in ("synced", "seen"))
    while True:
        began = clock.now()
        os.pwrite(synced, BYTES, 0)
        os.fdatasync(synced)
        ended = clock.now()
        if ended - began >= STALL_NS:
            os.write(seen, _SYNCED.pack(began, ended))
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    end_with(int(sys.argv[2]), signal.SIGKILL)
    watch(Path(sys.argv[1]))
