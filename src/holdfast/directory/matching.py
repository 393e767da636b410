"""The matching rules of RFC 4517 that clients use, as functions from values to *keys*.

By an equality rule two values match if their keys are the same bytes; by an ordering rule they are in the
order of their keys; by a substrings rule the prepared pieces are looked for, in order, in the key. So keys
can stand in an index as they are. A value that a rule cannot read raises :class:`NotComparable`, which a
search takes for *undefined*.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from holdfast.directory import syntaxes
from holdfast.directory.dn import Dn, Vocabulary
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.directory.string_preparation import (
    comparable,
    piece,
    searchable,
    without_hyphens,
    without_spaces,
)


class NotComparable(ValueError):
    """Raised when a matching rule cannot read a value; the text says why."""


class RuleKind(Enum):
    EQUALITY = "equality"
    ORDERING = "ordering"
    SUBSTRINGS = "substrings"


Key = Callable[[bytes, Vocabulary], bytes]


class PiecePlace(Enum):
    INITIAL = "initial"
    ANY = "any"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class MatchingRule:
    """A matching rule. Values and what they are compared with have their keys made alike."""

    oid: str
    name: str
    syntax: str
    """The OID of the syntax of what clients compare with."""
    kind: RuleKind
    key: Key
    piece: Callable[[bytes, PiecePlace], bytes] | None = None
    """Of a substrings rule: how a piece is prepared."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The prepared pieces of a substring assertion."""

    initial: bytes
    anywhere: tuple[bytes, ...]
    final: bytes

    def are_in(self, key: bytes) -> bool:
        """Whether all are there in their order, none within another."""
        if not key.startswith(self.initial) or not key.endswith(self.final):
            return False
        at = len(self.initial)
        end = len(key) - len(self.final)
        for each in self.anywhere:
            found = key.find(each, at, end)
            if found < 0:
                return False
            at = found + len(each)
        return at <= end


def prepared_pieces(
    rule: MatchingRule, initial: bytes | None, anywhere: tuple[bytes, ...], final: bytes | None
) -> Pieces:
    if rule.piece is None:
        raise NotComparable(f"{rule.name} is no rule for substrings")
    return Pieces(
        b"" if initial is None else rule.piece(initial, PiecePlace.INITIAL),
        tuple(rule.piece(each, PiecePlace.ANY) for each in anywhere),
        b"" if final is None else rule.piece(final, PiecePlace.FINAL),
    )


def substring_assertion(text: bytes) -> tuple[bytes | None, tuple[bytes, ...], bytes | None]:
    """Take ``initial*any*final`` apart, in which an asterisk of its own is written ``\\2A``."""
    if b"*" not in text:
        raise NotComparable("a substring assertion has at least one asterisk")
    parts = [
        _ASSERTION_ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), each)
        for each in text.split(b"*")
    ]
    return parts[0] or None, tuple(filter(None, parts[1:-1])), parts[-1] or None


_ASSERTION_ESCAPE: Final = re.compile(rb"\\(2[Aa]|5[Cc])")


# --- keys


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise NotComparable("the value is not UTF-8") from error


def _ascii(value: bytes) -> str:
    if not value.isascii():
        raise NotComparable("the value has characters other than ASCII")
    return value.decode("ascii")


def _case_ignore(value: bytes, vocabulary: Vocabulary) -> bytes:
    return comparable(_text(value), fold_case=True).encode()


def _case_exact(value: bytes, vocabulary: Vocabulary) -> bytes:
    return comparable(_text(value), fold_case=False).encode()


def _case_ignore_ia5(value: bytes, vocabulary: Vocabulary) -> bytes:
    return comparable(_ascii(value), fold_case=True).encode()


def _case_exact_ia5(value: bytes, vocabulary: Vocabulary) -> bytes:
    return comparable(_ascii(value), fold_case=False).encode()


def _numeric(value: bytes, vocabulary: Vocabulary) -> bytes:
    return without_spaces(_text(value)).encode()


def _telephone(value: bytes, vocabulary: Vocabulary) -> bytes:
    return without_hyphens(_text(value)).encode()


def _list_lines(value: bytes) -> list[str]:
    try:
        return syntaxes.address_lines(_text(value))
    except ValueError as error:
        raise NotComparable(str(error)) from error


def _case_ignore_list(value: bytes, vocabulary: Vocabulary) -> bytes:
    # No prepared line has a line feed, so lists that differ only in where lines end stay apart.
    return "\n".join(comparable(each, fold_case=True) for each in _list_lines(value)).encode()


def _searchable_list(value: bytes, vocabulary: Vocabulary) -> bytes:
    return "\n".join(searchable(each, fold_case=True) for each in _list_lines(value)).encode()


def _boolean(value: bytes, vocabulary: Vocabulary) -> bytes:
    if (upper := value.upper()) not in (b"TRUE", b"FALSE"):
        raise NotComparable("a boolean is TRUE or FALSE")
    return upper


