"""What a client may ask of the directory, as values.

The LDAP door decodes requests into these, LDIF change records are made of them, and a replica executes them.
Names are kept as the client wrote them (:mod:`.dn` reads them), so that a wrong one is answered and not lost.
Values are bytes: what they mean is up to the schema.
"""

from enum import IntEnum

from msgspec import Struct

from holdfast.directory.filters.filter import Filter


class Attribute(Struct, frozen=True):
    """An attribute description, such as ``cn`` or ``description;lang-de``, with values."""

    description: str
    values: tuple[bytes, ...]


class Scope(IntEnum):
    """How far below its base a search looks."""

    BASE = 0
    ONE_LEVEL = 1
    SUBTREE = 2
    SUBORDINATES = 3
    """All below the base, without the base itself (a draft that clients use; RFC 4511 leaves room for it)."""


class AliasDereferencing(IntEnum):
    """When a search follows aliases."""

    NEVER = 0
    IN_SEARCHING = 1
    FINDING_BASE = 2
    ALWAYS = 3


class ModificationKind(IntEnum):
    """What one modification does with its values."""

    ADD = 0
    DELETE = 1
    REPLACE = 2
    INCREMENT = 3
    """RFC 4525: every value is an integer and grows by the one given."""


class Modification(Struct, frozen=True):
    """One step of a modify request; a delete or replace without values means the whole attribute."""

    kind: ModificationKind
    description: str
    values: tuple[bytes, ...] = ()


class SearchRequest(Struct, frozen=True):
    """Look for entries. Limits of 0 mean that the client sets none."""

    base: str
    scope: Scope
    filter: Filter
    attributes: tuple[str, ...] = ()
    """Which to return; none means all user attributes."""
    dereference: AliasDereferencing = AliasDereferencing.NEVER
    size_limit: int = 0
    time_limit_s: int = 0
    types_only: bool = False


class CompareRequest(Struct, frozen=True):
    """Ask whether an attribute of the entry has a value."""

    dn: str
    description: str
    value: bytes


class AddRequest(Struct, frozen=True):
    dn: str
    attributes: tuple[Attribute, ...]


class DeleteRequest(Struct, frozen=True):
    dn: str


class ModifyRequest(Struct, frozen=True):
    """Change an entry: all modifications take effect, in order, or none."""

    dn: str
    changes: tuple[Modification, ...]


class ModifyDnRequest(Struct, frozen=True):
    """Rename an entry, or move it (with all below it) under another superior."""

    dn: str
    new_rdn: str
    delete_old_rdn: bool
    new_superior: str | None = None


Change = AddRequest | DeleteRequest | ModifyRequest | ModifyDnRequest
