"""Checks of order and convergence.

Order is that of delivered items: revisions of a watch, positions of a log, messages of a stream. Each
function checks one promise; use those that the sequence makes. A violation names only the first item that
breaks the promise, since those after it usually follow from it.

Convergence (:func:`check`) means that replicas that have received the same changes have the same state.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from itertools import pairwise

from holdfast.sim.checkers.history import Violation


def strictly_increasing(name: str, numbers: Sequence[int]) -> list[Violation]:
    """Require that each number is greater than the one before."""
    for index, (before, after) in enumerate(pairwise(numbers)):
        if after <= before:
            said = f"{name}: {after} at index {index + 1} follows {before}"
            return [Violation("order.increasing", said)]
    return []


def no_gap(name: str, numbers: Sequence[int], *, first: int | None = None) -> list[Violation]:
    """Require that each number is the one before plus one; the first is *first*, when given."""
    expected = first if first is not None else numbers[0] if numbers else 0
    for index, number in enumerate(numbers):
        if number != expected:
            said = f"{name}: {number} at index {index}, where {expected} was due"
            return [Violation("order.gap", said)]
        expected += 1
    return []


def no_repetition(name: str, items: Sequence[Hashable]) -> list[Violation]:
    """Require that no item comes twice, in whatever order the items come."""
    seen: dict[Hashable, int] = {}
    for index, item in enumerate(items):
        if item in seen:
            said = f"{name}: {item!r} at index {index} was at index {seen[item]} before"
            return [Violation("order.repetition", said)]
        seen[item] = index
    return []


def prefix_agreement(sequences: Mapping[str, Sequence[object]]) -> list[Violation]:
    """Require that of any two sequences one begins with the other.

    All saw the same order, and some saw more of it.
    """
    if not sequences:
        return []
    # If the longest sequence begins with every other, any two agree with each other.
    longest = max(sequences, key=lambda name: len(sequences[name]))
    violations = []
    for name, items in sequences.items():
        for index, (item, other) in enumerate(zip(items, sequences[longest], strict=False)):
            if item != other:
                said = f"at index {index}, {name} has {item!r} and {longest} has {other!r}"
                violations.append(Violation("order.prefix", said))
                break
    return violations


def check(replicas: Mapping[str, object]) -> list[Violation]:
    """Compare each replica's state with the first one's, once all is quiet; report the first difference.

    States are values: mappings, sequences and sets are compared item by item, everything else by ``==``.
    """
    if not replicas:
        return []
    (first, state), *others = replicas.items()
    violations = []
    for name, other in others:
        difference = next(_differences(state, other, ""), None)
        if difference is not None:
            path, here, there = difference
            said = f"at {path or 'the top'}, {first} has {here} and {name} has {there}"
            violations.append(Violation("converged", said))
    return violations


Difference = tuple[str, str, str]
"""(path, value in the first state, value in the other)"""


def _differences(one: object, other: object, path: str) -> Iterator[Difference]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in _in_order([*one, *(key for key in other if key not in one)]):
            if key not in one or key not in other:
                yield (f"{path}[{key!r}]", _shown(one, key), _shown(other, key))
            else:
                yield from _differences(one[key], other[key], f"{path}[{key!r}]")
    elif isinstance(one, Set) and isinstance(other, Set):
        for item in _in_order([*(one ^ other)]):
            here, there = (f"{item!r}" if item in each else f"no {item!r}" for each in (one, other))
            yield (path, here, there)
    elif _is_sequence(one) and _is_sequence(other):
        assert isinstance(one, Sequence)
        assert isinstance(other, Sequence)
        for index, (here, there) in enumerate(zip(one, other, strict=False)):
            yield from _differences(here, there, f"{path}[{index}]")
        if len(one) != len(other):
            yield (path, f"{len(one)} items", f"{len(other)} items")
    elif one != other:
        yield (path, repr(one), repr(other))


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _in_order(keys: list[object]) -> list[object]:
    # Keys may be of types that cannot be compared; the message must not depend on the hash seed.
    return sorted(keys, key=repr)


def _shown(mapping: Mapping[object, object], key: object) -> str:
    return repr(mapping[key]) if key in mapping else "nothing"
