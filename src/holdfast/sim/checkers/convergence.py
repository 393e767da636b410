"""Convergence: replicas that have heard of the same changes hold the same state."""

from collections.abc import Iterator, Mapping, Sequence, Set

from holdfast.sim.checkers.violation import Violation


def check(replicas: Mapping[str, object]) -> list[Violation]:
    """Compare each replica's state with the first one's, once all is quiet; names the first difference.

    States are values: mappings, sequences and sets are looked into, everything else is compared by ``==``.
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
"""(path, what the one has, what the other has)"""


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
