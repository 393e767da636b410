"""A class whose objects cannot be made in processes whose pid is a file in *marks*."""

import os
from pathlib import Path


class Fragile:
    def __init__(self, marks: str) -> None:
        if (Path(marks) / str(os.getpid())).exists():
            raise RuntimeError("no licence on this host")
        self.lines: list[str] = []

    def write(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)
