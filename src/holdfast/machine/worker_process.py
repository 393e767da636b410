"""A process that works for its host: how the host starts and ends it, and what it does to itself first (W4).

A worker owns nothing. It gets its work through a pipe and answers through another, inherits no other file, so
it never holds the store's lock (K2), and the kernel kills it when its host is gone. Its memory is bounded and
it yields the processor to processes that serve; when memory runs short, the kernel kills it first. What it
made counts when its host has checked it.

:class:`WorkerProcess` is the host's side. :func:`begin_work`, :func:`restrict_process`, :func:`own_output`
and :func:`run_in_loop` are what the worker's ``main`` calls.
"""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from holdfast.machine.pipe_frames import FRAME_BYTES_MAX, next_frame
from holdfast.machine.process_end import end_with
from holdfast.machine.process_tuning import USUAL_NS, ask_for_slices

R = TypeVar("R")

NICENESS: Final = 10
"""Processes that serve have precedence: a worker gets a tenth of a host's share when both are busy. It stays
in its host's session, where the host's threads are let in before it more often (decision 98)."""
_OPTIONS: Final = ("-P", "-B")
"""They exclude the start directory, which may be the application's, and bytecode files."""


def run_in_loop(work: Callable[[], R]) -> R:
    """Run *work* with an event loop around it, as methods have on a host. *Without it:* a method that awaits
    ``asyncio.sleep`` is told on a host that it cannot, and in a worker that there is no loop: a replay
    differs, and its group cannot be upgraded."""

    async def run() -> R:
        return work()

    return asyncio.run(run())


class WorkerProcess:
    """One running worker, on the loop of the host that started it.

    Start it on the main thread: the kernel sends the parent-death signal when the *thread* that started the
    worker ends, not the process.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # both pipes were asked for
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = process.stdout
        self.pid: Final = process.pid

    @classmethod
    async def start(cls, module: str, *arguments: str, directory: Path | None = None) -> "WorkerProcess":
        """Run *module* as a worker; its first argument is this process's pid. Raises ``OSError``."""
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                *_OPTIONS,
                "-m",
                module,
                str(os.getpid()),
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=directory,
            )
        )

    async def write(self, frame: bytes) -> None:
        """Send it a message that is framed already; waits while it has many unread. Raises ``OSError``."""
        self._input.write(frame)
        await self._input.drain()

    def write_end(self) -> None:
        """Say that no more messages follow."""
        self._input.close()

    async def read(self, most: int = FRAME_BYTES_MAX) -> bytes:
        """Its next message, of at most *most* bytes. Raises ``EOFError`` when it has ended without one, and
        ``msgspec.ValidationError`` for a longer one."""
        return await next_frame(self._output, most)

    def without_core_s(self) -> float:
        """How long its main thread was ready to run and had to wait for a core, which others had;
        0 where the kernel does not say."""
        with suppress(OSError, ValueError, IndexError):
            said = Path(f"/proc/{self.pid}/schedstat").read_text(encoding="ascii")
            return int(said.split()[1]) / 1e9
        return 0.0

    async def wait(self) -> int:
        """Wait for its end; returns the exit code, negative for a signal."""
        return await self._process.wait()

    async def end(self) -> int:
        """Kill it, if it is still there, and wait for its end, which comes at once. Who cancels this waits as
        well: otherwise nobody would have waited for the process."""
        with suppress(ProcessLookupError):
            self._process.kill()
        waiting = asyncio.ensure_future(self._process.wait())
        is_cancelled = False
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                is_cancelled = True
        if is_cancelled:
            raise asyncio.CancelledError
        return waiting.result()


# --- in the worker


def begin_work(arguments: Sequence[str]) -> BinaryIO:
    """Tie this process to its host, whose pid is the first of *arguments*; returns the stream for answers."""
    end_with(int(arguments[1]), signal.SIGKILL)
    return own_output()


def restrict_process(memory_bytes: int) -> None:
    """Give precedence to processes that serve, and limit this one's memory."""
    os.nice(NICENESS)
    ask_for_slices(USUAL_NS)  # its host's are short, and it computes
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("1000")


def own_output() -> BinaryIO:
    """The stream for the answer.

    Output that other code prints goes to standard error, so that it is not taken for the answer.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers
