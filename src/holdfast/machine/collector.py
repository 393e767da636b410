"""Python's cyclic garbage collector, set for a process that serves."""

import gc
from typing import Final

THRESHOLDS: Final = (20_000, 3, 2_000)
"""Containers made between two looks at the youngest, and how many looks at one generation lead to one at the
next. Calls make and drop thousands of containers a millisecond, hardly any of them in a cycle; with the
defaults every 700 of them cost a look, and whatever the groups' objects hold was looked through many times a
minute.

Each look stops the process, so what matters most is how much is looked through at once: a tenth of a
microsecond or two for each container, 2 ms for the youngest and up to 15 ms for what four looks have left.
With twenty looks of 50,000 a member that loaded a large object stood for 140 to 700 ms at every millionth
container. All there are, half a second for an object of 100 MB, are looked through when there are 160 million
more."""


def spare_what_stays() -> None:
    """Leave what is loaded by now out of every later collection, and collect seldom. Not never: methods of
    groups may make cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
