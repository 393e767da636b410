"""The errors of filters, worded so that the writer can fix them, and the paths to components of an event.

A :class:`Path` such as ``$Location[0].id`` names a component, and :func:`resolve` finds it in an event or
finds that it is not there. ``$`` is the whole event, and steps lead from it: ``$.header.fixed_header``.
``$name`` is short for what the standard looks up in turn: the fixed header's ``event_type`` and
``event_name`` and the type's ``domain_name`` and ``type_name``; then a property of the variable header; then
one of the filterable data.
"""

from typing import TYPE_CHECKING, Final

from holdfast.model.errors import InvalidRequest

if TYPE_CHECKING:
    from holdfast.faults.filters.constraints import ConstraintExp
from dataclasses import dataclass
from enum import Enum

from msgspec import Struct

from holdfast.faults.events import (
    EventHeader,
    EventType,
    FixedEventHeader,
    Location,
    NameComponent,
    Property,
    StructuredEvent,
    find,
)

EXCERPT_BEFORE: Final = 48
EXCERPT_AFTER: Final = 24
"""How many letters are shown around a mistake."""


class InvalidGrammar(InvalidRequest):
    """Raised when a filter is requested in a constraint language that is not offered."""

    code = "invalid_grammar"


class InvalidConstraint(InvalidRequest):
    """Raised when a constraint is not valid; says where the mistake is, and what would be right."""

    code = "invalid_constraint"

    def __init__(self, text: str, at: int, problem: str) -> None:
        problem = _printable(problem)  # it may quote the constraint
        super().__init__(f"constraint, letter {at + 1}: {problem}")
        self.text = text
        self.at = at
        """The position of the mistake, counted from 0; the length of the text means its end."""
        self.problem = problem
        self.constraint: ConstraintExp | None = None
        """The constraint of the filter, if the text belongs to one."""

    def shown(self) -> str:
        """Return three lines for people: the mistake, the constraint around it, and a caret below the
        place."""
        first = max(0, self.at - EXCERPT_BEFORE)
        last = self.at + EXCERPT_AFTER
        before = "... " if first else ""
        after = " ..." if last < len(self.text) else ""
        excerpt = _printable(self.text[first:last])
        return f"{self}\n  {before}{excerpt}{after}\n  {' ' * (len(before) + self.at - first)}^"


def _printable(text: str) -> str:
    """Return the text as one line that any terminal can show, of the same length."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


class ConstraintNotFound(InvalidRequest):
    """Raised when a filter has no constraint of that id."""

    code = "constraint_not_found"

    def __init__(self, constraint_id: int) -> None:
        super().__init__(f"the filter has no constraint {constraint_id}")
        self.id = constraint_id


class FilterDestroyed(InvalidRequest):
    """Raised when a filter is used after it was destroyed."""

    code = "filter_destroyed"


@dataclass(frozen=True, slots=True)
class Member:
    """``.name``: a field of a struct."""

    name: str


@dataclass(frozen=True, slots=True)
class Place:
    """``.2``: a field of a struct, by its position."""

    index: int


@dataclass(frozen=True, slots=True)
class Element:
    """``[2]``: an element of a sequence."""

    index: int


@dataclass(frozen=True, slots=True)
class Named:
    """``(name)``: the value of that name in a sequence of names with values."""

    name: str


class Trait(Enum):
    """A property of a component itself, which can be its last step."""

    LENGTH = "_length"
    TYPE_ID = "_type_id"
    REPOS_ID = "_repos_id"


Step = Member | Place | Element | Named | Trait


@dataclass(frozen=True, slots=True)
class Path:
    """A component of an event: the variable it begins with (None for the event itself) and the steps."""

    variable: str | None = None
    steps: tuple[Step, ...] = ()


def resolve(path: Path, event: StructuredEvent) -> object | None:
    """Return what the path names in the event, or None if it is not there. Each step is taken once."""
    found: object | None = event if path.variable is None else _variable(path.variable, event)
    for step in path.steps:
        if found is None:
            return None
        found = _follow(step, found)
    return found


def _variable(name: str, event: StructuredEvent) -> object | None:
    fixed = event.header.fixed_header
    match name:
        case "event_type":
            return fixed.event_type
        case "event_name":
            return fixed.event_name
        case "domain_name":
            return fixed.event_type.domain_name
        case "type_name":
            return fixed.event_type.type_name
    of_header = find(event.header.variable_header, name)
    return event.value(name) if of_header is None else of_header


def _follow(step: Step, found: object) -> object | None:
    match step:
        case Member(name):
            return getattr(found, name) if name in _fields(found) else None
        case Place(index):
            fields = _fields(found)
            return getattr(found, fields[index]) if index < len(fields) else None
        case Element(index):
            elements = elements_of(found)
            return elements[index] if elements is not None and index < len(elements) else None
        case Named(name):
            return find([each for each in elements_of(found) or () if isinstance(each, Property)], name)
        case Trait.LENGTH:
            elements = elements_of(found)
            return None if elements is None else len(elements)
        case Trait.TYPE_ID:
            return _TYPE_NAMES[type(found)]
        case Trait.REPOS_ID:
            return _REPOSITORY_IDS.get(type(found))


def elements_of(found: object) -> tuple[object, ...] | None:
    """Return the elements of a sequence; None for anything else."""
    match found:
        case Location(parts):
            return parts
        case tuple():
            return found
    return None


def _fields(found: object) -> tuple[str, ...]:
    # A location is a sequence in the source; that it is a struct here must not show.
    return found.__struct_fields__ if isinstance(found, Struct) and not isinstance(found, Location) else ()


_REPOSITORY_IDS: Final[dict[type, str]] = {
    StructuredEvent: "IDL:omg.org/CosNotification/StructuredEvent:1.0",
    EventHeader: "IDL:omg.org/CosNotification/EventHeader:1.0",
    FixedEventHeader: "IDL:omg.org/CosNotification/FixedEventHeader:1.0",
    EventType: "IDL:omg.org/CosNotification/EventType:1.0",
    Property: "IDL:omg.org/CosNotification/Property:1.0",
    NameComponent: "IDL:omg.org/CosNaming/NameComponent:1.0",
    Location: "IDL:omg.org/FT/Location:1.0",
}
_TYPE_NAMES: Final[dict[type, str]] = {
    **{each: each.__name__ for each in _REPOSITORY_IDS},
    bool: "boolean",
    int: "long long",
    float: "double",
    str: "string",
    tuple: "sequence",
}
