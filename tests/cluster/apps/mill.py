"""A class with methods that compute for long (E15)."""

import ctypes
import os
import time

import holdfast as hf


class Mill:
    def __init__(self) -> None:
        self.ground: list[str] = []

    @hf.slow
    def grind(self, what: str, seconds: float) -> int:
        """Compute for so long, in Python."""
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass
        self.ground.append(what)
        return len(self.ground)

    @hf.slow
    def wait(self, what: str, seconds: float) -> int:
        """Wait as a library does that gives up the interpreter meanwhile."""
        time.sleep(seconds)
        self.ground.append(what)
        return len(self.ground)

    @hf.slow
    def crash(self, what: str) -> None:
        """End the process, as a mistake in a library in C would."""
        ctypes.string_at(0)

    def stand(self, seconds: float) -> int:
        """Compute without having said so: the loop stands meanwhile."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass
        return os.getpid()

    def add(self, what: str) -> int:
        self.ground.append(what)
        return len(self.ground)

    @hf.query
    def read(self) -> list[str]:
        return self.ground
