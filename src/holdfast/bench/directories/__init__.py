"""The directory servers that are compared, one process each, all on loopback with the same persons.

Each is made once for a run, loaded by its own bulk loader, and serves throughout it. A peer is set up as its
documentation advises, with indexes like ours, and its configuration is part of the result. All have the same
administrator, so that one command line of the load generator fits them all but for the port.
"""

import socket
import subprocess
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from holdfast.bench.systems import START_S, Absent

SUFFIX: Final = "dc=example,dc=com"
PEOPLE: Final = f"ou=people,{SUFFIX}"
ADMIN: Final = f"cn=admin,{SUFFIX}"
PASSWORD: Final = "bench-password"
LOAD_S: Final = 3600.0
"""The longest time that a bulk load may take: a million entries on a slow machine."""
POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class RunningDirectory:
    """A directory that answers."""

    port: int
    pid: int


class DirectoryServer(Protocol):
    """One directory server in one configuration."""

    @property
    def name(self) -> str: ...

    @property
    def configuration(self) -> str:
        """Version and options, for people."""
        ...

    def load(self, directory: Path, ldif: Path) -> float:
        """Make the server's files in *directory* from *ldif*; return how many seconds the bulk load took.
        Raises :class:`.Absent`."""
        ...

    def running(self, directory: Path) -> AbstractContextManager[RunningDirectory]:
        """Serve what was loaded; ends with the context."""
        ...

    def remove(self, directory: Path) -> None:
        """Remove what the server keeps outside of *directory*."""
        ...


def run(command: list[str], *, what: str) -> float:
    """Run a program of a server to its end, and return how long it took. Raises :class:`.Absent`."""
    began = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(f"{what}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Absent(f"{what} ended with {done.returncode}: {said[-1] if said else 'it said nothing'}")
    return time.perf_counter() - began


def wait_until_open(port: int, process: "subprocess.Popen[bytes]", name: str) -> None:
    """Wait until the server accepts connections. Raises :class:`.Absent` if it ends, or never does."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise Absent(f"{name} ended with {process.returncode} at its start")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            time.sleep(POLL_S)
        else:
            return
    raise Absent(f"{name} did not listen within {START_S:g} s")


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a server in order, or by force if it takes long."""
    process.terminate()
    try:
        process.wait(START_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
