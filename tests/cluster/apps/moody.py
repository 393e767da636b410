"""A class that provides its own state, and neither gives nor takes one while a file in *marks* says so. It
writes a line to another file for each time that it did."""

import os
import time
from pathlib import Path

import msgspec

import holdfast as hf

WORK_S = 0.03
"""More than half of what a warm backup may lack, so it is brought up to date after each call."""


class Moody:
    def __init__(self, marks: str) -> None:
        self._marks = Path(marks)
        self._lines: list[str] = []
        self._told = 0

    def write(self, line: str) -> int:
        time.sleep(WORK_S)
        self._lines.append(line)
        return len(self._lines)

    @hf.query
    def lines(self) -> list[str]:
        return self._lines

    def get_state(self) -> bytes:
        if self._refuses("get_state"):
            raise hf.NoStateAvailable("not now")
        self._told = len(self._lines)
        return msgspec.msgpack.encode(self._lines)

    def set_state(self, state: bytes) -> None:
        if self._refuses("set_state"):
            raise hf.InvalidState("not this one")
        self._lines = msgspec.msgpack.decode(state, type=list[str])
        self._told = len(self._lines)

    def get_update(self) -> bytes:
        if self._refuses("get_update"):
            raise hf.NoUpdateAvailable("not now")
        told, self._told = self._told, len(self._lines)
        return msgspec.msgpack.encode((told, self._lines[told:]))

    def set_update(self, update: bytes) -> None:
        if self._refuses("set_update"):
            raise hf.InvalidUpdate("not this one")
        told, lines = msgspec.msgpack.decode(update, type=tuple[int, list[str]])
        self._lines[told:] = lines
        self._told = len(self._lines)

    def _refuses(self, method: str) -> bool:
        is_refused = (self._marks / f"refuse {method}").exists()
        with open(self._marks / f"{'refused' if is_refused else 'done'} {method}", "a") as file:
            file.write(f"{os.getpid()}\n")
        return is_refused
