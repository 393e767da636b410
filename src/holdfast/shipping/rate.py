"""How many bytes may go in a second: a token bucket on the Clock port."""

from typing import Final

from holdfast.model.ids import SECOND
from holdfast.model.ports import Clock

BURST_NS: Final = 100_000_000
"""What may go at once: the bytes of a tenth of a second. After a pause no more than that is made up for, so
that a shipment never takes a disk or a line for longer than that."""


class Rate:
    """Bytes per second. What is larger than a burst goes alone, and the next waits for it."""

    def __init__(self, clock: Clock, bytes_per_s: int) -> None:
        self._clock = clock
        self._bytes_per_s = bytes_per_s
        self._free_at = clock.now()
        """When everything that has gone is paid for."""

    def wait_ns(self) -> int:
        """How long until something may go; 0 when it may now."""
        return max(0, self._free_at - self._clock.now())

    def spend(self, count: int) -> None:
        """Note that *count* bytes go."""
        earliest = self._clock.now() - BURST_NS
        self._free_at = max(self._free_at, earliest) + count * SECOND // self._bytes_per_s
