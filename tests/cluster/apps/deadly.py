"""A class whose methods end the process that executes them."""

import ctypes
import os

import holdfast as hf


class Deadly:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)

    def exit(self, why: str) -> None:
        self.lines.append(why)
        os._exit(1)

    def crash(self) -> None:
        ctypes.string_at(0)

    async def ask_and_exit(self, other: str) -> None:
        await hf.context.group(other).write("asked")
        os._exit(1)

    def exit_later(self) -> None:
        hf.context.call_later(0.1, self.exit, "by a timer")

    @hf.query
    def look_and_exit(self) -> None:
        os._exit(1)

    @hf.query
    def read(self) -> list[str]:
        return self.lines
