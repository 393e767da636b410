"""Finds and ends processes that a test left behind, so that they do not slow those that follow.

Whoever tests real processes ends them; a test that fails on the way, or is interrupted, may not get there,
and a domain that nobody stops goes on beating for hours. Every process that a session of tests starts
inherits the session's mark in its environment, which the kernel shows; so those of other sessions are never
touched.
"""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = "TESTS_OF_HOLDFAST"
PROC: Final = Path("/proc")
GONE_S: Final = 30.0
"""How long killed processes may take to be gone; a busy disk holds one up."""
POLL_S: Final = 0.01
SHOWN_CHARACTERS_MAX: Final = 160


@dataclass(frozen=True, slots=True)
class Leftover:
    pid: int
    command: str

    def __str__(self) -> str:
        return f"pid {self.pid}: {self.command[:SHOWN_CHARACTERS_MAX]}"


def mark_children(worker: str = "") -> str:
    """Let the processes that this one starts from now on carry a mark of their own, and return it. That of a
    *worker* begins with that of the process which started it."""
    mark = f"{os.environ[MARK]}.{worker}" if worker else f"{os.getpid()}-{time.time_ns()}"
    os.environ[MARK] = mark
    return mark


def end_leftovers(mark: str, below: str = "") -> list[Leftover]:
    """Kill the processes of Holdfast and of its tests that have *mark*, and return them once they are gone.
    If a directory is given, only those whose command names it, or something *below* it."""
    ended: dict[int, Leftover] = {}
    deadline = time.monotonic() + GONE_S
    while found := list(_leftovers(mark, below)):
        for each in found:
            _kill(each.pid, mark)
            ended[each.pid] = each
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_S)  # and look again: one that was killed may just have started another
    return list(ended.values())


def is_ours(command: Sequence[str]) -> bool:
    """Whether *command* is one of Holdfast or of its tests. Servers that the tests of a session share,
    workers of pytest and helpers of Python's own are not."""
    return any("holdfast" in word or "/tests/" in word for word in command[1:])


def _leftovers(mark: str, below: str) -> Iterator[Leftover]:
    known = {int(each.name): _words(each.name) for each in PROC.iterdir() if each.name.isdigit()}
    ours = {pid: words for pid, words in known.items() if is_ours(words) and _has(pid, mark)}
    ours.pop(os.getpid(), None)
    meant = {pid for pid, words in ours.items() if _names(words, below)}
    # Helpers of a process name its pid, and no directory.
    while more := {pid for pid in ours.keys() - meant if _parent(pid) in meant}:
        meant |= more
    for pid in sorted(meant):
        yield Leftover(pid, " ".join(ours[pid]).strip())


def _words(pid: str) -> list[str]:
    return _read(int(pid), "cmdline").decode(errors="replace").split("\0")


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _names(command: Sequence[str], below: str) -> bool:
    return not below or any(word == below or word.startswith(f"{below}/") for word in command)


def _kill(pid: int, mark: str) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return  # it has just ended
    try:
        # The pidfd keeps referring to one process. If that one has the mark, the signal reaches no other.
        if _has(pid, mark):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)


def _has(pid: int, mark: str) -> bool:
    """Whether the process was started under *mark*, or by a worker of it; one that has ended was not."""
    named = f"{MARK}={mark}".encode()
    return any(each == named or each.startswith(named + b".") for each in _read(pid, "environ").split(b"\0"))


def _read(pid: int, name: str) -> bytes:
    """Read a file about a process: empty for one that has ended, or that is somebody else's."""
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
