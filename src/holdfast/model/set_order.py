"""Gives sets one order in everything that members compare byte by byte: replies, and calls of methods.

Every process iterates over a set in its own order, which depends on its hash seed. So a set is encoded in the
order of its items' bytes, wherever it occurs in a value. Dictionaries keep their insertion order, which is
the same in every replay. *Without it:* a replay gives the same set in another order, and its member counts as
one that differs (E8).

Searching a value for sets takes time, so this is decided once per method (:func:`may_hold_sets`): a value
whose annotation allows no sets is encoded as it is. :func:`fields_of` finds the fields of an object,
whichever library made its class.
"""

import dataclasses
import datetime
import enum
import types
from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy
from decimal import Decimal
from functools import lru_cache
from operator import is_
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID  # fence: only the value; its random source is not used

import msgspec


@lru_cache(maxsize=1024)
def fields_of(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a class's objects; None for a class that has no declared fields."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    attributes = getattr(kind, "__attrs_attrs__", None)
    return tuple(each.name for each in attributes) if attributes is not None else None


DEPTH_MAX: Final = 100
"""How deep values may be nested; deeper ones are refused, since a list that contains itself has no end."""

WORDS_DEPTH_MAX: Final = 8
CONTAINERS: Final = (set, frozenset, list, tuple, dict)
"""The built-in containers."""
_PLAIN: Final = frozenset(
    {
        *(int, str, float, bool, bytes, bytearray, type(None), Decimal, UUID),
        *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
    }
)
_HOLDERS: Final = frozenset({list, tuple, dict, Sequence, MutableSequence, Mapping, MutableMapping})
"""Annotations of containers that are not sets, and contain what their arguments say."""
_UNSET: Final = object()
_encode: Final = msgspec.msgpack.Encoder().encode


class TooDeep(ValueError):
    """Raised for a value that is nested too deeply, perhaps without end."""


# --- values


def in_order(value: Any) -> Any:
    """A value that every process encodes alike: *value* itself, unless there is a set inside it. Raises
    :class:`TooDeep`, and whatever encoding the items of a set raises."""
    return _in_order(value, DEPTH_MAX)


def _in_order(value: Any, depth: int) -> Any:
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if not depth:
        raise TooDeep(f"it is nested more than {DEPTH_MAX} deep, and may hold sets")
    if issubclass(kind, list | tuple):
        return _items(value, depth)
    if issubclass(kind, dict):
        return _dictionary(value, depth)
    if issubclass(kind, set | frozenset):
        if len(value) < 2 and _are_plain(value):
            return value
        return sorted((_in_order(each, depth - 1) for each in value), key=_encode)
    if issubclass(kind, enum.Enum):
        of_member = _in_order(value.value, depth - 1)
        return value if of_member is value.value else of_member
    names = fields_of(kind)
    return value if names is None else _object(value, names, depth)


def _items(values: list[Any] | tuple[Any, ...], depth: int) -> Any:
    if _are_plain(values):
        return values
    found = [_in_order(each, depth - 1) for each in values]
    return values if all(map(is_, found, values)) else found


def _dictionary(value: dict[Any, Any], depth: int) -> Any:
    keys, values = list(dict.keys(value)), list(dict.values(value))
    of_keys, of_values = _items(keys, depth), _items(values, depth)
    if of_keys is not keys:
        # Converted keys may be unhashable, or equal to others.
        pairs = (_encode(each) for pair in zip(of_keys, of_values, strict=True) for each in pair)
        return msgspec.Raw(_map_head(len(keys)) + b"".join(pairs))
    return value if of_values is values else dict(zip(keys, of_values, strict=True))


def _object(value: Any, names: tuple[str, ...], depth: int) -> Any:
    held = {name: getattr(value, name, _UNSET) for name in names}
    found = {name: each if each is _UNSET else _in_order(each, depth - 1) for name, each in held.items()}
    if all(map(is_, found.values(), held.values())):
        return value
    if not isinstance(value, msgspec.Struct):
        return found  # it would be encoded like this
    made = copy(value)
    for name, each in found.items():
        if each is not _UNSET:
            msgspec.structs.force_setattr(made, name, each)
    return made


def _are_plain(values: Iterable[Any]) -> bool:
    """Whether all values are of plain types; fast even for a million of them."""
    return _PLAIN.issuperset(map(type, values))


def _map_head(size: int) -> bytes:
    """The msgpack header of a map with *size* pairs."""
    if size < 16:
        return bytes([0x80 | size])
    return b"\xde" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xdf" + size.to_bytes(4, "big")


def in_words(value: Any, depth: int = WORDS_DEPTH_MAX) -> str:
    """The ``repr`` of *value*, with sets in one order as far as they are inside built-in containers."""
    if not depth or type(value) not in CONTAINERS or not value:
        return repr(value)
    if type(value) is dict:
        pairs = (f"{in_words(key, depth - 1)}: {in_words(each, depth - 1)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    items = [in_words(each, depth - 1) for each in value]
    if type(value) is list:
        return f"[{', '.join(items)}]"
    if type(value) is tuple:
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    in_braces = f"{{{', '.join(sorted(items))}}}"
    return in_braces if type(value) is set else f"frozenset({in_braces})"


# --- annotations


def may_hold_sets(annotation: Any) -> bool:
    """Whether a value that fits *annotation* may contain a set. True where the annotation does not say:
    ``Any``, a bare ``list``, a name that cannot be resolved."""
    return _may_hold(annotation, set())


def _may_hold(kind: Any, seen: set[Any]) -> bool:
    """As :func:`may_hold_sets`. *seen* has the classes that were visited, since a tree's children are
    trees."""
    if kind is None or kind is ...:
        return False
    if isinstance(kind, NewType):
        return _may_hold(kind.__supertype__, seen)
    if type(kind).__name__ == "TypeAliasType":
        return _may_hold(kind.__value__, seen)
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return False
    if origin is Annotated:
        return _may_hold(args[0], seen)
    if origin in (Union, types.UnionType) or (origin in _HOLDERS and args):
        return any(_may_hold(each, seen) for each in args)
    return _may_class_hold(kind, seen) if isinstance(kind, type) and origin is None else True


def _may_class_hold(kind: Any, seen: set[Any]) -> bool:
    if kind in _PLAIN or kind in seen:
        return False
    seen.add(kind)
    if issubclass(kind, enum.Enum):
        return any(in_order(each.value) is not each.value for each in kind)
    if fields_of(kind) is None and not is_typeddict(kind) and not _is_named_tuple(kind):
        return True
    try:
        hints = get_type_hints(kind)
    except Exception:
        return True  # for example, names that exist only for the type checker
    names = fields_of(kind) or getattr(kind, "_fields", None) or tuple(hints)
    return any(_may_hold(hints.get(name, Any), seen) for name in names) or any(
        _may_class_hold(each, seen) for each in kind.__subclasses__()
    )


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")
