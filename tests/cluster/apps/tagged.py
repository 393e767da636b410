"""A class whose replies, timers and exceptions contain sets, whose order differs between processes."""

from dataclasses import dataclass
from typing import Any

import holdfast as hf


@dataclass
class Entry:
    number: int
    tags: set[str]


class Tagged:
    tags: set[str]

    def __init__(self) -> None:
        self.tags = set()
        self.number = 0

    def add(self, number: int) -> dict[str, set[str]]:
        self.number += number
        self.tags |= {f"tag {self.number}", f"mark {self.number}"}
        hf.context.call_later(3600, self.take, [self.tags])
        return {"tags": self.tags}

    def entry(self) -> Entry:
        return Entry(self.number, self.tags)

    def anything(self):  # type: ignore[no-untyped-def]
        return [self.number, {"in": self.tags}]

    def fail(self) -> None:
        raise KeyError(frozenset(self.tags))

    def take(self, tags: Any) -> None: ...
