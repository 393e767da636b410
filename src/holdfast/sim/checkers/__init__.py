"""Checkers: was what the clients saw right?

Pure functions from what was recorded (a :class:`.History`, the replicas' final states, delivered
sequences) to a list of :class:`.Violation`. They know nothing of the simulator, so tests with real
processes use them too. Which to use:

- :mod:`.unique`: fast, for workloads whose written values are unique. The first choice.
- :mod:`.linearizability`: the full search, for compare-and-set and for short histories.
- :mod:`.exactly_once`: tokens appended once, however often the client had to ask.
- :mod:`.order`: replicas that have heard the same changes are equal.
- :mod:`.order`: logs and watches: no gap, no repetition, one order.

Times are integers of one clock, the world's: a checker that trusts clients' clocks excuses stale answers.
"""

from holdfast.sim.checkers.history import (
    Add,
    Append,
    CompareAndSet,
    Handle,
    History,
    Operation,
    Outcome,
    Read,
    Violation,
    Write,
)

__all__ = [
    "Add",
    "Append",
    "CompareAndSet",
    "Handle",
    "History",
    "Operation",
    "Outcome",
    "Read",
    "Violation",
    "Write",
]
