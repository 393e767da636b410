"""Constraints as consumers give them to filters: types of events, and an expression that must be true."""

from dataclasses import dataclass
from typing import Final, NewType

from msgspec import Struct

from holdfast.faults.events import EventType, StructuredEvent
from holdfast.faults.filters.errors import InvalidConstraint
from holdfast.faults.filters.evaluation import matches
from holdfast.faults.filters.parser import parse
from holdfast.faults.filters.tree import Node
from holdfast.model.errors import InvalidRequest

EVENT_TYPES_MAX: Final = 64
"""The most event types in one constraint."""
ALL_TYPES: Final = ("", "*", "%ALL")
"""Names that stand for every domain or type."""

ConstraintId = NewType("ConstraintId", int)
"""The number of a constraint in its filter; numbers are never reused."""


class ConstraintExp(Struct, frozen=True, array_like=True):
    """Passes events of these types, or of every type if none is named, for which the expression is true. In
    the names of a type ``*`` stands for any letters."""

    event_types: tuple[EventType, ...] = ()
    constraint_expr: str = ""


class ConstraintInfo(Struct, frozen=True, array_like=True):
    """A constraint of a filter, with its id there."""

    constraint_expression: ConstraintExp
    constraint_id: ConstraintId


@dataclass(frozen=True, slots=True)
class Compiled:
    """A constraint that was parsed once."""

    expression: ConstraintExp
    tree: Node

    @classmethod
    def of(cls, expression: ConstraintExp) -> "Compiled":
        """Parse a constraint. Raises InvalidConstraint, which names the constraint, if it is not valid."""
        if len(expression.event_types) > EVENT_TYPES_MAX:
            raise InvalidRequest(f"a constraint names at most {EVENT_TYPES_MAX} types of events")
        try:
            return cls(expression, parse(expression.constraint_expr))
        except InvalidConstraint as error:
            error.constraint = expression
            raise

    @property
    def letters(self) -> int:
        """The number of letters of its expression and of the names of its types."""
        types = self.expression.event_types
        named = sum(len(each.domain_name) + len(each.type_name) for each in types)
        return len(self.expression.constraint_expr) + named

    def passes(self, event: StructuredEvent) -> bool:
        types = self.expression.event_types
        of = event.header.fixed_header.event_type
        return (not types or any(is_of_type(of, each) for each in types)) and matches(self.tree, event)


def is_of_type(of: EventType, wanted: EventType) -> bool:
    """Whether an event's type is one that is wanted."""
    return _fits(of.domain_name, wanted.domain_name) and _fits(of.type_name, wanted.type_name)


def _fits(name: str, pattern: str) -> bool:
    """Whether the name is the pattern, with any letters in place of each ``*``."""
    if pattern in ALL_TYPES:
        return True
    first, *others = pattern.split("*")
    if not others:
        return name == pattern
    last = others.pop()
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    # Taking the first match of a piece leaves the most room for the others, so nothing need be tried again.
    for piece in others:
        at = name.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True