def _by_syntax(oid: str, value: bytes) -> bytes:
    fault = syntaxes.SYNTAXES[oid].fault_in(value)
    if fault is not None:
        raise NotComparable(f"the value cannot be compared: {fault}")
    return value


def integer_key(number: int) -> bytes:
    """Bytes whose order is that of integers: how many bytes follow, counted down below zero, and these."""
    if number >= 0:
        size = (number.bit_length() + 7) // 8
        return (0x8000 + size).to_bytes(2, "big") + number.to_bytes(size, "big")
    size = ((-number).bit_length() + 7) // 8
    return (0x8000 - size).to_bytes(2, "big") + ((1 << 8 * size) + number).to_bytes(size, "big")


def _integer(value: bytes, vocabulary: Vocabulary) -> bytes:
    return integer_key(int(_by_syntax(syntaxes.INTEGER, value)))


def _integer_first(value: bytes, vocabulary: Vocabulary) -> bytes:
    return _integer(_first_component(value), vocabulary)


def _bits(value: bytes, vocabulary: Vocabulary) -> bytes:
    return _by_syntax(syntaxes.BIT_STRING, value)


def _octets(value: bytes, vocabulary: Vocabulary) -> bytes:
    return value


def _time(value: bytes, vocabulary: Vocabulary) -> bytes:
    try:
        return syntaxes.time_key(value)
    except ValueError as error:
        raise NotComparable(f"the value cannot be compared: {error}") from error


def _uuid(value: bytes, vocabulary: Vocabulary) -> bytes:
    return _by_syntax(syntaxes.UUID, value).lower().replace(b"-", b"")


def _oid(value: bytes, vocabulary: Vocabulary) -> bytes:
    text = _text(value).strip(" ")
    return (vocabulary.oid_of(text) or text.lower()).encode()


def _first_component(value: bytes) -> bytes:
    """The first component of a description in parentheses; what a client compares with has none."""
    return value.lstrip(b" (").split(b" ", 1)[0] if value.lstrip(b" ").startswith(b"(") else value


def _oid_first(value: bytes, vocabulary: Vocabulary) -> bytes:
    return _oid(_first_component(value), vocabulary)


def _text_first(value: bytes, vocabulary: Vocabulary) -> bytes:
    return _case_ignore(_first_component(value), vocabulary)


def _name(text: str, vocabulary: Vocabulary) -> bytes:
    try:
        return Dn.parse(text).key(vocabulary)
    except DirectoryError as error:
        if error.result != ResultCode.INVALID_DN_SYNTAX:
            raise
        raise NotComparable(error.diagnostic) from error


def _dn(value: bytes, vocabulary: Vocabulary) -> bytes:
    return _name(_text(value), vocabulary)


def _unique_member(value: bytes, vocabulary: Vocabulary) -> bytes:
    name, bits = syntaxes.split_unique_member(_text(value))
    return _name(name, vocabulary) + bits.encode()


# --- what is looked for in by substrings


def _searchable(fold_case: bool, read: Callable[[bytes], str]) -> Key:
    return lambda value, vocabulary: searchable(read(value), fold_case=fold_case).encode()


def _piece(fold_case: bool, read: Callable[[bytes], str]) -> Callable[[bytes, PiecePlace], bytes]:
    def prepare(value: bytes, place: PiecePlace) -> bytes:
        return piece(
            read(value),
            fold_case=fold_case,
            is_initial=place is PiecePlace.INITIAL,
            is_final=place is PiecePlace.FINAL,
        ).encode()

    return prepare


def _numeric_piece(value: bytes, place: PiecePlace) -> bytes:
    return without_spaces(_text(value)).encode()


def _telephone_piece(value: bytes, place: PiecePlace) -> bytes:
    return without_hyphens(_text(value)).encode()


def _octets_piece(value: bytes, place: PiecePlace) -> bytes:
    return value


_EQUALITY, _ORDERING, _SUBSTRINGS = RuleKind.EQUALITY, RuleKind.ORDERING, RuleKind.SUBSTRINGS
_TEXT, _IA5, _NUMERIC = syntaxes.DIRECTORY_STRING, syntaxes.IA5_STRING, syntaxes.NUMERIC_STRING
_PIECES: Final = syntaxes.SUBSTRING_ASSERTION

