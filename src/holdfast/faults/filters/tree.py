"""The tree of a constraint, and how to turn it back into text.

Chains (``a and b and c``, ``1 + 2 - 3``) are one node with many operands. So a long constraint is not a deep
tree, and the depth of recursion is bounded by how deep parentheses may nest. Two trees are equal if they mean
the same, regardless of where their nodes were written.
"""

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final

from holdfast.faults.filters.errors import Element, Member, Named, Path, Place, Step, Trait
from holdfast.faults.filters.tokens import KEYWORDS


class Type(Enum):
    """What is known of a value's type without an event."""

    BOOLEAN = "a boolean"
    NUMBER = "a number"
    TEXT = "a text"
    ANY = "whatever the event holds"


class Level(IntEnum):
    """How tightly a node binds, as in the standard."""

    OR = 0
    AND = 1
    COMPARISON = 2
    MEMBERSHIP = 3
    SUBSTRING = 4
    SUM = 5
    PRODUCT = 6
    NOT = 7
    VALUE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    at: int = field(default=0, compare=False, repr=False)
    """Where the node was written."""


@dataclass(frozen=True, slots=True)
class Literal(_Placed):
    value: bool | int | float | str


@dataclass(frozen=True, slots=True)
class Component(_Placed):
    path: Path


@dataclass(frozen=True, slots=True)
class Exist(_Placed):
    path: Path


@dataclass(frozen=True, slots=True)
class Default(_Placed):
    path: Path


@dataclass(frozen=True, slots=True)
class Not(_Placed):
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Product(_Placed):
    """``first * b / c``: the rest are signs with operands, at least one."""

    first: "Node"
    rest: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True, slots=True)
class Sum(_Placed):
    """``first + b - c``: the rest are signs with operands, at least one."""

    first: "Node"
    rest: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True, slots=True)
class Substring(_Placed):
    """``part ~ whole``: the part is somewhere in the whole."""

    part: "Node"
    whole: "Node"


@dataclass(frozen=True, slots=True)
class Membership(_Placed):
    """``item in $sequence``."""

    item: "Node"
    path: Path


@dataclass(frozen=True, slots=True)
class Comparison(_Placed):
    left: "Node"
    sign: str
    right: "Node"


@dataclass(frozen=True, slots=True)
class And(_Placed):
    operands: tuple["Node", ...]
    """Two or more operands."""


@dataclass(frozen=True, slots=True)
class Or(_Placed):
    operands: tuple["Node", ...]


Node = (
    Literal
    | Component
    | Exist
    | Default
    | Not
    | Product
    | Sum
    | Substring
    | Membership
    | Comparison
    | And
    | Or
)


def type_of(node: Node) -> Type:
    """Return the type of the node's value, as far as it is known."""
    match node:
        case Literal(bool()):
            return Type.BOOLEAN
        case Literal(str()):
            return Type.TEXT
        case Literal() | Sum() | Product():
            return Type.NUMBER
        case Component():
            return Type.ANY
    return Type.BOOLEAN


_LEVELS: Final[dict[type, Level]] = {
    Or: Level.OR,
    And: Level.AND,
    Comparison: Level.COMPARISON,
    Membership: Level.MEMBERSHIP,
    Substring: Level.SUBSTRING,
    Sum: Level.SUM,
    Product: Level.PRODUCT,
    Not: Level.NOT,
}


def written(node: Node) -> str:
    """Return the node as a constraint that parses to an equal node. It has only the necessary parentheses."""
    match node:
        case Literal(value):
            return _literal(value)
        case Component(path):
            return _path(path)
        case Exist(path):
            return f"exist {_path(path)}"
        case Default(path):
            return f"default {_path(path)}"
        case Not(operand):
            return f"not {_within(operand, Level.VALUE)}"
        case Product(first, rest):
            return _chain(first, rest, Level.NOT)
        case Sum(first, rest):
            return _chain(first, rest, Level.PRODUCT)
        case Substring(part, whole):
            return f"{_within(part, Level.SUM)} ~ {_within(whole, Level.SUM)}"
        case Membership(item, path):
            return f"{_within(item, Level.SUBSTRING)} in {_path(path)}"
        case Comparison(left, sign, right):
            return f"{_within(left, Level.MEMBERSHIP)} {sign} {_within(right, Level.MEMBERSHIP)}"
        case And(operands):
            return " and ".join(_within(each, Level.COMPARISON) for each in operands)
        case Or(operands):
            return " or ".join(_within(each, Level.AND) for each in operands)


def _within(node: Node, level: Level) -> str:
    text = written(node)
    return text if _LEVELS.get(type(node), Level.VALUE) >= level else f"({text})"


def _chain(first: Node, rest: tuple[tuple[str, Node], ...], level: Level) -> str:
    return _within(first, level) + "".join(f" {sign} {_within(each, level)}" for sign, each in rest)


def _literal(value: bool | int | float | str) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
    return repr(value)


def _path(path: Path) -> str:
    variable = path.variable or ""
    escape = "\\" if variable in KEYWORDS else ""
    return f"${escape}{variable}{''.join(_step(each) for each in path.steps)}"


def _step(step: Step) -> str:
    match step:
        case Member(name):
            return f".{name}"
        case Place(index):
            return f".{index}"
        case Element(index):
            return f"[{index}]"
        case Named(name):
            return f"({name})"
        case Trait():
            return f".{step.value}"
