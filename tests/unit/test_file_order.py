"""Long files of tests begin first, and what is known of their lengths is of files that there are."""

from dataclasses import dataclass
from typing import Any

from file_order import longest_first, read_seconds
from means import ROOT


@dataclass
class Item:
    nodeid: str


def test_long_files_come_first_and_tests_of_a_file_keep_their_order() -> None:
    items: list[Any] = [
        Item(each) for each in ("a.py::2", "a.py::1", "b.py::1", "c.py::1", "b.py::2", "d.py::1")
    ]
    found = longest_first(items, {"b.py": 7, "c.py": 70})
    assert [each.nodeid for each in found] == [
        "c.py::1",
        "b.py::1",
        "b.py::2",
        "a.py::2",
        "a.py::1",
        "d.py::1",
    ]


def test_files_that_are_known_to_be_long_exist() -> None:
    """Who moves a file moves its length too: `make test` writes all with --write-seconds."""
    seconds = read_seconds()
    assert [file for file in seconds if not (ROOT / file).exists()] == []
    assert list(seconds.values()) == sorted(seconds.values(), reverse=True)
