"""Finds mutable objects that a state holds at two places.

Encoded, such an object is written twice, and comes back as two objects. A method that changes one of them
changed both before, so the object behaves otherwise after it was loaded, and nothing shows it. So such a
state counts as one that does not come back as it was (E9).

A state may have millions of parts. Nearly all of them are referred to once, besides by the column in which
they are looked at; only the others can be held at two places, and are remembered.
"""

from collections.abc import Iterator, Sequence
from sys import getrefcount
from typing import Any, Final

from holdfast.model.set_order import fields_of

HELD_ONCE: Final = 3
"""The references to a part that one other part holds: that one's, the column's, and the counting itself."""
LOOKED_AT_MAX: Final = 1_000_000
"""How many parts are looked at to tell people where the two places are."""


class HeldTwice(Exception):
    """Raised when a part is met a second time."""

    def __init__(self, part: object) -> None:
        super().__init__(type(part).__name__)
        self.part = part


def is_mutable(kind: type) -> bool:
    """Whether objects of *kind* can be changed in place."""
    if issubclass(kind, list | dict | set | bytearray):
        return True
    of_fields: type = kind  # what mypy makes of type[object] has no hash
    if fields_of(of_fields) is None:
        return False
    parameters = getattr(kind, "__dataclass_params__", None)
    config = getattr(kind, "__struct_config__", None)
    is_frozen = getattr(parameters, "frozen", False) or getattr(config, "frozen", False)
    return not is_frozen and not issubclass(kind, tuple)


class MetParts:
    """The parts of one state that may be held at two places, as far as they have been met."""

    def __init__(self) -> None:
        self._met: dict[int, object] = {}
        """By their ids; holding them keeps an id from being given to another object."""

    def meet(self, column: Sequence[Any], held_once: int = HELD_ONCE) -> None:
        """Note mutable parts; *held_once* is how many references to one are none too many. Raises
        :class:`HeldTwice`."""
        counts = list(map(getrefcount, column))
        if max(counts, default=0) <= held_once:
            return  # nearly always
        for part, references in zip(column, counts, strict=True):
            if references > held_once:
                if id(part) in self._met:
                    raise HeldTwice(part)
                self._met[id(part)] = part

    def meet_attribute(self, value: object) -> None:
        """Note the value of an attribute of the state's own object."""
        if is_mutable(type(value)):
            self.meet([value], 0)


def in_words(part: object, cls: str, name: str, attributes: list[tuple[str, Any]]) -> str:
    """Say where an object of class *cls* with these *attributes* holds *part* twice. It was met again in the
    attribute *name*."""
    found = _places([(f"{cls}.{each}", value) for each, value in attributes], part)
    first, second = next(found, "another place"), next(found, f"{cls}.{name}")
    return (
        f"{second} holds the same {type(part).__name__} as {first}, and two would come back: "
        "hold it once, and its key at the other place, or write get_state and set_state"
    )


def _places(wholes: list[tuple[str, Any]], part: object) -> Iterator[str]:
    """Yield the paths at which *wholes* hold that very object."""
    left, waiting = LOOKED_AT_MAX, wholes[::-1]
    while waiting and left:
        left -= 1
        at, each = waiting.pop()
        if each is part:
            yield at
            continue
        waiting += reversed([(at + step, inner) for step, inner in _held_by(each)])


def _held_by(each: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(each, dict):
        for key, value in each.items():
            yield f"[{key!r:.40}]", value
    elif isinstance(each, list | tuple):
        for at, value in enumerate(each):
            yield f"[{at}]", value
    else:
        kind: type = type(each)
        for name in fields_of(kind) or ():
            yield f".{name}", getattr(each, name, None)
