"""A class whose method depends on something outside its state: in a process whose pid is a file in *marks*,
it counts double."""

import os
from pathlib import Path

import holdfast as hf


class Swayed:
    def __init__(self, marks: str) -> None:
        self._marks = marks
        self._total = 0

    def add(self, amount: int) -> int:
        is_swayed = (Path(self._marks) / str(os.getpid())).exists()
        self._total += amount * (2 if is_swayed else 1)
        return self._total

    @hf.query
    def total(self) -> int:
        return self._total
