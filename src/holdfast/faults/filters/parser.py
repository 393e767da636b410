"""Parses a constraint, with one function for each rule of the standard's grammar, loosest binding first.

    or          := and { "or" and }
    and         := comparison { "and" comparison }
    comparison  := membership [ ("==" | "!=" | "<" | "<=" | ">" | ">=") membership ]
    membership  := substring [ "in" component ]
    substring   := sum [ "~" sum ]
    sum         := product { ("+" | "-") product }
    product     := negation { ("*" | "/") negation }
    negation    := [ "not" ] value
    value       := "(" or ")" | ("exist" | "exists" | "default") component | component
                 | ["+" | "-"] number | text | "TRUE" | "FALSE"

So ``not $a == 1`` is ``(not $a) == 1``. An operand whose type is known to be wrong without an event, such as
a number where a boolean is needed, is refused here; otherwise the constraint would never match.
"""

from typing import Final

from holdfast.faults.filters.errors import InvalidConstraint, Path
from holdfast.faults.filters.tokens import Kind, Token, tokenize
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
    Type,
    type_of,
)

DEPTH_MAX: Final = 32
"""How deep parentheses may nest; each level takes nine calls of the parser."""

_COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")


def parse(text: str) -> Node:
    """Return the tree of a constraint. Raises InvalidConstraint if it is not valid. A blank constraint is
    true."""
    return _Parser(text).constraint()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._index = 0
        self._depth = 0

    def constraint(self) -> Node:
        if self._peek().kind is Kind.END:
            return Literal(True)
        node = self._or()
        if self._peek().kind is not Kind.END:
            raise self._wrong(self._peek(), f"expected and, or, or the end, found {self._peek()}")
        return self._require(node, Type.BOOLEAN, "a constraint is a boolean, such as a comparison")

    # --- the rules

    def _or(self) -> Node:
        operands = [self._and()]
        while self._take(Kind.KEYWORD, "or"):
            operands.append(self._and())
        return operands[0] if len(operands) == 1 else Or(self._booleans(operands, "or"), at=operands[0].at)

    def _and(self) -> Node:
        operands = [self._comparison()]
        while self._take(Kind.KEYWORD, "and"):
            operands.append(self._comparison())
        return operands[0] if len(operands) == 1 else And(self._booleans(operands, "and"), at=operands[0].at)

    def _comparison(self) -> Node:
        left = self._membership()
        sign = self._take(Kind.SIGN, *_COMPARISONS)
        if sign is None:
            return left
        right = self._membership()
        if (again := self._take(Kind.SIGN, *_COMPARISONS)) is not None:
            raise self._wrong(again, f"found {again}; compare two at a time, and join them by and")
        self._require_comparable(sign, left, right)
        return Comparison(left, str(sign.value), right, at=sign.at)

    def _membership(self) -> Node:
        item = self._substring()
        word = self._take(Kind.KEYWORD, "in")
        return item if word is None else Membership(item, self._component("in"), at=word.at)

    def _substring(self) -> Node:
        part = self._sum()
        sign = self._take(Kind.SIGN, "~")
        if sign is None:
            return part
        whole = self._sum()
        for each in (part, whole):
            self._require(each, Type.TEXT, "~ looks for a text within a text, as in 'acme' ~ $TypeId")
        return Substring(part, whole, at=sign.at)

    def _sum(self) -> Node:
        first = self._product()
        rest: list[tuple[str, Node]] = []
        while (sign := self._take(Kind.SIGN, "+", "-")) is not None:
            rest.append((str(sign.value), self._product()))
        return first if not rest else Sum(first, self._numbers(first, rest), at=first.at)

    def _product(self) -> Node:
        first = self._negation()
        rest: list[tuple[str, Node]] = []
        while (sign := self._take(Kind.SIGN, "*", "/")) is not None:
            rest.append((str(sign.value), self._negation()))
        return first if not rest else Product(first, self._numbers(first, rest), at=first.at)

    def _negation(self) -> Node:
        word = self._take(Kind.KEYWORD, "not")
        if word is None:
            return self._value()
        operand = self._value()
        hint = "not binds tighter than comparisons; write not (...) around what it is to turn round"
        return Not(self._require(operand, Type.BOOLEAN, hint), at=word.at)

    def _value(self) -> Node:
        token = self._peek()
        self._index += 1
        match token.kind, token.value:
            case Kind.SIGN, "(":
                return self._parenthesis(token)
            case Kind.SIGN, "+" | "-":
                return self._signed(token)
            case Kind.KEYWORD, "exist" | "exists":
                return Exist(self._component("exist"), at=token.at)
            case Kind.KEYWORD, "default":
                return Default(self._component("default"), at=token.at)
            case Kind.KEYWORD, "TRUE" | "FALSE":
                return Literal(token.value == "TRUE", at=token.at)
            case Kind.COMPONENT, Path() as path:
                return Component(path, at=token.at)
            case Kind.NUMBER | Kind.TEXT, int() | float() | str() as value:
                return Literal(value, at=token.at)
        raise self._wrong(token, f"expected a component, a number, a text or a parenthesis, found {token}")

    def _parenthesis(self, opening: Token) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._wrong(opening, f"more than {DEPTH_MAX} parentheses within each other")
        inner = self._or()
        if self._take(Kind.SIGN, ")") is None:
            found = self._peek()
            raise self._wrong(found, f"expected ')' for the '(' at letter {opening.at + 1}, found {found}")
        self._depth -= 1
        return inner

    def _signed(self, sign: Token) -> Node:
        number = self._peek()
        if number.kind is not Kind.NUMBER or not isinstance(number.value, int | float):
            raise self._wrong(sign, f"a sign stands before a number only; write 0 {sign.value} ...")
        self._index += 1
        return Literal(-number.value if sign.value == "-" else number.value, at=sign.at)

    def _component(self, word: str) -> Path:
        token = self._peek()
        if not isinstance(token.value, Path):
            raise self._wrong(
                token, f"expected a component after {word}, such as $ObjectGroupId, found {token}"
            )
        self._index += 1
        return token.value

    # --- types

    def _booleans(self, operands: list[Node], word: str) -> tuple[Node, ...]:
        return tuple(self._require(each, Type.BOOLEAN, f"{word} joins booleans") for each in operands)

    def _numbers(self, first: Node, rest: list[tuple[str, Node]]) -> tuple[tuple[str, Node], ...]:
        for each in (first, *(node for _, node in rest)):
            self._require(each, Type.NUMBER, "only numbers can be reckoned with")
        return tuple(rest)

    def _require(self, node: Node, wanted: Type, hint: str) -> Node:
        found = type_of(node)
        if found not in (wanted, Type.ANY):
            raise InvalidConstraint(
                self._text, node.at, f"expected {wanted.value}, found {found.value}: {hint}"
            )
        return node

    def _require_comparable(self, sign: Token, left: Node, right: Node) -> None:
        """Check that two operands compare: numbers and texts compare as texts (FTC-282), booleans only with
        booleans."""
        found = (type_of(left), type_of(right))
        if Type.BOOLEAN not in found or Type.ANY in found or found[0] is found[1]:
            return
        hint = "; not binds tighter: write not (...) around it" if isinstance(left, Not) else ""
        raise self._wrong(sign, f"{found[0].value} never compares with {found[1].value}{hint}")

    # --- tokens

    def _peek(self) -> Token:
        return self._tokens[self._index]

    def _take(self, kind: Kind, *values: str) -> Token | None:
        """Take and return the next token, if it is one of these."""
        token = self._peek()
        if token.kind is not kind or token.value not in values:
            return None
        self._index += 1
        return token

    def _wrong(self, token: Token, problem: str) -> InvalidConstraint:
        return InvalidConstraint(self._text, token.at, problem)
