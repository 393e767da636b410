"""Python's cyclic garbage collector, set for a process that serves."""

import gc
from typing import Final

THRESHOLDS: Final = (50_000, 20, 100)
"""Containers made between two looks at the youngest, and how many looks at one generation lead to one at the
next. Calls make and drop thousands of containers a millisecond, hardly any of them in a cycle; with the
defaults every 700 of them cost a look, and whatever the groups' objects hold was looked through many times a
minute."""


def spare_what_stays() -> None:
    """Leave what is loaded by now out of every later collection, and collect seldom. Not never: methods of
    groups may make cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
