"""Waiting for the host's log: who is told when what has become durable.

One for each log of a host. A group that waits for nothing costs nothing when another's records are synced.
"""

from collections.abc import Callable
from heapq import heappop, heappush


class Durability:
    """Calls back in the order of the records' numbers; *durable* answers how many survive a power cut now."""

    def __init__(self, durable: Callable[[], int]) -> None:
        self._durable = durable
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._asked = 0

    def after(self, number: int, then: Callable[[], None]) -> None:
        """*then* the first *number* records are durable; at once if they are already."""
        if number <= self._durable():
            then()
        else:
            self._asked += 1
            heappush(self._waiting, (number, self._asked, then))

    def on_durable(self, number: int) -> None:
        while self._waiting and self._waiting[0][0] <= number:
            heappop(self._waiting)[2]()
