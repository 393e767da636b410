"""The order in which files of tests are given to workers: the longest first.

A worker takes a whole file at a time, because tests of a file share domains. If a long one came last, the
other workers would wait for it. ``make test ARGS=--write-seconds`` measures anew.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

SECONDS: Final = Path(__file__).parent / "seconds.json"
"""How long each file took, if it took long. It need not be exact, only tell long files from short ones."""
SHORTEST_S: Final = 4


def read_seconds() -> dict[str, int]:
    found: dict[str, int] = json.loads(SECONDS.read_text(encoding="utf-8"))
    return found


def longest_first(items: list[pytest.Item], seconds: Mapping[str, int]) -> list[pytest.Item]:
    """*items*, with those of long files before those of short ones; within a file nothing moves."""
    return sorted(items, key=lambda item: -seconds.get(file_of(item.nodeid), 0))


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class Stopwatch:
    """Adds up how long the tests of each file take, with what is set up for them."""

    def __init__(self) -> None:
        self._took_s: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took_s[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        long = {file: round(took_s) for file, took_s in self._took_s.items() if took_s >= SHORTEST_S}
        ordered = dict(sorted(long.items(), key=lambda each: (-each[1], each[0])))
        SECONDS.write_text(json.dumps(ordered, indent=2) + "\n", encoding="utf-8")
