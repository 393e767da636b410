"""How commands show what they found: a table for people, one JSON object for machines."""

import sys
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table

Output = Literal["table", "json"]

PIPED_WIDTH = 240

talk = Console(stderr=True)
"""For everything that is not the answer: progress, warnings, what to do next."""


def is_agreed(question: str) -> bool:
    """Ask the person at the terminal; anything but yes is no, also no answer at all."""
    try:
        return talk.input(question, markup=False).strip().lower() in ("y", "yes")
    except EOFError:
        talk.print()  # what is said next does not belong to the question
        return False


def out() -> Console:
    """For the answer. Into a pipe or a file nothing is folded: whoever reads it there has no width to tell
    us."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)


def print_json(value: object) -> None:
    """One JSON object on one line of stdout."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None
) -> None:
    table = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    out().print(table)
