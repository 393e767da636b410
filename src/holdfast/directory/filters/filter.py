"""The search filter as a tree (RFC 4511, 4.5.1.7).

A tree is made from text (:mod:`.text`) or from BER (:mod:`holdfast.ldap.filter_ber`), both of which
keep its depth and size within the bounds here, so that walking it needs no bound of its own.
:mod:`.evaluation` says what it means for an entry.
"""

from typing import Final

from msgspec import Struct

DEPTH_MAX: Final = 100
"""How deep a filter may nest. People's filters nest five deep; the bound keeps recursion short."""

PARTS_MAX: Final = 10_000
"""How many parts a filter may have. Programs that list ids send thousands in one ``(|...)``."""


class And(Struct, frozen=True):
    """All hold; without operands it is true (RFC 4526)."""

    operands: tuple["Filter", ...]


class Or(Struct, frozen=True):
    """At least one holds; without operands it is false (RFC 4526)."""

    operands: tuple["Filter", ...]


class Not(Struct, frozen=True):
    operand: "Filter"


class Equality(Struct, frozen=True):
    description: str
    value: bytes


class GreaterOrEqual(Struct, frozen=True):
    description: str
    value: bytes


class LessOrEqual(Struct, frozen=True):
    description: str
    value: bytes


class Approximate(Struct, frozen=True):
    """``~=``: which values sound alike is up to the server; here they are those that are equal."""

    description: str
    value: bytes


class Present(Struct, frozen=True):
    description: str


class Substrings(Struct, frozen=True):
    """``initial*any*any*final``; at least one piece is there, and no piece is empty."""

    description: str
    initial: bytes | None = None
    any: tuple[bytes, ...] = ()
    final: bytes | None = None


class Extensible(Struct, frozen=True):
    """A match by a rule that the client names; without a description, in every attribute it fits."""

    value: bytes
    rule: str | None = None
    description: str | None = None
    in_dn: bool = False
    """Whether the parts of the entry's name count as its attributes too."""


Filter = (
    And | Or | Not | Equality | Substrings | GreaterOrEqual | LessOrEqual | Present | Approximate | Extensible
)

PRESENT_CLASS: Final = Present("objectClass")
"""``(objectClass=*)``, which every entry matches: what a search for everything sends."""
