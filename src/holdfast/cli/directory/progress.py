"""How long commands of the directory show how far they are."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.cli.output import talk

PIECE_BYTES = 256 * 1024


@contextmanager
def bar(what: str, total: int | None) -> Iterator[Callable[[int, str], None]]:
    """A bar on the terminal, which is gone afterwards; nothing where there is no terminal. The function takes
    how far it is, and a few words."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"))
    with Progress(
        *columns, TimeRemainingColumn(), console=talk, transient=True, disable=not talk.is_terminal
    ) as progress:
        task = progress.add_task(what, total=total, words="")

        def show(done: int, words: str = "") -> None:
            progress.update(task, completed=done, words=words)

        yield show


class Pieces:
    """The bytes of a file, in pieces; ``taken`` is how many were given out."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.taken = 0

    def __iter__(self) -> Iterator[bytes]:
        while piece := self._file.read(PIECE_BYTES):
            self.taken += len(piece)
            yield piece


def size_of(file: Path) -> int | None:
    """How long a file is; None for what is no file, such as a pipe."""
    return file.stat().st_size if file.is_file() else None
