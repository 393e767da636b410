"""Whether groups can be made of a class at all, by what it is: before anything is made of it."""

import enum
import inspect
from typing import Final

from holdfast.styles.interface import interface_of

HEAP_TYPE: Final = 1 << 9
"""Of ``__flags__``: made by a class statement, and not by an interpreter's or an extension's own code."""
KINDS: Final[dict[type, str]] = {
    BaseException: "it is an exception",
    type: "it is a metaclass",
    enum.Enum: "it is an enumeration",
}
NAMES_SHOWN: Final = 5


def why_no_service(cls: type) -> str | None:
    """Why no group can be of *cls*, in words; None when one can."""
    if not cls.__flags__ & HEAP_TYPE:
        return "it is built in"
    for kind, said in KINDS.items():
        if issubclass(cls, kind):
            return said
    if getattr(cls, "_is_protocol", False):
        return "it is a protocol, of which no object is made"
    if inspect.isabstract(cls):
        lacking = ", ".join(sorted(getattr(cls, "__abstractmethods__", ()))[:NAMES_SHOWN])
        return f"it is abstract: it does not implement {lacking}"
    if not interface_of(cls).operations:
        return "it has no public method to call"
    return None
