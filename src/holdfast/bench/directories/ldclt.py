"""The load generator: ``ldclt`` of Debian's 389-ds, which nobody here wrote.

With ``-a N`` it keeps N/2 operations of each connection in flight: once half of N are out, it waits for one
answer before it sends the next. So ``-a`` is twice what is wanted. Operations then count when they are sent,
so that a window may count as many too much as are in flight. Pipelined modifies it cannot do: when answers
come in another order, as those of slapd and 389-ds do, it frees its attributes twice and ends. So many
modifies at once come from many connections.

It counts in samples of ten seconds. SIGQUIT, which it documents as "print statistics", also wakes it, and
then it ends the sample at once: two of them cut out a window of any length, after all have connected.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from holdfast.bench.directories import ADMIN, PASSWORD, PEOPLE
from holdfast.bench.directories.people import DIGITS
from holdfast.bench.measuring.usage import cpu_s
from holdfast.bench.systems import Absent

PROGRAM: Final = "ldclt"
CONNECT_S: Final = 1.0
"""How long it may warm up before the window begins."""
BIND_S: Final = 0.02
"""How long each of its connections may take to bind: passwords are hashed slowly, on purpose."""
ANSWER_S: Final = 30.0
"""How long it may take to say what it counted."""
SAMPLES: Final = 100
"""More than a window needs: it is ended when the window is."""
COUNTED: Final = re.compile(rb"\]: Average rate: .* total: +(\d+)\n")
ERRORS: Final = re.compile(rb"Global error +(\d+) .* occurs +(\d+) times")


class Throughput(Struct, frozen=True, kw_only=True):
    """What one server did under one load."""

    operations: int
    seconds: float
    server_cpu_s: float
    client_cpu_s: float

    @property
    def rate(self) -> float:
        return self.operations / self.seconds

    @property
    def cpu_s_per_1000(self) -> float:
        """The server's own."""
        return self.server_cpu_s * 1_000 / max(1, self.operations)


@dataclass(frozen=True, slots=True)
class Shape:
    """How many connections, and how many operations each has in flight."""

    connections: int
    in_flight: int

    def __str__(self) -> str:
        return f"{self.connections} × {self.in_flight}"


@dataclass(frozen=True, slots=True)
class Work:
    """What is asked again and again, about persons at random."""

    name: str
    options: tuple[str, ...]

    def of(self, persons: int) -> list[str]:
        return [each.replace("LAST", str(persons - 1)) for each in self.options]


NUMBER: Final = "X" * DIGITS
SEARCH_BY_UID: Final = Work(
    "search by uid",
    (
        *("-b", PEOPLE, "-s", "subtree", "-f", f"uid=person{NUMBER}"),
        *("-e", "esearch,random", "-r", "0", "-R", "LAST"),
    ),
)
BASE_SEARCH: Final = Work(
    "base search",
    (
        *("-b", f"uid=person{NUMBER},{PEOPLE}", "-s", "base", "-f", "objectClass=*"),
        *("-e", "esearch,randombase,randombaselow=0,randombasehigh=LAST"),
    ),
)
MODIFY: Final = Work(
    "synced modify",
    (
        *("-b", PEOPLE, "-f", f"uid=person{NUMBER}", "-r", "0", "-R", "LAST"),
        *("-e", f"attreplace=description:changed {NUMBER},random"),
    ),
)


def command(work: Work, shape: Shape, persons: int, port: int | str) -> list[str]:
    """The command line, the same for every server but for the port."""
    pipelined = ("-a", str(2 * shape.in_flight)) if shape.in_flight > 1 else ()
    return [
        *(PROGRAM, "-h", "127.0.0.1", "-p", str(port), "-D", ADMIN, "-w", PASSWORD),
        *("-n", str(shape.connections), *pipelined, "-N", str(SAMPLES), "-E", "1"),
        *work.of(persons),
    ]


def check_is_here() -> None:
    """Raise :class:`.Absent` if there is no load generator."""
    if shutil.which(PROGRAM) is None:
        raise Absent("no ldclt on this machine, which makes the load (Debian: apt-get install 389-ds-base)")


def measure(work: Work, shape: Shape, *, persons: int, port: int, pid: int, seconds: float) -> Throughput:
    """Put the load on the server with that *pid* for so long. Raises :class:`.Absent` if ldclt fails."""
    process = subprocess.Popen(
        command(work, shape, persons, port),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output = _Output(process)
    try:
        time.sleep(CONNECT_S + shape.connections * BIND_S)
        output.cut()
        began, server, client = time.perf_counter(), cpu_s(pid), cpu_s(process.pid)
        time.sleep(seconds)
        server, client = cpu_s(pid) - server, cpu_s(process.pid) - client
        took_s = time.perf_counter() - began
        operations = output.cut()
    finally:
        process.kill()
        process.wait()
        output.close()
    if not operations:
        raise Absent(f"no operation was answered: {' '.join(command(work, shape, persons, port))}")
    return Throughput(operations=operations, seconds=took_s, server_cpu_s=server, client_cpu_s=client)


class _Output:
    """What ldclt says."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None, "it is a pipe"
        self._process = process
        self._pipe = process.stdout
        self._said = b""

    def cut(self) -> int:
        """End a sample now; return how many operations it counted."""
        self._said = b""
        self._process.send_signal(signal.SIGQUIT)
        until = time.monotonic() + ANSWER_S
        while (found := COUNTED.search(self._said)) is None:
            ready, _, _ = select.select((self._pipe,), (), (), max(0.0, until - time.monotonic()))
            data = os.read(self._pipe.fileno(), 1 << 16) if ready else b""
            if not data:
                raise Absent(f"ldclt ended, or said nothing: {self._said[-200:].decode('utf-8', 'replace')}")
            self._said += data
        if (wrong := ERRORS.search(self._said)) is not None:
            raise Absent(f"ldclt counted {int(wrong[2])} answers with result {int(wrong[1])}")
        return int(found[1])

    def close(self) -> None:
        self._pipe.close()
