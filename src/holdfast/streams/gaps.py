"""Which numbers of a stream are missing, and since when (LOSS-28, 29, 37, 38).

A number is missing when a higher one has come, or when the source has said that it sent a higher one: the
loss of a stream's last messages is noticed too. Messages may overtake each other, so a gap becomes a loss
only when it has been there for a grace time. A duplicate, or a message that comes late, is never a gap.

Sources may be watched in another way: :class:`GapDetector` is all that the order asks for.
"""

from dataclasses import dataclass
from typing import Protocol


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


def find_gap(mark: int, next_held: int | None, highest: int) -> Gap | None:
    """The numbers that are missing right after *mark*."""
    if next_held is not None:
        return Gap(mark + 1, next_held - 1) if mark + 1 < next_held else None
    return Gap(mark + 1, highest, is_tail=True) if highest > mark else None
