"""Which numbers of a stream are missing, and since when (LOSS-28, 29, 37, 38).

A number is missing when a higher one has come, or when the source has said that it sent a higher one: the
loss of a stream's last messages is noticed too. Messages may overtake each other, so a gap becomes a loss
only when it has been there for a grace time. A duplicate, or a message that comes late, is never a gap.

A class may watch its streams in another way: its attribute ``gap_detector`` makes a :class:`GapDetector` for
each of them. It says when a gap is a loss; which numbers are missing is a fact. Only the leader asks it, and
what it finds is ordered, so it may be anything: a count of messages that came after, a timetable.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from holdfast.model.outcome import error_in_words


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers that are missing: *first* to *last*."""

    first: int
    last: int
    is_tail: bool = False
    """Whether no message after them has come: only the source's word says that they were sent."""

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class GapDetector(Protocol):
    """Watches one life of one stream at one member."""

    def look(self, mark: int, next_held: int | None, highest: int, now: int) -> Gap | None:
        """The gap after number *mark*, where the next message that is held is *next_held* and the source has
        said that it sent up to *highest*; None if there is none, or it may still close by itself."""
        ...

    def due_ns(self) -> int | None:
        """When, by the clock, a gap that was seen will have been there for long enough; None if there is
        none."""
        ...


class SequenceGaps:
    """Finds gaps by numbers, with a grace time for messages that overtake each other."""

    def __init__(self, grace_ns: int) -> None:
        self._grace_ns = grace_ns
        self._mark = -1
        self._since: int | None = None
        """When the gap after *_mark* was first seen."""

    def look(self, mark: int, next_held: int | None, highest: int, now: int) -> Gap | None:
        gap = find_gap(mark, next_held, highest)
        if gap is None:
            self._since = None
            return None
        if self._since is None or mark != self._mark:
            # Seen anew. What is left of a gap that is closing has the same mark only if nothing has come.
            self._mark, self._since = mark, now
        return gap if now - self._since >= self._grace_ns else None

    def due_ns(self) -> int | None:
        return self._since + self._grace_ns if self._since is not None else None


MakeDetector = Callable[[int], GapDetector]
"""Makes a detector for one stream; it is given the grace time of the settings, in nanoseconds."""


class OwnGaps:
    """The detector of a class. Where it raises, or says no time, gaps are found by numbers and grace time:
    a mistake in it must not hold up a stream for ever."""

    def __init__(self, make: MakeDetector, grace_ns: int) -> None:
        self._plain = SequenceGaps(grace_ns)
        self.failure = ""
        """What it raised; empty if it works."""
        self._own: GapDetector = self._plain
        with self._noted():
            self._own = make(grace_ns)

    def look(self, mark: int, next_held: int | None, highest: int, now: int) -> Gap | None:
        by_grace = self._plain.look(mark, next_held, highest, now)
        if not self.failure:
            with self._noted():
                is_lost = self._own.look(mark, next_held, highest, now) is not None
                return find_gap(mark, next_held, highest) if is_lost else None
        return by_grace

    def due_ns(self) -> int | None:
        if not self.failure:
            with self._noted():
                due = self._own.due_ns()
                return due if due is None else int(due)
        return self._plain.due_ns()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failure = error_in_words(error)


def find_gap(mark: int, next_held: int | None, highest: int) -> Gap | None:
    """The numbers that are missing right after *mark*."""
    if next_held is not None:
        return Gap(mark + 1, next_held - 1) if mark + 1 < next_held else None
    return Gap(mark + 1, highest, is_tail=True) if highest > mark else None
