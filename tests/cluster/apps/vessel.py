"""A class with all of its state in one bytearray. A process whose pid is a file in *marks* stamps otherwise,
once: it removes the file."""

import hashlib
import os
from pathlib import Path

import holdfast as hf

MEGABYTE = bytes(range(256)) * 4096


class Vessel:
    cargo: bytearray

    def __init__(self, marks: str) -> None:
        self._marks = marks
        self._stamps = 0
        self.cargo = bytearray()

    def fill(self, megabytes: int) -> int:
        for _ in range(megabytes):
            self.cargo += MEGABYTE
        return len(self.cargo)

    def stamp(self) -> int:
        """Change one byte, each time far from the last; returns how many were changed."""
        mark = Path(self._marks) / str(os.getpid())
        is_swayed = mark.exists()
        if is_swayed:
            mark.unlink()
        at = self._stamps * 1_000_003 % len(self.cargo)
        self.cargo[at] = (self.cargo[at] + 1 + is_swayed) % 256
        self._stamps += 1
        return self._stamps

    @hf.query
    def stamps(self) -> int:
        return self._stamps

    @hf.query
    def digest(self) -> str:
        return hashlib.sha256(self.cargo).hexdigest()
