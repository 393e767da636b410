"""Evaluates whether an event matches a constraint.

Operands are evaluated from left to right, and only as far as the answer needs. A missing component, or a
value that the operator cannot take, makes the whole constraint *undefined*, which does not match, not even
under ``not`` (FTC-279). So a guard must come before what it guards: ``not exist $TypeId or $TypeId ==
'type2'``. Each node is evaluated at most once, and costs no more than the largest value an event may hold.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from holdfast.faults.events import Simple, StructuredEvent
from holdfast.faults.filters.errors import Path, elements_of, resolve
from holdfast.faults.filters.tree import (
    And,
    Comparison,
    Component,
    Default,
    Exist,
    Literal,
    Membership,
    Node,
    Not,
    Or,
    Product,
    Substring,
    Sum,
    written,
)

INTEGER_BITS_MAX: Final = 127
"""The most bits of a sum or product; a longer result is undefined. Literals and numbers in events are much
shorter."""

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}


class Truth(Enum):
    TRUE = "true"
    FALSE = "false"
    UNDEFINED = "undefined"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the event matches; if that is undefined, why, and where in the constraint."""

    truth: Truth
    why: str = ""
    at: int = 0


class _Undefined(Exception):
    """Ends the evaluation as undefined."""

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(why)
        self.verdict = Verdict(Truth.UNDEFINED, why, node.at)


def evaluate(node: Node, event: StructuredEvent) -> Verdict:
    """Evaluate the constraint for the event."""
    try:
        return Verdict(Truth.TRUE if _boolean(node, event) else Truth.FALSE)
    except _Undefined as undefined:
        return undefined.verdict


def matches(node: Node, event: StructuredEvent) -> bool:
    return evaluate(node, event).truth is Truth.TRUE


def _value(node: Node, event: StructuredEvent) -> Simple:
    match node:
        case Literal(value):
            return value
        case Component(path):
            return _component(node, path, event)
        case Sum(first, rest) | Product(first, rest):
            return _reckon(node, first, rest, event)
    return _boolean(node, event)


def _boolean(node: Node, event: StructuredEvent) -> bool:
    match node:
        case And(operands):
            return all(_boolean(each, event) for each in operands)
        case Or(operands):
            return any(_boolean(each, event) for each in operands)
        case Not(operand):
            return not _boolean(operand, event)
        case Exist(path):
            return resolve(path, event) is not None
        case Default():
            return False  # It asks for a union in its default case, and no event holds a union.
        case Comparison(left, sign, right):
            return _compare(node, _value(left, event), sign, _value(right, event))
        case Membership(item, path):
            return _is_member(node, _value(item, event), path, event)
        case Substring(part, whole):
            return _text(part, event) in _text(whole, event)
        case Literal() | Component() | Sum() | Product():
            value = _value(node, event)
            if not isinstance(value, bool):
                raise _Undefined(node, f"{written(node)} is {value!r}, no boolean")
            return value


def _component(node: Node, path: Path, event: StructuredEvent) -> Simple:
    found = resolve(path, event)
    if found is None:
        raise _Undefined(node, f"the event has no {written(node)}")
    if not isinstance(found, bool | int | float | str):
        raise _Undefined(node, f"{written(node)} is made of parts; name the one that is meant")
    return found


def _text(node: Node, event: StructuredEvent) -> str:
    value = _value(node, event)
    if not isinstance(value, str):
        raise _Undefined(node, f"{written(node)} is {value!r}, no text")
    return value


def _compare(node: Node, left: Simple, sign: str, right: Simple) -> bool:
    if isinstance(left, bool) is not isinstance(right, bool):
        raise _Undefined(node, f"{left!r} never compares with {right!r}")
    return _COMPARE[sign](*_alike(left, right))


def _alike(left: Simple, right: Simple) -> tuple[Simple, Simple]:
    """Return both as texts unless both are numbers (FTC-282): the source compares a group's number with a
    text."""
    if isinstance(left, str) is isinstance(right, str):
        return left, right
    return str(left), str(right)


def _is_member(node: Node, item: Simple, path: Path, event: StructuredEvent) -> bool:
    elements = elements_of(resolve(path, event))
    if elements is None:
        raise _Undefined(node, f"the event has no sequence {written(Component(path))}")
    return any(
        isinstance(each, bool | int | float | str)
        and isinstance(each, bool) is isinstance(item, bool)
        and eq(*_alike(item, each))
        for each in elements
    )


def _number(node: Node, event: StructuredEvent) -> int | float:
    value = _value(node, event)
    if isinstance(value, bool | str):
        raise _Undefined(node, f"{written(node)} is {value!r}, no number")
    return value


def _reckon(
    node: Node, first: Node, rest: tuple[tuple[str, Node], ...], event: StructuredEvent
) -> int | float:
    total = _number(first, event)
    for sign, operand in rest:
        total = _apply(node, total, sign, _number(operand, event))
    return total


def _apply(node: Node, left: int | float, sign: str, right: int | float) -> int | float:
    result: int | float
    match sign:
        case "+":
            result = left + right
        case "-":
            result = left - right
        case "*":
            result = left * right
        case _:
            if right == 0:
                raise _Undefined(node, f"{left!r} / 0")
            # The division is exact if possible, because a 64-bit id does not fit in a float.
            is_exact = isinstance(left, int) and isinstance(right, int) and left % right == 0
            result = left // right if is_exact else left / right
    if not isfinite(result) or (isinstance(result, int) and result.bit_length() > INTEGER_BITS_MAX):
        raise _Undefined(node, f"{left!r} {sign} {right!r} is too large")
    return result
