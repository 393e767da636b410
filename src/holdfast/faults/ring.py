"""The ring: the newest events, by number, as many as its bounds allow.

Whoever was away, or is slow, reads on from the number it has. Nothing waits for it: beyond the bounds the
oldest events go, and a reader that still wanted them is told which numbers it missed.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.faults.events import StructuredEvent
from holdfast.faults.told import Gap, Told
from holdfast.model.errors import InvalidRequest
from holdfast.model.units import HOUR

EVENTS_KEPT: Final = 16_384
RING_BYTES_MAX: Final = 16 << 20
"""Of all kept events as they are stored; few of them are longer than 500 bytes."""
KEPT_NS: Final = 7 * 24 * HOUR
"""The age beyond which an event is nobody's news, by the group's time."""


class NoSuchNumber(InvalidRequest):
    """Raised when somebody wants to read on after an event that was never told: its numbers are of another
    notifier."""

    code = "no_such_number"


class Ring:
    """The newest events. Their numbers follow one another."""

    def __init__(self, *, events_max: int = EVENTS_KEPT, bytes_max: int = RING_BYTES_MAX) -> None:
        self._kept: dict[int, tuple[Told, int]] = {}
        """With its size, in the order of the numbers."""
        self._bytes = 0
        self._events_max = events_max
        self._bytes_max = bytes_max
        self.newest = 0
        """The last number given."""

    @property
    def oldest(self) -> int:
        """The first number that is kept; the next one to be given, if there is none."""
        return next(iter(self._kept), self.newest + 1)

    def add(self, event: StructuredEvent, at_ns: int, part_of: int = 0) -> Told:
        """Keep *event* under the next number; what no longer fits goes."""
        told = Told(self.newest + 1, at_ns, event, part_of)
        self._keep(told)
        while len(self._kept) > self._events_max or self._bytes > self._bytes_max:
            self._drop_oldest()
        while self._kept and self._kept[self.oldest][0].at_ns < at_ns - KEPT_NS:
            self._drop_oldest()
        return told

    def get(self, number: int) -> Told | None:
        found = self._kept.get(number)
        return None if found is None else found[0]

    def after(self, number: int) -> Iterator[Told]:
        """What is kept of the events after *number*."""
        for each in range(max(number + 1, self.oldest), self.newest + 1):
            yield self._kept[each][0]

    def gap_after(self, number: int) -> Gap | None:
        """What is gone of the events after *number*. Raises :class:`NoSuchNumber`."""
        if not 0 <= number <= self.newest:
            raise NoSuchNumber(f"no event has the number {number}; the last one is {self.newest}")
        return Gap(number + 1, self.oldest - 1) if number + 1 < self.oldest else None

    def all(self) -> tuple[Told, ...]:
        return tuple(told for told, _ in self._kept.values())

    def restore(self, newest: int, events: tuple[Told, ...]) -> None:
        """Go on from what :meth:`all` and ``newest`` gave."""
        self._kept, self._bytes = {}, 0
        for each in events:
            self._keep(each)
        self.newest = newest

    def _keep(self, told: Told) -> None:
        size = len(msgspec.msgpack.encode(told))
        self._kept[told.number] = (told, size)
        self._bytes += size
        self.newest = told.number

    def _drop_oldest(self) -> None:
        _, size = self._kept.pop(self.oldest)
        self._bytes -= size
