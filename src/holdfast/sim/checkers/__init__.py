"""Checkers: they decide whether what the clients saw was correct.

A checker is a pure function from what was recorded (a :class:`.History`, the replicas' final states,
delivered sequences) to a list of :class:`.Violation`. Checkers know nothing of the simulator, so tests with
real processes use them too. Which one to use:

- :mod:`.unique`: fast, for workloads whose written values are unique. The first choice.
- :mod:`.linearizability`: the full search, for compare-and-set and for short histories.
- :mod:`.exactly_once`: tokens are appended once, however often the client had to ask.
- :mod:`.order`: replicas that have received the same changes are equal; logs and watches have no gap, no
  repetition, and one order.

Times are integers of one clock, the world's. A checker that trusted clients' clocks would excuse stale
answers.
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
