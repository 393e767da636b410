"""Whether a value came back as it went: equal, and of the same types all the way down.

Equality alone does not tell: ``True == 1``, a number of an ``IntEnum`` equals the plain one, and a time in
Berlin equals the same moment in UTC; code that goes on with the other one does something else. A state may
have millions of values, so they are compared by columns: all that stand at the same place of their containers
together, at the speed of the interpreter's own loops. Only what differs is looked for one by one.
"""

import datetime
import enum
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain, count
from math import isnan
from operator import attrgetter, is_
from typing import Any, Final

from holdfast.model.fields import fields_of

_PLAIN: Final = frozenset({int, str, bytes, bytearray, bool, type(None)})
"""Of these equal is the same."""


_ZONE: Final = attrgetter("tzinfo")


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a value did not come back as it went: *path* is ``[0].due`` and the like."""

    path: str
    went: Any
    came: Any


def is_same(one: Any, other: Any) -> bool:
    """Whether *other* is what *one* was. Raises what a ``__eq__`` of the user's own raises."""
    return _are_same([one], [other])


def difference(one: Any, other: Any, first: int = 0, path: str = "") -> Difference:
    """The first that differs, of two values that are not the same. *first*: the number of their first items,
    where they are parts of lists."""
    if type(one) is type(other):
        for step, mine, its in _pairs(one, other, first):
            if not is_same(mine, its):
                return difference(mine, its, path=path + step)
    return Difference(path, one, other)


def _are_same(ones: Sequence[Any], others: Sequence[Any]) -> bool:
    if len(ones) != len(others) or not all(map(is_, map(type, ones), map(type, others))):
        return False
    kinds = list(dict.fromkeys(map(type, ones)))
    if len(kinds) == 1:
        return _are_same_of(kinds[0], ones, others)
    return all(
        _are_same_of(
            kind,
            [each for each in ones if type(each) is kind],
            [each for each in others if type(each) is kind],
        )
        for kind in kinds
    )


def _are_same_of(kind: type, ones: Sequence[Any], others: Sequence[Any]) -> bool:
    """*ones* and *others* are as many, and all of *kind*."""
    if kind in _PLAIN:
        return ones == others
    if kind is float:
        return array("d", ones) == array("d", others) or all(map(_is_same_number, ones, others))
    if issubclass(kind, enum.Enum):
        return all(map(is_, ones, others))
    if issubclass(kind, dict):
        return (
            list(map(len, ones)) == list(map(len, others))
            and _are_same(list(chain.from_iterable(ones)), list(chain.from_iterable(others)))
            and _are_same(_values(ones), _values(others))
        )
    if issubclass(kind, list | tuple):
        return list(map(len, ones)) == list(map(len, others)) and _are_same(
            list(chain.from_iterable(ones)), list(chain.from_iterable(others))
        )
    if issubclass(kind, set | frozenset):
        return ones == others and all(map(_are_members_same, ones, others))
    if issubclass(kind, datetime.datetime | datetime.time):
        if list(map(_ZONE, ones)) == list(map(_ZONE, others)):
            return ones == others
        return list(map(_moment, ones)) == list(map(_moment, others))
    if kind is Decimal:
        return list(map(str, ones)) == list(map(str, others))
    made_of: type = kind
    names = fields_of(made_of)
    if names is not None:
        return all(_is_column_same(attrgetter(name), ones, others) for name in names) and (
            not _may_have_more(kind, len(names), ones) or _is_column_same(_beside_fields, ones, others)
        )
    return all(map(_is_equal, ones, others))


def _values(dictionaries: Sequence[Any]) -> list[Any]:
    return list(chain.from_iterable(map(dict.values, dictionaries)))


def _is_column_same(get: Callable[[Any], Any], ones: Sequence[Any], others: Sequence[Any]) -> bool:
    return _are_same(list(map(get, ones)), list(map(get, others)))


def _is_same_number(one: float, other: float) -> bool:
    return one == other or (isnan(one) and isnan(other))


def _are_members_same(one: Any, other: Any) -> bool:
    """Of two equal sets, whose orders differ."""
    found = {each: each for each in other}
    return _are_same(list(one), [found[each] for each in one])


def _moment(value: Any) -> tuple[Any, ...]:
    """Equal for the same time in the same zone; equal moments need not be."""
    return value.replace(tzinfo=None), value.utcoffset(), value.tzname()


def _is_equal(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)


def _may_have_more(kind: type, fields: int, values: Sequence[Any]) -> bool:
    """Whether objects that are made of so many fields may have other attributes as well."""
    return bool(kind.__dictoffset__) and set(map(len, map(vars, values))) != {fields}


def _beside_fields(value: Any) -> dict[str, Any]:
    """Attributes that are set on an object and are no fields of it: they do not go with it, unless it makes
    them itself. What a ``cached_property`` remembers is made again."""
    kind: type = type(value)
    names = fields_of(kind) or ()
    return {
        name: each
        for name, each in sorted(getattr(value, "__dict__", {}).items())
        if name not in names and not isinstance(getattr(kind, name, None), cached_property)
    }


def _pairs(one: Any, other: Any, first: int) -> Iterator[tuple[str, Any, Any]]:
    """The parts of two values of one type, each with where it stands."""
    kind: type = type(one)
    if isinstance(one, dict):
        for (mine, value), (its, came) in zip(one.items(), other.items(), strict=False):
            yield f" key {in_short(mine)}", mine, its
            yield f"[{in_short(mine)}]", value, came
    elif isinstance(one, list | tuple):
        for at, mine, its in zip(count(first), one, other, strict=False):
            yield f"[{at}]", mine, its
    elif isinstance(one, set | frozenset) and one == other:
        found = {each: each for each in other}
        yield from ((f" member {in_short(each)}", each, found[each]) for each in one)
    elif (names := fields_of(kind)) is not None:
        yield from ((f".{name}", getattr(one, name), getattr(other, name)) for name in names)
        found = _beside_fields(other)
        for name, value in _beside_fields(one).items():
            yield f".{name}", value, found.get(name)


SHORT_CHARACTERS: Final = 60


def in_short(value: object) -> str:
    """For people; whatever its ``__repr__`` does."""
    try:
        text = repr(value)
    except Exception:
        return f"<a {type(value).__name__}>"
    return text if len(text) <= SHORT_CHARACTERS else text[: SHORT_CHARACTERS - 3] + "..."
