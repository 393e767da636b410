"""A domain of real processes for a test: started and stopped by the command line, observed through its
agent."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from holdfast.agent.status_client import status_of
from holdfast.node.layout import Layout

HOLDFAST = (sys.executable, "-m", "holdfast")
WAIT_S = 120.0


class Domain:
    """A domain in *directory*. Use it as a context manager: none of its processes runs afterwards.

    *is_whole*: whether every host is expected to live once the domain is up.
    """

    def __init__(self, directory: Path, *options: str, is_whole: bool = True) -> None:
        self.directory = directory
        self._is_whole = is_whole
        self._options = options
        self._pids: list[int] = []

    def __enter__(self) -> "Domain":
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.run("down", check=False)
        for pid in dict.fromkeys(self._pids):
            if _is_ours(pid):
                os.kill(pid, signal.SIGKILL)

    def up(self) -> None:
        self.run("up", "--detach", *self._options, check=self._is_whole)
        self.status()

    def run(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        command = [*HOLDFAST, words[0], "--dir", str(self.directory), *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done

    def status(self) -> dict[str, Any]:
        """Return what `holdfast status --output json` prints, without starting the command each time."""
        layout = Layout(self.directory)
        found: dict[str, Any] = msgspec.to_builtins(asyncio.run(status_of(layout, layout.read())))
        self._pids += [host["pid"] for host in found["hosts"] if host["pid"]]
        self._pids += [each["pid"] for each in (found["authority"], found["agent"]) if each and each["pid"]]
        return found

    def host(self, name: str) -> dict[str, Any]:
        (found,) = (host for host in self.status()["hosts"] if host["id"] == name)
        return found

    def wait(self, what: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask for the status until *holds* is true of it; fails with *what* did not happen."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            status = self.status()
            if holds(status):
                return status
            time.sleep(0.05)
        raise AssertionError(f"did not happen within {WAIT_S:g} s: {what}; {status}")


def is_whole(status: dict[str, Any]) -> bool:
    """Whether every host lives and hears every other."""
    return all(
        host["alive"]
        and len(host["report"]["peers"]) == len(status["hosts"]) - 1
        and not any(peer["silent"] or peer["heard_ms"] is None for peer in host["report"]["peers"])
        for host in status["hosts"]
    )


def _is_ours(pid: int) -> bool:
    """Whether *pid* is still one of the processes this test started (and not reused by another)."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"holdfast" in command
