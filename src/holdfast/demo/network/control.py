"""One test, one fault process, and one socket between them: a line of JSON each way.

The fault process ends when the socket closes, so nothing outlives a test that failed, was interrupted or was
killed.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ANSWER_TIMEOUT_S = 30.0
"""Commands are instant; a fault process that is silent this long is broken, and its test fails."""


class FaultProcessFailed(Exception):
    """Raised when the fault process refuses a command or has gone: the test then proves nothing."""


class FaultProcess:
    """The test's end: it starts ``python -m <module>`` and sends it commands."""

    def __init__(self, module: str, *arguments: str, bare_path: str = "") -> None:
        """With *bare_path*, Python starts without installed packages, which is quicker, and looks for modules
        there and in this directory."""
        options = ["-S"] if bare_path else []
        places = {"PYTHONPATH": f"{bare_path}:{Path(__file__).parent}"} if bare_path else {}
        ours, theirs = socket.socketpair()
        ours.settimeout(ANSWER_TIMEOUT_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *options, "-m", module, str(theirs.fileno()), *arguments],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **places},
                start_new_session=True,  # Ctrl-C is for the test; closing the socket ends this process
            )
        self._socket = ours
        self._answers = ours.makefile("rb")

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, command: str, **arguments: object) -> Any:
        """Run *command* and return its result; it has taken effect when this returns."""
        try:
            self._socket.sendall(json.dumps([command, arguments]).encode() + b"\n")
            line = self._answers.readline()
        except OSError as error:
            raise FaultProcessFailed(f"{command}: {error}") from error
        if not line:
            raise FaultProcessFailed(f"{command}: the fault process ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise FaultProcessFailed(f"{command}: {answer['error']}")
        return answer["result"]

    def close(self) -> None:
        """Close the socket and wait until the process has cleaned up after itself."""
        self._answers.close()
        self._socket.close()
        try:
            self._process.wait(timeout=ANSWER_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise


class Commands:
    """The fault process's end of the socket."""

    def __init__(self, descriptor: int, handlers: Mapping[str, Callable[..., object]]) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._lines = self._socket.makefile("rb")
        self._handlers = handlers

    def fileno(self) -> int:
        return self._socket.fileno()

    def handle_one(self) -> bool:
        """Read one command and answer it; returns False when the test has gone."""
        line = self._lines.readline()
        if not line:
            return False
        command, arguments = json.loads(line)
        try:
            answer = {"result": self._handlers[command](**arguments)}
        except Exception as error:  # the test must hear of it, whatever it is
            answer = {"error": f"{type(error).__name__}: {error}"}
        self._socket.sendall(json.dumps(answer).encode() + b"\n")
        return True
