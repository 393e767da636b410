"""Splits a constraint into tokens: numbers, texts, components, keywords and signs, each with its position.

A component is one token, because only within a component can a dot, a bracket or a digit be a step.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto
from math import isfinite
from typing import Final

from holdfast.faults.filters.errors import Element, InvalidConstraint, Member, Named, Path, Place, Step, Trait

CONSTRAINT_MAX: Final = 65_536
"""The most letters of a constraint."""
TOKENS_MAX: Final = 8_192
"""The most tokens of a constraint. This bounds the steps of parsing, and a fixed multiple of it those of
evaluation."""
STEPS_MAX: Final = 32
"""The most steps of a component; the deepest value in an event is five steps away."""
DIGITS_MAX: Final = 32
"""The most digits of a number, before its point and after."""
SHOWN_MAX: Final = 32
"""How many letters of a token an error shows."""

KEYWORDS: Final = ("and", "or", "not", "in", "exist", "exists", "default", "TRUE", "FALSE")
_SIGNS: Final = ("==", "!=", "<=", ">=", "<", ">", "~", "+", "-", "*", "/", "(", ")")
_MEANT: Final = {
    "=": "write == for equality",
    "!": "write != or not",
    "&": "write and",
    "|": "write or",
    "`": "texts stand in single quotes: 'hostC'",
    ".": "a component begins with $, as in $.header",
    "[": "an element follows a component at once: $Location[0]",
}
_SPACE: Final = re.compile(r"[ \t\r\n\f\v\u00a0]*")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TRAIT: Final = re.compile(r"_[A-Za-z_]*")
_DIGITS: Final = re.compile(r"[0-9]+")
_NUMBER: Final = re.compile(r"(?=\.?[0-9])(?P<whole>[0-9]*)(?P<part>\.[0-9]*)?(?P<exponent>[eE][+-]?[0-9]+)?")
_QUOTES: Final = {"'": "'", "‘": "’", "’": "’", '"': '"'}
"""The quotes that open and close a text. The source is printed with curved quotes (FTC-279). Double quotes
are our addition: shells leave a constraint in single quotes alone, and it then needs other quotes inside."""


class Kind(Enum):
    NUMBER = auto()
    TEXT = auto()
    COMPONENT = auto()
    KEYWORD = auto()
    SIGN = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    at: int
    value: int | float | str | Path
    text: str
    """The token as it was written."""

    def __str__(self) -> str:
        return "the end" if self.kind is Kind.END else self.text[:SHOWN_MAX]


def tokenize(text: str) -> list[Token]:
    """Return the constraint's tokens, the last of kind END. Raises InvalidConstraint if the text has anything
    else."""
    if len(text) > CONSTRAINT_MAX:
        raise InvalidConstraint(
            text, CONSTRAINT_MAX, f"longer than {CONSTRAINT_MAX} letters; ask for less at once"
        )
    return _Tokenizer(text).tokens()


class _Tokenizer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def tokens(self) -> list[Token]:
        tokens: list[Token] = []
        while True:
            self._skip_space()
            tokens.append(self._next())
            if tokens[-1].kind is Kind.END:
                return tokens
            if len(tokens) > TOKENS_MAX:
                raise self._wrong(tokens[-1].at, f"more than {TOKENS_MAX} words; ask for less at once")

    def _next(self) -> Token:
        at = self._at
        kind, value = self._scan(self._letter())
        return Token(kind, at, value, self._text[at : self._at])

    def _scan(self, letter: str) -> tuple[Kind, int | float | str | Path]:
        if not letter:
            return Kind.END, ""
        if letter == "$":
            return Kind.COMPONENT, self._path()
        if letter in _QUOTES:
            return Kind.TEXT, self._quoted(_QUOTES[letter])
        if number := _NUMBER.match(self._text, self._at):
            return Kind.NUMBER, self._number(number)
        if _NAME.match(self._text, self._at):
            return Kind.KEYWORD, self._keyword()
        return Kind.SIGN, self._sign(letter)

    def _sign(self, letter: str) -> str:
        for sign in _SIGNS:
            if self._text.startswith(sign, self._at):
                self._at += len(sign)
                return sign
        meant = _MEANT.get(letter, "no constraint holds such outside a text")
        raise self._wrong(self._at, f"found {letter!r}; {meant}")

    def _keyword(self) -> str:
        at, name = self._at, self._take(_NAME)
        if name in KEYWORDS:
            return name
        for keyword in KEYWORDS:
            if name.lower() == keyword.lower():
                raise self._wrong(at, f"found {name}; write {keyword}")
        name = name[:SHOWN_MAX]
        raise self._wrong(at, f"found {name}; write ${name} for a component, or '{name}' for a text")

    def _quoted(self, closing: str) -> str:
        start = self._at
        self._at += 1
        letters: list[str] = []
        while (letter := self._letter()) != closing:
            if not letter:
                raise self._wrong(start, f"a text begins here and does not end; close it with {closing}")
            if letter == "\\":
                self._at += 1
                letter = self._letter()
                if letter not in ("\\", "'", closing):
                    hint = rf"in a text, a backslash is written \\ and a quote \{closing}"
                    raise self._wrong(self._at - 1, hint)
            letters.append(letter)
            self._at += 1
        self._at += 1
        return "".join(letters)

    def _number(self, found: re.Match[str]) -> int | float:
        if max(len(found["whole"]), len(found["part"] or ""), len(found["exponent"] or "")) > DIGITS_MAX:
            raise self._wrong(self._at, f"a number of more than {DIGITS_MAX} digits")
        is_whole = found["part"] is None and found["exponent"] is None
        value = int(found[0]) if is_whole else float(found[0])
        if not isfinite(value):
            raise self._wrong(self._at, "a number beyond all that can be compared")
        self._at = found.end()
        return value

    # --- components

    def _path(self) -> Path:
        self._at += 1
        self._skip_space()
        at, variable = self._at, self._name(or_keyword=False)
        if variable == "curtime":
            raise self._wrong(at, "$curtime is not offered: every replica of a notifier must decide alike")
        steps: list[Step] = []
        while (step := self._step()) is not None:
            steps.append(step)
            if isinstance(step, Trait):
                break
            if len(steps) > STEPS_MAX:
                raise self._wrong(
                    self._at, f"a component of more than {STEPS_MAX} steps; no event is so deep"
                )
        return Path(variable, tuple(steps))

    def _step(self) -> Step | None:
        self._skip_space()
        match self._letter():
            case ".":
                self._at += 1
                return self._after_dot()
            case "[":
                self._at += 1
                index = self._index("an element's number, such as $Location[0]")
                self._close("]")
                return Element(index)
            case "(":
                self._at += 1
                self._skip_space()
                if (name := self._name(or_keyword=True)) is None:
                    raise self._wrong(
                        self._at, "expected a property's name, such as $.filterable_data(TypeId)"
                    )
                self._close(")")
                return Named(name)
        return None

    def _after_dot(self) -> Step:
        self._skip_space()
        at = self._at
        if (name := self._name(or_keyword=True)) is not None:
            return Member(name)
        if _DIGITS.match(self._text, at):
            return Place(self._index("a member's place"))
        if name := self._take(_TRAIT):
            for trait in Trait:
                if name == trait.value:
                    return trait
            if name != "_d":
                raise self._wrong(at, f"found {name[:SHOWN_MAX]}; write _length, _type_id or _repos_id")
        if name or self._letter() == "(":
            raise self._wrong(at, "no event holds a union, so nothing has cases to ask for")
        raise self._wrong(at, "expected a member's name, its place, or _length, _type_id, _repos_id")

    def _index(self, wanted: str) -> int:
        self._skip_space()
        at, digits = self._at, self._take(_DIGITS)
        if not digits:
            raise self._wrong(at, f"expected {wanted}")
        if len(digits) > DIGITS_MAX:
            raise self._wrong(at, f"a number of more than {DIGITS_MAX} digits")
        return int(digits)

    def _name(self, *, or_keyword: bool) -> str | None:
        """Return a name, or None if there is none. A backslash before it means that it is not a keyword."""
        at = self._at
        is_escaped = self._letter() == "\\"
        found = _NAME.match(self._text, at + is_escaped)
        if found is None:
            if is_escaped:
                raise self._wrong(at, "after a backslash, expected a name")
            return None
        if found[0] in KEYWORDS and not (or_keyword or is_escaped):
            return None
        self._at = found.end()
        return found[0]

    def _close(self, closing: str) -> None:
        self._skip_space()
        if self._letter() != closing:
            raise self._wrong(self._at, f"expected {closing!r}")
        self._at += 1

    # --- letters

    def _letter(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _skip_space(self) -> None:
        self._take(_SPACE)

    def _wrong(self, at: int, problem: str) -> InvalidConstraint:
        return InvalidConstraint(self._text, at, problem)