RULES: Final = (
    MatchingRule("2.5.13.0", "objectIdentifierMatch", syntaxes.OID, _EQUALITY, _oid),
    MatchingRule("2.5.13.1", "distinguishedNameMatch", syntaxes.DN, _EQUALITY, _dn),
    MatchingRule("2.5.13.2", "caseIgnoreMatch", _TEXT, _EQUALITY, _case_ignore),
    MatchingRule("2.5.13.3", "caseIgnoreOrderingMatch", _TEXT, _ORDERING, _case_ignore),
    MatchingRule(
        "2.5.13.4",
        "caseIgnoreSubstringsMatch",
        _PIECES,
        _SUBSTRINGS,
        _searchable(True, _text),
        _piece(True, _text),
    ),
    MatchingRule("2.5.13.5", "caseExactMatch", _TEXT, _EQUALITY, _case_exact),
    MatchingRule("2.5.13.6", "caseExactOrderingMatch", _TEXT, _ORDERING, _case_exact),
    MatchingRule(
        "2.5.13.7",
        "caseExactSubstringsMatch",
        _PIECES,
        _SUBSTRINGS,
        _searchable(False, _text),
        _piece(False, _text),
    ),
    MatchingRule("2.5.13.8", "numericStringMatch", _NUMERIC, _EQUALITY, _numeric),
    MatchingRule("2.5.13.9", "numericStringOrderingMatch", _NUMERIC, _ORDERING, _numeric),
    MatchingRule("2.5.13.10", "numericStringSubstringsMatch", _PIECES, _SUBSTRINGS, _numeric, _numeric_piece),
    MatchingRule("2.5.13.11", "caseIgnoreListMatch", syntaxes.POSTAL_ADDRESS, _EQUALITY, _case_ignore_list),
    MatchingRule(
        "2.5.13.12",
        "caseIgnoreListSubstringsMatch",
        _PIECES,
        _SUBSTRINGS,
        _searchable_list,
        _piece(True, _text),
    ),
    MatchingRule("2.5.13.13", "booleanMatch", syntaxes.BOOLEAN, _EQUALITY, _boolean),
    MatchingRule("2.5.13.14", "integerMatch", syntaxes.INTEGER, _EQUALITY, _integer),
    MatchingRule("2.5.13.15", "integerOrderingMatch", syntaxes.INTEGER, _ORDERING, _integer),
    MatchingRule("2.5.13.16", "bitStringMatch", syntaxes.BIT_STRING, _EQUALITY, _bits),
    MatchingRule("2.5.13.17", "octetStringMatch", syntaxes.OCTET_STRING, _EQUALITY, _octets),
    MatchingRule("2.5.13.18", "octetStringOrderingMatch", syntaxes.OCTET_STRING, _ORDERING, _octets),
    MatchingRule(
        "2.5.13.19", "octetStringSubstringsMatch", syntaxes.OCTET_STRING, _SUBSTRINGS, _octets, _octets_piece
    ),
    MatchingRule("2.5.13.20", "telephoneNumberMatch", syntaxes.TELEPHONE_NUMBER, _EQUALITY, _telephone),
    MatchingRule(
        "2.5.13.21", "telephoneNumberSubstringsMatch", _PIECES, _SUBSTRINGS, _telephone, _telephone_piece
    ),
    MatchingRule("2.5.13.23", "uniqueMemberMatch", syntaxes.NAME_AND_OPTIONAL_UID, _EQUALITY, _unique_member),
    MatchingRule("2.5.13.27", "generalizedTimeMatch", syntaxes.GENERALIZED_TIME, _EQUALITY, _time),
    MatchingRule("2.5.13.28", "generalizedTimeOrderingMatch", syntaxes.GENERALIZED_TIME, _ORDERING, _time),
    MatchingRule("2.5.13.29", "integerFirstComponentMatch", syntaxes.INTEGER, _EQUALITY, _integer_first),
    MatchingRule("2.5.13.30", "objectIdentifierFirstComponentMatch", syntaxes.OID, _EQUALITY, _oid_first),
    MatchingRule("2.5.13.31", "directoryStringFirstComponentMatch", _TEXT, _EQUALITY, _text_first),
    MatchingRule("1.3.6.1.4.1.1466.109.114.1", "caseExactIA5Match", _IA5, _EQUALITY, _case_exact_ia5),
    MatchingRule("1.3.6.1.4.1.1466.109.114.2", "caseIgnoreIA5Match", _IA5, _EQUALITY, _case_ignore_ia5),
    MatchingRule(
        "1.3.6.1.4.1.1466.109.114.3",
        "caseIgnoreIA5SubstringsMatch",
        _PIECES,
        _SUBSTRINGS,
        _searchable(True, _ascii),
        _piece(True, _ascii),
    ),
    MatchingRule(
        "1.3.6.1.4.1.4203.1.2.1",
        "caseExactIA5SubstringsMatch",
        _PIECES,
        _SUBSTRINGS,
        _searchable(False, _ascii),
        _piece(False, _ascii),
    ),
    MatchingRule("1.3.6.1.1.16.2", "UUIDMatch", syntaxes.UUID, _EQUALITY, _uuid),
    MatchingRule("1.3.6.1.1.16.3", "UUIDOrderingMatch", syntaxes.UUID, _ORDERING, _uuid),
)
"""All rules there are, in the order in which the subschema lists them."""

BY_NAME: Final = {name.lower(): rule for rule in RULES for name in (rule.oid, rule.name)}

OCTETS: Final = BY_NAME["octetstringmatch"]
"""The rule by which values are told apart that have no other: they are equal if all bytes are."""
