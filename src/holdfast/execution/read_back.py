"""Compares a restored value with the original: equal, and of the same types at every level.

Equality alone is not enough: ``True == 1``, a member of an ``IntEnum`` equals the plain number, and a time in
Berlin equals the same moment in UTC, yet code that continues with the other value behaves differently. A
state may have millions of values, so they are compared by columns: all values at the same place of their
containers together, at the speed of the interpreter's own loops. Only if something differs are the values
compared one by one (:func:`difference`).

If a value cannot be decoded, the decoder says only that some array or map has a wrong value. So
:func:`misfit` tries the parts of the value one by one, each against its part of the annotation, and reports
the smallest part that fails.
"""

import datetime
import enum
import types
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import chain, count
from math import isnan
from operator import attrgetter, is_
from typing import (
    Annotated,
    Any,
    Final,
    NewType,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from holdfast.execution.method import run_own
from holdfast.execution.shared_parts import HELD_ONCE, MetParts, is_mutable
from holdfast.model.outcome import error_in_words, text_of
from holdfast.model.set_order import fields_of

_PLAIN: Final = frozenset({int, str, bytes, bytearray, bool, type(None)})
"""Types whose equal values are interchangeable."""


_ZONE: Final = attrgetter("tzinfo")


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a restored value differs from the original; *path* is, for example, ``[0].due``."""

    path: str
    went: Any
    came: Any


def is_same(one: Any, other: Any, met: MetParts | None = None) -> bool:
    """Whether *other* equals *one* in value and type. Raises what a user's own ``__eq__`` raises, and
    ``HeldTwice`` for a mutable part of *one* that was *met* before."""
    return type(one) is type(other) and _are_same_of(type(one), [one], [other], met)


def is_state_same(one: bytes, other: bytes) -> bool:
    """Whether two states that a class encoded itself are equal, or contain the same bytes in another order:
    the order of a set changes when it is rebuilt, and does not matter."""
    return one == other or (len(one) == len(other) and Counter(one) == Counter(other))


def difference(one: Any, other: Any, first: int = 0, path: str = "") -> Difference:
    """Return the first difference between two values that are not the same. *first* is the index of their
    first items if they are parts of lists."""
    if type(one) is type(other):
        for step, mine, its in _pairs(one, other, first):
            if not is_same(mine, its):
                return difference(mine, its, path=path + step)
    return Difference(_cut(path), one, other)


def _are_same(ones: Sequence[Any], others: Sequence[Any], met: MetParts | None) -> bool:
    if len(ones) != len(others) or not all(map(is_, map(type, ones), map(type, others))):
        return False
    kinds = list(dict.fromkeys(map(type, ones)))
    if met is not None:
        for kind in filter(is_mutable, kinds):
            if len(kinds) == 1:
                met.meet(ones)
            else:  # one reference more: they stand in two columns
                met.meet([each for each in ones if type(each) is kind], HELD_ONCE + 1)
    if len(kinds) == 1:
        return _are_same_of(kinds[0], ones, others, met)
    return all(
        _are_same_of(
            kind,
            [each for each in ones if type(each) is kind],
            [each for each in others if type(each) is kind],
            met,
        )
        for kind in kinds
    )


def _are_same_of(kind: type, ones: Sequence[Any], others: Sequence[Any], met: MetParts | None) -> bool:
    """Compare *ones* and *others*, which have equal lengths and contain only values of *kind*. The parts of
    *ones*, not they themselves, are *met*."""
    if kind in _PLAIN:
        return ones == others
    if kind is float:
        return array("d", ones) == array("d", others) or all(map(_is_same_number, ones, others))
    if issubclass(kind, enum.Enum):
        return all(map(is_, ones, others))
    if issubclass(kind, dict):
        return (
            list(map(len, ones)) == list(map(len, others))
            and _are_same(list(chain.from_iterable(ones)), list(chain.from_iterable(others)), met)
            and _are_same(_values(ones), _values(others), met)
        )
    if issubclass(kind, list | tuple):
        return list(map(len, ones)) == list(map(len, others)) and _are_same(
            list(chain.from_iterable(ones)), list(chain.from_iterable(others)), met
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
        return all(_is_column_same(attrgetter(name), ones, others, met) for name in names) and (
            not _may_have_more(kind, len(names), ones) or _is_column_same(_beside_fields, ones, others, None)
        )
    return all(map(_is_equal, ones, others))


def _values(dictionaries: Sequence[Any]) -> list[Any]:
    return list(chain.from_iterable(map(dict.values, dictionaries)))


def _is_column_same(
    get: Callable[[Any], Any], ones: Sequence[Any], others: Sequence[Any], met: MetParts | None
) -> bool:
    return _are_same(list(map(get, ones)), list(map(get, others)), met)


def _is_same_number(one: float, other: float) -> bool:
    return one == other or (isnan(one) and isnan(other))


def _are_members_same(one: Any, other: Any) -> bool:
    """Compare the members of two equal sets, which may iterate in different orders."""
    found = {each: each for each in other}
    return _are_same(list(one), [found[each] for each in one], None)


def _moment(value: Any) -> tuple[Any, ...]:
    """A tuple that is equal only for the same time in the same zone; equal moments alone may differ in
    zone."""
    return value.replace(tzinfo=None), value.utcoffset(), value.tzname()


def _is_equal(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)


def _may_have_more(kind: type, fields: int, values: Sequence[Any]) -> bool:
    """Whether objects of *kind*, which has this many fields, may have other attributes as well."""
    return bool(kind.__dictoffset__) and set(map(len, map(vars, values))) != {fields}


def _beside_fields(value: Any) -> dict[str, Any]:
    """Attributes that are set on an object but are not fields of its class. They are not captured, so they
    are lost unless the class sets them itself. Values of a ``cached_property`` are left out: they are
    computed again."""
    kind: type = type(value)
    names = fields_of(kind) or ()
    return {
        name: each
        for name, each in sorted(getattr(value, "__dict__", {}).items())
        if name not in names and not isinstance(getattr(kind, name, None), cached_property)
    }


def _pairs(one: Any, other: Any, first: int) -> Iterator[tuple[str, Any, Any]]:
    """The parts of two values of one type, each with its path."""
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


def _cut(path: str) -> str:
    """Leave the middle of a very long path out, so that what follows it is read."""
    return path if len(path) <= 2 * SHORT_CHARACTERS else f"{path[:SHORT_CHARACTERS]} ... {path[-20:]}"


def in_short(value: object) -> str:
    """A short text of *value* for people, whatever its ``__repr__`` does."""
    try:
        text = repr(value)
    except Exception:
        return f"<a {type(value).__name__}>"
    return text if len(text) <= SHORT_CHARACTERS else text[: SHORT_CHARACTERS - 3] + "..."


Part = tuple[str, Any, Any]
"""The path of a part, its value, and its annotation."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """The smallest part of a value that fails, and why."""

    path: str
    value: Any
    kind: Any
    why: str


def misfit(
    value: Any, kind: Any, why_not: Callable[[Any, Any], str], why: str, first: int = 0, path: str = ""
) -> Misfit:
    """Find the smallest part of *value* that fails as *kind*; *why* is the reason for the whole. *why_not*
    returns why a part fails, empty if it does not. *first* is the index of its first item if it is a part of
    a list."""
    for step, part, of_part in _parts(value, kind, first):
        of_part_why = why_not(part, of_part)
        if of_part_why:
            return misfit(part, of_part, why_not, of_part_why, path=path + step)
    return Misfit(_cut(path), value, kind, why)


def named(kind: Any) -> str:
    """An annotation as people write it."""
    if kind is None or kind is type(None):
        return "None"
    if kind is ...:
        return "..."
    arms = _arms(kind)
    if len(arms) > 1:
        return " | ".join(map(named, arms))
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return named(args[0])
    if origin is not None and args:
        return f"{named(origin)}[{', '.join(map(named, args))}]"
    return getattr(kind, "__name__", None) or (kind if isinstance(kind, str) else in_short(kind))


def _parts(value: Any, kind: Any, first: int) -> Iterator[Part]:
    kind = _of(value, kind)
    args = get_args(kind)
    if isinstance(value, dict):
        hints = _hints(kind) if is_typeddict(kind) else None
        of_key, of_value = args if len(args) == 2 else (Any, Any)
        for key, each in value.items():
            yield f" key {in_short(key)}", key, of_key
            yield f"[{in_short(key)}]", each, of_value if hints is None else hints.get(key, Any)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        hints = _hints(kind)
        for name in value._fields:
            yield f".{name}", getattr(value, name), hints.get(name, Any)
    elif isinstance(value, list | tuple | set | frozenset):
        is_fixed = get_origin(kind) is tuple and args[-1:] != (...,)
        for at, each in enumerate(value):
            of_each = (args[at] if at < len(args) else Any) if is_fixed else (args[0] if args else Any)
            is_placed = isinstance(value, list | tuple)
            yield f"[{first + at}]" if is_placed else f" member {in_short(each)}", each, of_each
    elif kind is type(value) or kind is Any:
        # The parts of an object of another type than expected say nothing.
        cls: type = type(value)
        hints = _hints(cls)
        for name in fields_of(cls) or ():
            yield f".{name}", getattr(value, name, None), hints.get(name, Any)


def _of(value: Any, kind: Any) -> Any:
    """The part of *kind* that applies to *value*: one arm of a union, or what an alias stands for."""
    while True:
        if isinstance(kind, NewType):
            kind = kind.__supertype__
        elif get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif type(kind).__name__ == "TypeAliasType":
            kind = kind.__value__
        else:
            break
    arms = _arms(kind)
    if len(arms) == 1:
        return kind
    inner = [_of(value, each) for each in arms]
    for each in inner:
        plain = get_origin(each) or each
        if isinstance(plain, type) and not is_typeddict(plain) and isinstance(value, plain):
            return each
    return next((each for each in inner if is_typeddict(each) and isinstance(value, Mapping)), None)


def _arms(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


@lru_cache(maxsize=1024)
def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except Exception:
        # Some names exist only for the type checker.
        return {}


UNENCODABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""What the encoder raises for a value that has no encoding."""


def why_not_encoded(value: object, kind: Any) -> str:
    """Return why *value* cannot be encoded; empty if it can."""
    try:
        msgspec.msgpack.encode(value)
    except UNENCODABLE as error:
        return text_of(error)
    return ""


def why_not_read(value: object, kind: Any) -> str:
    """Return why *value*, annotated as *kind*, cannot be decoded again; empty if it can."""
    try:
        run_own(msgspec.msgpack.decode, msgspec.msgpack.encode(value), type=kind)
    except Exception as error:
        return why_undecoded(error)
    return ""


def why_undecoded(error: Exception) -> str:
    """Why something cannot be decoded."""
    return text_of(error) if isinstance(error, msgspec.DecodeError) else error_in_words(error)


def placed(cls: type, decode: Callable[[str, msgspec.Raw], Any], name: str, encoded: msgspec.Raw) -> Any:
    """Decode the attribute *name* of an object of *cls*. If it does not fit its annotation, the error names
    the place: a class may have changed since the state was captured, and people must find what to put back.
    """
    try:
        return decode(name, encoded)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        raise msgspec.ValidationError(f"{cls.__name__}.{name}{path.removesuffix('`')}: {text}") from None
