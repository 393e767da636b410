"""A domain of real processes for a test: started by the command line, observed through its
agent."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from holdfast.agent.status_client import status_of
from holdfast.node.layout import Layout
from leftovers import MARK, end_leftovers

HOLDFAST = (sys.executable, "-m", "holdfast")
WAIT_S = 120.0
TRIES_MAX = 5


def is_starved(said: str) -> bool:
    """Whether an upgrade was refused because the machine is too busy for its trial, which gives way to all
    that serves: whoever orders it again may succeed, at most ``TRIES_MAX`` times."""
    return "too busy: " in said


class Domain:
    """A domain in *directory*. Use it as a context manager: none of its processes runs afterwards.

    *is_whole*: whether every host is expected to live once the domain is up.
    """

    def __init__(self, directory: Path, *options: str, is_whole: bool = True) -> None:
        self.directory = directory
        self._is_whole = is_whole
        self._options = options

    def __enter__(self) -> "Domain":
        try:
            self.up()
        except BaseException:
            self.kill()  # some of its processes may run
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill -9 every process of the domain. So it ends: how one is stopped in order is for the tests of
        that to show, and would cost seconds of each domain here."""
        end_leftovers(os.environ[MARK], str(self.directory))

    def up(self) -> None:
        self.run("up", "--detach", *self._options, check=self._is_whole)
        self.status()

    def run(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        command = [*HOLDFAST, words[0], "--dir", str(self.directory), *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of two words or more, with the directory at its end; it must succeed."""
        done = self.told(*words)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done

    def told(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """What a command tells a person, whether it can do it or not."""
        command = [*HOLDFAST, *words, "--dir", str(self.directory)]
        return subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)

    def status(self) -> dict[str, Any]:
        """Return what `holdfast status --output json` prints, without starting the command each time."""
        layout = Layout(self.directory)
        found: dict[str, Any] = msgspec.to_builtins(asyncio.run(status_of(layout, layout.read())))
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
