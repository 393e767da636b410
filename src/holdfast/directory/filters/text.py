"""The search filter as text (RFC 4515): read and written.

Besides what the RFC allows, spaces around parentheses are passed over, and a single comparison may stand
without parentheses, as people type it. What is written is always as the RFC says.
"""

import re
from typing import Final

from holdfast.directory.filters.filter import (
    DEPTH_MAX,
    PARTS_MAX,
    And,
    Approximate,
    Equality,
    Extensible,
    Filter,
    GreaterOrEqual,
    LessOrEqual,
    Not,
    Or,
    Present,
    Substrings,
)
from holdfast.directory.results import DirectoryError, ResultCode, quoted

FILTER_CHARS_MAX: Final = 1_048_576
"""How long the text of a filter may be."""


class InvalidFilter(DirectoryError):
    """Raised when a text is not a filter; ``at`` is the index of the character at fault."""

    code = "invalid_filter"

    def __init__(self, text: str, at: int, problem: str) -> None:
        around = text[max(0, at - 20) : at + 20]
        super().__init__(
            ResultCode.PROTOCOL_ERROR, f"not a filter: {problem} at character {at + 1}, near {quoted(around)}"
        )
        self.at = at


_DESCRIPTION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?:;[A-Za-z0-9-]+)*")
_SIGN: Final = re.compile(r"=|>=|<=|~=")
_VALUE: Final = re.compile(r"[^()\x00]*")
_ESCAPE: Final = re.compile(r"\\([0-9A-Fa-f]{2})?")
_EXTENSIBLE: Final = re.compile(
    r"(?P<description>[A-Za-z0-9][A-Za-z0-9.-]*(?:;[A-Za-z0-9-]+)*)?"
    r"(?P<in_dn>:[Dd][Nn])?(?::(?P<rule>[A-Za-z0-9][A-Za-z0-9.-]*))?:="
)
_SPACE: Final = re.compile(r"\s*")

_COMPARISONS: Final[dict[str, type[GreaterOrEqual | LessOrEqual | Approximate]]] = {
    ">=": GreaterOrEqual,
    "<=": LessOrEqual,
    "~=": Approximate,
}


