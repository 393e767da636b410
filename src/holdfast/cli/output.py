"""How commands show results: a table for people, one JSON object for machines.

All output of commands goes through here, so that names given by others are shown as they are: markup in them
has no effect, and only letters reach a terminal (:mod:`holdfast.machine.terminal_text`).
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
    """A console that treats strings as plain text. Colours are set by style, or with :func:`styled`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        # Done before the text is measured, so that columns stay aligned.
        return super().render_str(plain(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        # A Text instance has not been through the method above.
        for each in super().render(renderable, options):
            yield each if each.control else Segment(plain(each.text), each.style)


talk = Screen(stderr=True)
"""For everything that is not the result: progress, warnings, what to do next."""


def is_agreed(question: str) -> bool:
    """Ask the person at the terminal; anything but yes is no, including no answer at all."""
    try:
        return talk.input(question, markup=False, emoji=False).strip().lower() in ("y", "yes")
    except EOFError:
        talk.print()  # so that the next message starts on a new line
        return False


def out() -> Screen:
    """The console for the result. Lines in a pipe or a file are not wrapped: its reader has no known
    width.
    """
    return Screen(width=None if sys.stdout.isatty() else PIPED_WIDTH)


def say(*lines: str) -> None:
    """Print lines of the result at once, without wrapping."""
    for line in lines:
        sys.stdout.write(plain(line) + "\n")
    sys.stdout.flush()


def styled(*parts: str | tuple[str, str]) -> Text:
    """A text made of parts, each optionally with a style."""
    return Text.assemble(
        *(plain(each) if isinstance(each, str) else (plain(each[0]), each[1]) for each in parts)
    )


def print_json(value: object) -> None:
    """Print one JSON object on one line of stdout."""
    sys.stdout.write(plain_json(msgspec.json.encode(value).decode()) + "\n")
    sys.stdout.flush()


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None
) -> None:
    """Print a table. A cell that is a list has several lines; line breaks within a text are escaped."""
    table = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*map(_cell, row))
    out().print(table)


def _cell(value: object) -> str:
    lines = value if isinstance(value, list) else [value]
    return "\n".join(plain(str(line), keep="") for line in lines)
