"""The floor: the lowest number whose reply the members must still keep for this client (X2).

It must never pass a number that is awaited: the members would refuse its next copy. Nor should it pass one
that ended without a known outcome, as long as somebody may ask for it; but one such number must not make the
members keep the replies to everything after it, so it is given up when it lags too far behind.
"""

from collections.abc import Container
from typing import Final

LAG_MAX: Final = 100_000
"""Numbers that members keep because of one whose outcome is unknown; more would be theirs to pay."""


class Floor:
    """Follows the numbers of one client at one group. Asking costs what was ended since, once each."""

    def __init__(self, *, lag_max: int = LAG_MAX) -> None:
        self._lowest = 1
        self._lag_max = lag_max
        self._unknown: dict[int, int] = {}

    def hold(self, number: int, expiration_s: int) -> None:
        """*number* ended without a known outcome; it may be asked for until *expiration_s*."""
        self._unknown[number] = expiration_s

    def release(self, number: int) -> None:
        """Its outcome is known now."""
        self._unknown.pop(number, None)

    def value(self, awaited: Container[int], next_number: int, time_s: int) -> int:
        """The floor while *awaited* are awaited and all numbers below *next_number* have been given."""
        lowest, unknown = self._lowest, self._unknown
        while lowest < next_number and lowest not in awaited:
            expiration_s = unknown.get(lowest)
            if expiration_s is not None:
                if expiration_s > time_s and next_number - lowest <= self._lag_max:
                    break
                del unknown[lowest]
            lowest += 1
        self._lowest = lowest
        return lowest
