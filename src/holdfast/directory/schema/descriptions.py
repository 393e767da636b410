"""Descriptions of schema elements as text (RFC 4512, 4.1): read and written.

Fields may come in any order when they are read, as people write them; they are written in the RFC's order.
What is written is read back as it was.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final

from holdfast.directory.dn import ATTRIBUTE
from holdfast.directory.results import DirectoryError, ResultCode, quoted

DESCRIPTION_CHARS_MAX: Final = 32_768
"""How long one description may be. The longest of the standard classes has a thousand characters."""


class InvalidDescription(DirectoryError):
    """Raised when a text does not describe a schema element."""

    code = "invalid_schema_description"

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(
            ResultCode.INVALID_ATTRIBUTE_SYNTAX, f"not a schema description: {quoted(text)}: {problem}"
        )


class Usage(StrEnum):
    """What an attribute is for; all but the first are operational."""

    USER = "userApplications"
    DIRECTORY = "directoryOperation"
    DISTRIBUTED = "distributedOperation"
    SERVER = "dSAOperation"


class ClassKind(StrEnum):
    ABSTRACT = "ABSTRACT"
    STRUCTURAL = "STRUCTURAL"
    AUXILIARY = "AUXILIARY"


Extensions = dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class AttributeTypeDescription:
    """An attribute type as it is described; what it inherits is not filled in."""

    oid: str
    names: tuple[str, ...] = ()
    text: str = ""
    is_obsolete: bool = False
    superior: str | None = None
    equality: str | None = None
    ordering: str | None = None
    substrings: str | None = None
    syntax: str | None = None
    length: int | None = None
    """How long values should be able to be, at least; nothing is refused for being longer."""
    is_single_valued: bool = False
    is_collective: bool = False
    is_read_only: bool = False
    """NO-USER-MODIFICATION: the server alone sets it."""
    usage: Usage = Usage.USER
    extensions: Extensions = field(default_factory=dict)

    def __str__(self) -> str:
        length = "" if self.length is None else f"{{{self.length}}}"
        return _written(
            self.oid,
            _names(self.names),
            _quoted_field("DESC", self.text),
            "OBSOLETE" if self.is_obsolete else "",
            _field("SUP", self.superior),
            _field("EQUALITY", self.equality),
            _field("ORDERING", self.ordering),
            _field("SUBSTR", self.substrings),
            "" if self.syntax is None else f"SYNTAX {self.syntax}{length}",
            "SINGLE-VALUE" if self.is_single_valued else "",
            "COLLECTIVE" if self.is_collective else "",
            "NO-USER-MODIFICATION" if self.is_read_only else "",
            "" if self.usage is Usage.USER else f"USAGE {self.usage}",
            _extensions(self.extensions),
        )


@dataclass(frozen=True, slots=True)
class ObjectClassDescription:
    """An object class as it is described."""

    oid: str
    names: tuple[str, ...] = ()
    text: str = ""
    is_obsolete: bool = False
    superiors: tuple[str, ...] = ()
    kind: ClassKind = ClassKind.STRUCTURAL
    must: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    extensions: Extensions = field(default_factory=dict)

    def __str__(self) -> str:
        return _written(
            self.oid,
            _names(self.names),
            _quoted_field("DESC", self.text),
            "OBSOLETE" if self.is_obsolete else "",
            _oids("SUP", self.superiors),
            self.kind,
            _oids("MUST", self.must),
            _oids("MAY", self.may),
            _extensions(self.extensions),
        )


@dataclass(frozen=True, slots=True)
class MatchingRuleDescription:
    """A matching rule as it is described."""

    oid: str
    names: tuple[str, ...]
    syntax: str
    text: str = ""
    is_obsolete: bool = False
    extensions: Extensions = field(default_factory=dict)

    def __str__(self) -> str:
        return _written(
            self.oid,
            _names(self.names),
            _quoted_field("DESC", self.text),
            "OBSOLETE" if self.is_obsolete else "",
            f"SYNTAX {self.syntax}",
            _extensions(self.extensions),
        )


@dataclass(frozen=True, slots=True)
class MatchingRuleUseDescription:
    """Which attributes a matching rule can be used with."""

    oid: str
    names: tuple[str, ...]
    applies: tuple[str, ...]

    def __str__(self) -> str:
        return _written(self.oid, _names(self.names), _oids("APPLIES", self.applies))


@dataclass(frozen=True, slots=True)
class SyntaxDescription:
    oid: str
    text: str = ""
    extensions: Extensions = field(default_factory=dict)

    def __str__(self) -> str:
        return _written(self.oid, _quoted_field("DESC", self.text), _extensions(self.extensions))


# --- writing


def _written(*parts: str) -> str:
    return f"( {' '.join(filter(None, parts))} )"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\5C").replace("'", "\\27") + "'"


def _quoted_all(texts: Iterable[str]) -> str:
    quoted_texts = [_quoted(each) for each in texts]
    return quoted_texts[0] if len(quoted_texts) == 1 else f"( {' '.join(quoted_texts)} )"


def _names(names: tuple[str, ...]) -> str:
    return f"NAME {_quoted_all(names)}" if names else ""


def _field(keyword: str, value: str | None) -> str:
    return "" if value is None else f"{keyword} {value}"


def _quoted_field(keyword: str, value: str) -> str:
    return f"{keyword} {_quoted(value)}" if value else ""


def _oids(keyword: str, values: tuple[str, ...]) -> str:
    if not values:
        return ""
    return f"{keyword} {values[0]}" if len(values) == 1 else f"{keyword} ( {' $ '.join(values)} )"


def _extensions(extensions: Extensions) -> str:
    return " ".join(f"{name} {_quoted_all(values)}" for name, values in extensions.items())


# --- reading


class _Takes(Enum):
    """What stands after a keyword."""

    NOTHING = 0
    OID = 1
    OIDS = 2
    NAMES = 3
    TEXT = 4
    SYNTAX = 5


_COMMON: Final = {"NAME": _Takes.NAMES, "DESC": _Takes.TEXT, "OBSOLETE": _Takes.NOTHING}
_ATTRIBUTE: Final = {
    **_COMMON,
    "SUP": _Takes.OID,
    "EQUALITY": _Takes.OID,
    "ORDERING": _Takes.OID,
    "SUBSTR": _Takes.OID,
    "SYNTAX": _Takes.SYNTAX,
    "SINGLE-VALUE": _Takes.NOTHING,
    "COLLECTIVE": _Takes.NOTHING,
    "NO-USER-MODIFICATION": _Takes.NOTHING,
    "USAGE": _Takes.OID,
}
_CLASS: Final = {
    **_COMMON,
    "SUP": _Takes.OIDS,
    "ABSTRACT": _Takes.NOTHING,
    "STRUCTURAL": _Takes.NOTHING,
    "AUXILIARY": _Takes.NOTHING,
    "MUST": _Takes.OIDS,
    "MAY": _Takes.OIDS,
}
_RULE: Final = {**_COMMON, "SYNTAX": _Takes.SYNTAX}
_RULE_USE: Final = {**_COMMON, "APPLIES": _Takes.OIDS}
_SYNTAX: Final = {"DESC": _Takes.TEXT}

_TOKEN: Final = re.compile(r"\s*(?:([()$])|'([^']*)'|([^\s()$']+))")
_SYNTAX_LENGTH: Final = re.compile(r"([0-9.]+)(?:\{(\d{1,9})\})?", re.ASCII)
_ESCAPE: Final = re.compile(r"\\(27|5[Cc])")


def parse_attribute(text: str) -> AttributeTypeDescription:
    oid, fields, extensions = _Parser(text).fields(_ATTRIBUTE)
    syntax, length = _syntax_of(text, fields)
    usage = _one(fields, "USAGE")
    if usage is not None and usage not in list(Usage):
        raise InvalidDescription(text, f"USAGE is one of {', '.join(Usage)}, not {quoted(usage)}")
    superior = _one(fields, "SUP")
    if syntax is None and superior is None:
        raise InvalidDescription(text, "an attribute has a SYNTAX, or a SUP to inherit it from")
    return AttributeTypeDescription(
        oid,
        fields.get("NAME", ()),
        _one(fields, "DESC") or "",
        "OBSOLETE" in fields,
        superior,
        _one(fields, "EQUALITY"),
        _one(fields, "ORDERING"),
        _one(fields, "SUBSTR"),
        syntax,
        length,
        "SINGLE-VALUE" in fields,
        "COLLECTIVE" in fields,
        "NO-USER-MODIFICATION" in fields,
        Usage.USER if usage is None else Usage(usage),
        extensions,
    )


def parse_class(text: str) -> ObjectClassDescription:
    oid, fields, extensions = _Parser(text).fields(_CLASS)
    kinds = [each for each in ClassKind if each in fields]
    if len(kinds) > 1:
        raise InvalidDescription(text, f"a class is one of {', '.join(kinds)}, not several")
    return ObjectClassDescription(
        oid,
        fields.get("NAME", ()),
        _one(fields, "DESC") or "",
        "OBSOLETE" in fields,
        fields.get("SUP", ()),
        kinds[0] if kinds else ClassKind.STRUCTURAL,
        fields.get("MUST", ()),
        fields.get("MAY", ()),
        extensions,
    )


def parse_rule(text: str) -> MatchingRuleDescription:
    oid, fields, extensions = _Parser(text).fields(_RULE)
    syntax, _ = _syntax_of(text, fields)
    if syntax is None:
        raise InvalidDescription(text, "a matching rule has a SYNTAX")
    return MatchingRuleDescription(
        oid, fields.get("NAME", ()), syntax, _one(fields, "DESC") or "", "OBSOLETE" in fields, extensions
    )


def parse_rule_use(text: str) -> MatchingRuleUseDescription:
    oid, fields, _ = _Parser(text).fields(_RULE_USE)
    return MatchingRuleUseDescription(oid, fields.get("NAME", ()), fields.get("APPLIES", ()))


def parse_syntax(text: str) -> SyntaxDescription:
    oid, fields, extensions = _Parser(text).fields(_SYNTAX)
    return SyntaxDescription(oid, _one(fields, "DESC") or "", extensions)


def _one(fields: dict[str, tuple[str, ...]], keyword: str) -> str | None:
    found = fields.get(keyword)
    return found[0] if found else None


def _syntax_of(text: str, fields: dict[str, tuple[str, ...]]) -> tuple[str | None, int | None]:
    written = _one(fields, "SYNTAX")
    if written is None:
        return None, None
    found = _SYNTAX_LENGTH.fullmatch(written)
    if found is None:
        raise InvalidDescription(
            text, f"SYNTAX is an OID such as 1.2.3 or 1.2.3{{64}}, not {quoted(written)}"
        )
    return found[1], None if found[2] is None else int(found[2])


Token = tuple[str, str, str]
"""A sign, a quoted text, or a word; the other two are empty."""


class _Parser:
    """Reads one description: an OID, then keywords with what each takes."""

    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > DESCRIPTION_CHARS_MAX:
            raise InvalidDescription(text, f"it has more than {DESCRIPTION_CHARS_MAX} characters")
        self._tokens = list(self._tokenize(text.strip()))
        self._at = 0

    def _tokenize(self, text: str) -> Iterable[Token]:
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise InvalidDescription(text, f"a quote is not closed after character {at}")
            sign, quote, word = found.groups()
            yield sign or "", quote or "", word or ""
            at = found.end()

    def fields(self, known: dict[str, _Takes]) -> tuple[str, dict[str, tuple[str, ...]], Extensions]:
        self._sign("(")
        oid = self._word("an OID")
        if ATTRIBUTE.fullmatch(oid) is None:
            raise self._wrong(f"{quoted(oid)} is no OID")
        fields: dict[str, tuple[str, ...]] = {}
        extensions: Extensions = {}
        while not self._is_sign(")"):
            keyword = self._word("a keyword")
            if keyword.startswith("X-"):
                extensions[keyword] = self._quoted_list()
                continue
            takes = known.get(keyword)
            if takes is None:
                raise self._wrong(f"{quoted(keyword)} is no keyword here; there are {', '.join(known)}")
            if keyword in fields:
                raise self._wrong(f"{keyword} is there twice")
            fields[keyword] = self._taken(takes)
        self._at += 1
        if self._at < len(self._tokens):
            raise self._wrong("something is left after the last parenthesis")
        return oid, fields, extensions

    def _taken(self, takes: _Takes) -> tuple[str, ...]:
        match takes:
            case _Takes.NOTHING:
                return ()
            case _Takes.OID | _Takes.SYNTAX:
                return (self._word("an OID or a name").strip("'"),)
            case _Takes.OIDS:
                return self._oid_list()
            case _Takes.NAMES:
                names = self._quoted_list()
                for each in names:
                    if ATTRIBUTE.fullmatch(each) is None:
                        raise self._wrong(f"{quoted(each)} is no name")
                return names
            case _Takes.TEXT:
                return (self._quote(),)

    def _oid_list(self) -> tuple[str, ...]:
        if not self._is_sign("("):
            return (self._word("an OID or a name"),)
        self._at += 1
        found = [self._word("an OID or a name")]
        while self._is_sign("$"):
            self._at += 1
            found.append(self._word("an OID or a name"))
        self._sign(")")
        return tuple(found)

    def _quoted_list(self) -> tuple[str, ...]:
        if not self._is_sign("("):
            return (self._quote(),)
        self._at += 1
        found = []
        while not self._is_sign(")"):
            found.append(self._quote())
        self._at += 1
        return tuple(found)

    def _next(self) -> Token:
        if self._at >= len(self._tokens):
            raise self._wrong("it ends too early")
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _is_sign(self, sign: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at] == (sign, "", "")

    def _sign(self, sign: str) -> None:
        if self._next()[0] != sign:
            raise self._wrong(f"{sign!r} is expected")

    def _word(self, what: str) -> str:
        word = self._next()[2]
        if not word:
            raise self._wrong(f"{what} is expected")
        return word

    def _quote(self) -> str:
        sign, quote, word = self._next()
        if sign or word:
            raise self._wrong("a text in single quotes is expected")
        return _ESCAPE.sub(lambda found: "'" if found[1] == "27" else "\\", quote)

    def _wrong(self, problem: str) -> InvalidDescription:
        return InvalidDescription(self._text, f"{problem} (element {self._at})")
