"""What a value that is made of fields is made of, whichever library made its class."""

import dataclasses
from functools import lru_cache

import msgspec


@lru_cache(maxsize=1024)
def fields_of(kind: type) -> tuple[str, ...] | None:
    """The names of what its objects are made of; None for one that is not made of fields."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    attributes = getattr(kind, "__attrs_attrs__", None)
    return tuple(each.name for each in attributes) if attributes is not None else None
