"""How commands show what they found: a table for people, one JSON object for machines.

Everything that a command shows goes through here, so that what others named shows as it is: no markup in it
counts, and nothing in it reaches a terminal but letters (:mod:`holdfast.machine.terminal_text`).
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from holdfast.machine.terminal_text import plain, plain_json

Output = Literal["table", "json"]

PIPED_WIDTH = 240


class Screen(Console):
    """A console on which texts are only texts. Colours are given by style, or with :func:`styled`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        # Before it is measured, so that columns stay in line.
        return super().render_str(plain(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        # What came as a Text has not been through the above.
        for each in super().render(renderable, options):
            yield each if each.control else Segment(plain(each.text), each.style)


talk = Screen(stderr=True)
"""For everything that is not the answer: progress, warnings, what to do next."""


def is_agreed(question: str) -> bool:
    """Ask the person at the terminal; anything but yes is no, also no answer at all."""
    try:
        return talk.input(question, markup=False, emoji=False).strip().lower() in ("y", "yes")
    except EOFError:
        talk.print()  # what is said next does not belong to the question
        return False


def out() -> Screen:
    """For the answer. Into a pipe or a file nothing is folded: whoever reads it there has no width to tell
    us."""
    return Screen(width=None if sys.stdout.isatty() else PIPED_WIDTH)


def say(*lines: str) -> None:
    """Lines of the answer, not folded, and at once."""
    for line in lines:
        sys.stdout.write(plain(line) + "\n")
    sys.stdout.flush()


def styled(*parts: str | tuple[str, str]) -> Text:
    """A text of parts, each with its style where it is to have one."""
    return Text.assemble(
        *(plain(each) if isinstance(each, str) else (plain(each[0]), each[1]) for each in parts)
    )


def print_json(value: object) -> None:
    """One JSON object on one line of stdout."""
    sys.stdout.write(plain_json(msgspec.json.encode(value).decode()) + "\n")
    sys.stdout.flush()


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None
) -> None:
    """A cell that is a list has several lines; a line break in any text would begin a row that is none."""
    table = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*map(_cell, row))
    out().print(table)


def _cell(value: object) -> str:
    lines = value if isinstance(value, list) else [value]
    return "\n".join(plain(str(line), keep="") for line in lines)
