"""What annotations say of a value's parts, so that what does not fit can be named by its place.

The decoder says only that an array or a map somewhere has a wrong value. So when a value cannot be read, its
parts are tried one by one, each as its part of the annotation: the smallest that fails is what is told.
"""

import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import (
    Annotated,
    Any,
    NewType,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from holdfast.model.fields import fields_of
from holdfast.styles.sameness import in_short

Part = tuple[str, Any, Any]
"""Where it stands, the value, and what it is annotated as."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """The smallest part of a value that fails, and how."""

    path: str
    value: Any
    kind: Any
    why: str


def misfit(
    value: Any, kind: Any, why_not: Callable[[Any, Any], str], why: str, first: int = 0, path: str = ""
) -> Misfit:
    """Of a *value* that fails as *kind* for this reason. *why_not* says how a part fails; empty if it does
    not. *first*: the number of its first item, where it is a part of a list."""
    for step, part, of_part in _parts(value, kind, first):
        of_part_why = why_not(part, of_part)
        if of_part_why:
            return misfit(part, of_part, why_not, of_part_why, path=path + step)
    return Misfit(path, value, kind, why)


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
        # Of an object that stands where another is expected, the parts say nothing.
        cls: type = type(value)
        hints = _hints(cls)
        for name in fields_of(cls) or ():
            yield f".{name}", getattr(value, name, None), hints.get(name, Any)


def _of(value: Any, kind: Any) -> Any:
    """*kind* as far as it may be meant by *value*: an arm of a union, what an alias stands for."""
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
        # Names that exist only for the type checker.
        return {}
