"""Order of what was delivered: revisions of a watch, positions of a log, messages of a stream.

Each function checks one promise; use those that the sequence makes. A violation names the first
offender only, since what follows it is usually its shadow.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise

from holdfast.sim.checkers.violation import Violation


def strictly_increasing(name: str, numbers: Sequence[int]) -> list[Violation]:
    """Each number is greater than the one before."""
    for index, (before, after) in enumerate(pairwise(numbers)):
        if after <= before:
            said = f"{name}: {after} at index {index + 1} follows {before}"
            return [Violation("order.increasing", said)]
    return []


def no_gap(name: str, numbers: Sequence[int], *, first: int | None = None) -> list[Violation]:
    """Each number is the one before plus one; the first is *first*, when given."""
    expected = first if first is not None else numbers[0] if numbers else 0
    for index, number in enumerate(numbers):
        if number != expected:
            said = f"{name}: {number} at index {index}, where {expected} was due"
            return [Violation("order.gap", said)]
        expected += 1
    return []


def no_repetition(name: str, items: Sequence[Hashable]) -> list[Violation]:
    """No item comes twice, in whatever order they come."""
    seen: dict[Hashable, int] = {}
    for index, item in enumerate(items):
        if item in seen:
            said = f"{name}: {item!r} at index {index} was at index {seen[item]} before"
            return [Violation("order.repetition", said)]
        seen[item] = index
    return []


def prefix_agreement(sequences: Mapping[str, Sequence[object]]) -> list[Violation]:
    """Of any two sequences one is the beginning of the other: nobody saw another order, some saw more."""
    if not sequences:
        return []
    # If every sequence begins the longest, any two agree with each other.
    longest = max(sequences, key=lambda name: len(sequences[name]))
    violations = []
    for name, items in sequences.items():
        for index, (item, other) in enumerate(zip(items, sequences[longest], strict=False)):
            if item != other:
                said = f"at index {index}, {name} has {item!r} and {longest} has {other!r}"
                violations.append(Violation("order.prefix", said))
                break
    return violations
