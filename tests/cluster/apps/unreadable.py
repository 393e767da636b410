"""Classes whose state, at times, can be written but not read back: one of each kind."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import holdfast as hf

BULK = 400_000
"""More than is captured between two calls."""


@dataclass
class Job:
    due: datetime | None = None


class Scheduler:
    """A field annotated ``datetime | None`` contains a float."""

    jobs: dict[str, Job]

    def __init__(self, bulk: int = 0) -> None:
        self.jobs = {}
        self.bulk = "x" * bulk

    def add(self, name: str) -> int:
        self.jobs[name] = Job()
        return len(self.jobs)

    def spoil(self, name: str) -> int:
        self.jobs[name] = Job(due=12.5)  # type: ignore[arg-type]  # the mistake
        return len(self.jobs)

    def mend(self) -> int:
        for job in self.jobs.values():
            job.due = None
        return len(self.jobs)

    @hf.query
    def names(self) -> list[str]:
        return list(self.jobs)


class Refusing:
    """``set_state`` raises on what ``get_state`` gave."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def add(self, name: str) -> int:
        self.kept.append(name)
        return len(self.kept)

    def spoil(self, name: str) -> int:
        return self.add(name + "!")

    def mend(self) -> int:
        self.kept = [name.rstrip("!") for name in self.kept]
        return len(self.kept)

    @hf.query
    def names(self) -> list[str]:
        return [name.rstrip("!") for name in self.kept]

    def get_state(self) -> bytes:
        return json.dumps(self.kept).encode()

    def set_state(self, state: bytes) -> None:
        kept = json.loads(state)
        if any(name.endswith("!") for name in kept):
            raise ValueError("a name ends with a letter")
        self.kept = kept


class Changing:
    """Reading back gives a different value: a pair becomes a list."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def add(self, name: str) -> int:
        self.rows.append(name)
        return len(self.rows)

    def spoil(self, name: str) -> int:
        self.rows.append((name, 1))
        return len(self.rows)

    def mend(self) -> int:
        self.rows = self.names()
        return len(self.rows)

    @hf.query
    def names(self) -> list[str]:
        return [row if isinstance(row, str) else row[0] for row in self.rows]