def parse_filter(text: str) -> Filter:
    """Read a filter; raises :class:`InvalidFilter` with the place of the first mistake."""
    if len(text) > FILTER_CHARS_MAX:
        raise InvalidFilter(text, FILTER_CHARS_MAX, f"it has more than {FILTER_CHARS_MAX} characters")
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._parts = 0

    def whole(self) -> Filter:
        self._skip_space()
        found = self._filter(1) if self._text[self._at : self._at + 1] == "(" else self._item()
        self._skip_space()
        if self._at < len(self._text):
            raise self._wrong("the filter ends here, and something is left")
        return found

    def _filter(self, depth: int) -> Filter:
        if depth > DEPTH_MAX:
            raise self._wrong(f"it nests deeper than {DEPTH_MAX}")
        self._expect("(")
        self._skip_space()
        match self._text[self._at : self._at + 1]:
            case "&":
                found: Filter = And(self._operands(depth))
            case "|":
                found = Or(self._operands(depth))
            case "!":
                self._count()
                self._at += 1
                self._skip_space()
                found = Not(self._filter(depth + 1))
                self._skip_space()
            case _:
                found = self._item()
        self._expect(")")
        return found

    def _operands(self, depth: int) -> tuple[Filter, ...]:
        self._count()
        self._at += 1
        self._skip_space()
        found = []
        while self._text[self._at : self._at + 1] == "(":
            found.append(self._filter(depth + 1))
            self._skip_space()
        return tuple(found)

    def _item(self) -> Filter:
        self._count()
        extensible = _EXTENSIBLE.match(self._text, self._at)
        if extensible is not None:
            return self._extensible(extensible)
        described = _DESCRIPTION.match(self._text, self._at)
        if described is None:
            raise self._wrong("an attribute is expected")
        self._at = described.end()
        sign = _SIGN.match(self._text, self._at)
        if sign is None:
            raise self._wrong("one of = >= <= ~= := is expected")
        self._at = sign.end()
        pieces, at = self._value(), self._at
        if sign[0] == "=":
            return self._equality(described[0], pieces)
        if len(pieces) > 1:
            self._at = at
            raise self._wrong(f"an asterisk in what {sign[0]} compares with is written \\2a")
        return _COMPARISONS[sign[0]](described[0], pieces[0])

    def _equality(self, description: str, pieces: list[bytes]) -> Filter:
        if len(pieces) == 1:
            return Equality(description, pieces[0])
        if not any(pieces):
            return Present(description)
        return Substrings(
            description, pieces[0] or None, tuple(filter(None, pieces[1:-1])), pieces[-1] or None
        )

    def _extensible(self, found: re.Match[str]) -> Filter:
        if found["description"] is None and found["rule"] is None:
            raise self._wrong("an extensible filter names an attribute, a rule, or both")
        self._at = found.end()
        pieces = self._value()
        # An asterisk means nothing special here, but the RFC wants it escaped; as written it is taken too.
        return Extensible(b"*".join(pieces), found["rule"], found["description"], found["in_dn"] is not None)

    def _value(self) -> list[bytes]:
        """The pieces of a value between asterisks, without escapes."""
        found = _VALUE.match(self._text, self._at)
        text = found[0] if found is not None else ""
        begin = self._at
        pieces = []
        for piece in text.split("*"):
            self._at = begin
            pieces.append(self._unescaped(piece))
            begin += len(piece) + 1
            self._parts += 1
        self._at = begin - 1
        return pieces

    def _unescaped(self, piece: str) -> bytes:
        try:
            if "\\" not in piece:
                return piece.encode()
            parts = []
            at = 0
            for escape in _ESCAPE.finditer(piece):
                if escape[1] is None:
                    self._at += escape.start()
                    raise self._wrong("a backslash stands before two hexadecimal digits")
                parts += [piece[at : escape.start()].encode(), bytes.fromhex(escape[1])]
                at = escape.end()
            return b"".join((*parts, piece[at:].encode()))
        except UnicodeEncodeError as error:
            raise self._wrong("the value is not Unicode text") from error

    def _count(self) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise self._wrong(f"it has more than {PARTS_MAX} parts")

    def _expect(self, sign: str) -> None:
        if self._text[self._at : self._at + 1] != sign:
            raise self._wrong(f"{sign!r} is expected")
        self._at += 1

    def _skip_space(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found is not None else self._at

    def _wrong(self, problem: str) -> InvalidFilter:
        return InvalidFilter(self._text, self._at, problem)


# --- writing


def filter_text(filter_: Filter) -> str:
    """The filter as text that is read back as it was."""
    match filter_:
        case And(operands):
            return f"(&{''.join(map(filter_text, operands))})"
        case Or(operands):
            return f"(|{''.join(map(filter_text, operands))})"
        case Not(operand):
            return f"(!{filter_text(operand)})"
        case Equality(description, value):
            return f"({description}={_escaped(value)})"
        case GreaterOrEqual(description, value):
            return f"({description}>={_escaped(value)})"
        case LessOrEqual(description, value):
            return f"({description}<={_escaped(value)})"
        case Approximate(description, value):
            return f"({description}~={_escaped(value)})"
        case Present(description):
            return f"({description}=*)"
        case Substrings(description, initial, anywhere, final):
            pieces = (initial or b"", *anywhere, final or b"")
            return f"({description}={'*'.join(map(_escaped, pieces))})"
        case Extensible(value, rule, description, in_dn):
            name = f"{description or ''}{':dn' if in_dn else ''}{f':{rule}' if rule is not None else ''}"
            return f"({name}:={_escaped(value)})"


_SPECIAL: Final = re.compile(r"[()*\\\x00-\x1f\x7f]")


def _escaped(value: bytes) -> str:
    text = value.decode("utf-8", "surrogateescape")
    escaped = _SPECIAL.sub(lambda found: f"\\{ord(found[0]):02x}", text)
    if escaped.isascii():
        return escaped
    return "".join(f"\\{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else c for c in escaped)
