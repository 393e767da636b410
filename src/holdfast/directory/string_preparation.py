"""Strings prepared for comparison, as RFC 4518 says: mapped, case folded, normalised, spaces made alike.

Two masters must agree for ever on whether two values are equal, whatever Python each runs on. So all tables
are those of Unicode 3.2, which the RFC names and Python keeps unchanged; characters that came later are
compared as they are. The RFC refuses them, and some others; here every text can be prepared, because a value
that could not be compared could be neither found nor deleted.
"""

import re
import stringprep
from collections.abc import Callable
from typing import Final
from unicodedata import ucd_3_2_0 as unicode_3_2

_ASCII_NOTHING: Final = dict.fromkeys([*range(9), *range(0x0E, 0x20), 0x7F])
_SPACES: Final = re.compile(" +")

COMBINING_MAX: Final = 30
"""How many combining characters in a row are put in order together, as Unicode's stream-safe text has it.
Python takes the square of their number, and a client could send half a million."""

_NOTHING_ALSO: Final = frozenset({"\u00ad", "\u1806", "\u034f", "\u200b", "\ufffc"})
"""Characters that RFC 4518 (2.2) maps to nothing and that no table of stringprep has under that heading."""


class _Mapping(dict[int, str]):
    """What each character becomes before normalisation, found out when it is first met.

    It holds at most the characters of Unicode 3.2, a hundred thousand, and in practice those that are used.
    """

    def __init__(self, becomes: Callable[[str], str]) -> None:
        self._becomes = becomes

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if unicode_3_2.category(character) == "Cn":
            raise LookupError(code)  # str.translate then leaves it as it is
        found = self[code] = self._becomes(character)
        return found


def _folded(character: str) -> str:
    return _mapped(character, stringprep.map_table_b2)


def _kept(character: str) -> str:
    return _mapped(character, str)


def _mapped(character: str, fold: Callable[[str], str]) -> str:
    category = unicode_3_2.category(character)
    if character in "\t\n\v\f\r\u0085":
        return " "
    if character not in _NOTHING_ALSO and category in ("Zs", "Zl", "Zp"):
        return " "
    if (
        category in ("Cc", "Cf")
        or character in _NOTHING_ALSO
        or "\ufe00" <= character <= "\ufe0f"
        or "\u180b" <= character <= "\u180d"
    ):
        return ""
    return fold(character)


def _class(character: str) -> str:
    return "M" if unicode_3_2.combining(character) else "."


_FOLDED: Final = _Mapping(_folded)
_KEPT: Final = _Mapping(_kept)
_CLASSES: Final = _Mapping(_class)
"""Which characters combine with the one before them."""

_TOO_MANY: Final = "M" * (COMBINING_MAX + 1)


def prepared(text: str, *, fold_case: bool) -> str:
    """Map, fold and normalise *text*; its spaces stay as many as they are, but all are U+0020."""
    if text.isascii():
        if not text.isprintable():
            text = _without_controls(text)
        return text.lower() if fold_case else text
    mapped = text.translate(_FOLDED if fold_case else _KEPT)
    classes = mapped.translate(_CLASSES)
    if classes.isascii() and _TOO_MANY not in classes:
        return unicode_3_2.normalize("NFKC", mapped)
    # Characters that Unicode 3.2 lacks must not be reordered by the tables of a newer Python.
    return "".join(
        piece if later else unicode_3_2.normalize("NFKC", piece) for later, piece in _runs(mapped, classes)
    )


def _without_controls(text: str) -> str:
    for each in "\t\n\v\f\r":
        text = text.replace(each, " ")
    return text.translate(_ASCII_NOTHING)


def _runs(text: str, classes: str) -> list[tuple[bool, str]]:
    """Cut *text* where characters that Unicode 3.2 has meet those that it lacks, and after too many marks.

    Those that it lacks are among the *classes* as they are.
    """
    return [(found[0] > "\x7f", text[found.start() : found.end()]) for found in _RUN.finditer(classes)]


_MARKS: Final = f"M{{1,{COMBINING_MAX}}}+"
_RUN: Final = re.compile(rf"[^\x00-\x7f]++|(?:\.++|{_MARKS}(?!M))++|{_MARKS}")


def comparable(text: str, *, fold_case: bool) -> str:
    """The form in which whole values are compared: no space at the ends, one between words (2.6.1)."""
    return _squeezed(prepared(text, fold_case=fold_case))


def _squeezed(text: str) -> str:
    stripped = text.strip(" ")
    return _SPACES.sub(" ", stripped) if "  " in stripped else stripped


def searchable(text: str, *, fold_case: bool) -> str:
    """The form in which pieces are looked for: one space at each end, two between words (2.6.1).

    With two, ``(cn=john *)`` and ``(cn=* smith)`` both find their space in ``John Smith``, also together.
    """
    words = _squeezed(prepared(text, fold_case=fold_case))
    return f" {words.replace(' ', '  ')} " if words else "  "


def piece(text: str, *, fold_case: bool, is_initial: bool = False, is_final: bool = False) -> str:
    """A piece of a substring assertion, to be looked for in a :func:`searchable` value."""
    found = prepared(text, fold_case=fold_case)
    words = _squeezed(found)
    if not words:
        return " "
    begins = is_initial or found[0] == " "
    ends = is_final or found[-1] == " "
    return f"{' ' if begins else ''}{words.replace(' ', '  ')}{' ' if ends else ''}"


def without_spaces(text: str) -> str:
    """The form of numeric strings, in which spaces mean nothing (2.6.2)."""
    return prepared(text, fold_case=False).replace(" ", "")


_HYPHENS: Final = re.compile("[- \u058a\u2010\u2011\u2212\ufe63\uff0d]")


def without_hyphens(text: str) -> str:
    """The form of telephone numbers, in which spaces and hyphens mean nothing (2.6.3)."""
    return _HYPHENS.sub("", prepared(text, fold_case=True))
