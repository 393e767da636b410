"""A process that prints what it has done, line by line, and may be killed or stopped at any moment."""

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType

ENDING_TIMEOUT_S = 120.0
"""A killed process is gone in milliseconds, unless it waits for a disk whose syncs hang."""


class Victim:
    """Starts *argv* and collects the complete lines it prints; a line cut short by death does not count.

    Signals go to this pid only, and only while it has not been waited for, so it cannot belong to another
    process.
    """

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        self._argv, self._env = list(argv), env
        self._spoke = threading.Condition()

    def __enter__(self) -> "Victim":
        self.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, for the first time or again; the output of an earlier life is forgotten."""
        self._lines: list[str] = []
        self._ended = False
        self._process = subprocess.Popen(
            self._argv, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._errors = b""
        self._readers = [threading.Thread(target=read) for read in (self._read_lines, self._read_errors)]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for_lines(self, count: int, *, timeout_s: float) -> bool:
        """Wait for *count* lines unless the process ends first; return whether it has printed them."""
        with self._spoke:
            self._spoke.wait_for(lambda: len(self._lines) >= count or self._ended, timeout_s)
            return len(self._lines) >= count

    def wait_until_silent(self, *, for_s: float = 1.0) -> int:
        """Return how many lines it has printed, once it has printed nothing more for that long."""
        with self._spoke:
            while True:
                said = len(self._lines)
                if not self._spoke.wait_for(lambda: len(self._lines) > said, for_s):  # noqa: B023  asked at once
                    return said

    def wait(self, *, timeout_s: float) -> int:
        """Wait until it ends by itself; return its exit status, negative for a signal."""
        status = self._process.wait(timeout=timeout_s)
        self._finish_reading()
        return status

    def kill(self) -> None:
        """Send SIGKILL; returns when it is gone and everything it printed is in ``lines``."""
        self._signal(signal.SIGKILL)
        self._process.wait(timeout=ENDING_TIMEOUT_S)
        self._finish_reading()

    def stop(self) -> None:
        """Send SIGSTOP: it stands still, holding everything it holds, until :meth:`go_on`."""
        self._signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    @property
    def lines(self) -> list[str]:
        with self._spoke:
            return list(self._lines)

    @property
    def errors(self) -> str:
        """Return what it wrote to stderr; complete once it has ended."""
        return self._errors.decode(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _read_lines(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        with stream:
            for line in stream:
                if line.endswith(b"\n"):
                    with self._spoke:
                        self._lines.append(line[:-1].decode())
                        self._spoke.notify_all()
        with self._spoke:
            self._ended = True
            self._spoke.notify_all()

    def _read_errors(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        with stream:
            self._errors = stream.read()

    def _finish_reading(self) -> None:
        for reader in self._readers:
            reader.join(timeout=ENDING_TIMEOUT_S)
