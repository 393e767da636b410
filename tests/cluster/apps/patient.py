"""A class whose objects report their health once as told by a file in *marks*, named after their process."""

import os
import time
from pathlib import Path

FOR_EVER_S = 600


class Patient:
    def __init__(self, marks: str) -> None:
        self.marks = marks
        self.lines: list[str] = []

    def write(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)

    def hang(self) -> None:
        time.sleep(FOR_EVER_S)

    def is_alive(self) -> bool:
        mark = Path(self.marks) / str(os.getpid())
        if not mark.exists():
            return True
        word = mark.read_text()
        mark.unlink()
        if word == "block":
            time.sleep(FOR_EVER_S)
        return False
