"""Who may do what: access rules of a first kind, which are attributes of entries and replicate as such.

- ``anonymousRead`` of an entry says whether clients that have not bound may read it and what is below it; the
  nearest one above an entry counts. Without any, the server's setting does.
- ``administrator`` of an entry names who may change it and what is below it: persons, or groups of them.
- Whoever has bound may read all entries, and change the own password.
- Nobody but administrators sees password hashes and CSNs.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.directory.dn import Dn, is_below
from holdfast.directory.filters.filter import Present
from holdfast.directory.replica.planning import candidates
from holdfast.directory.replica.snapshot import Snapshot
from holdfast.directory.results import DirectoryError

RULES_MAX: Final = 10_000
"""How many entries may have rules: each request looks at them all."""

RULE_ATTRIBUTES: Final = ("anonymousread", "administrator", "member", "uniquemember")
"""Attributes on which the rules depend, under the names that changes have for them."""

SECRET: Final = ("userPassword",)
INTERNAL: Final = ("lastModifiedCSN", "conflict")


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a connection has proved to be."""

    dn: str = ""
    key: bytes = b""
    """The name's key; empty for anonymous."""
    is_server: bool = False
    """The server itself: it may do everything."""

    @property
    def is_anonymous(self) -> bool:
        return not self.key and not self.is_server


ANONYMOUS: Final = Identity()
SERVER: Final = Identity("cn=config", b"", is_server=True)


class AccessRules:
    """The rules as one snapshot has them."""

    def __init__(self, *, anonymous_read: bool = True) -> None:
        self._default = anonymous_read
        self._anonymous: list[tuple[bytes, bool]] = []
        self._administrators: list[tuple[bytes, dict[bytes, None]]] = []
        self._administered: dict[bytes, tuple[bytes, ...]] = {}
        """The keys of the names below which someone may change everything, by the key of that one's name."""

    def load(self, snapshot: Snapshot) -> None:
        """Read the rules of *snapshot*; they stay until this is called again."""
        self._anonymous = []
        self._administrators = []
        self._administered = {}
        for attribute in ("anonymousRead", "administrator"):
            plan = candidates(Present(attribute), snapshot.schema, snapshot.reader)
            for entry in () if plan is None else plan.entries[:RULES_MAX]:
                view = snapshot.view(entry)
                values = () if view is None else view.operational().get(attribute, ())
                if view is None or not values:
                    continue
                if attribute == "anonymousRead":
                    self._anonymous.append((view.dn_key, values[0].upper() == b"TRUE"))
                else:
                    self._administrators.append((view.dn_key, _persons(snapshot, values)))
        # The longest key that a name begins with is that of the nearest superior.
        self._anonymous.sort(key=lambda rule: -len(rule[0]))

    def may_read(self, identity: Identity, key: bytes) -> bool:
        if not identity.is_anonymous:
            return True
        for above, is_allowed in self._anonymous:
            if is_below(key, above):
                return is_allowed
        return self._default

    def is_administrator(self, identity: Identity, key: bytes) -> bool:
        """Whether *identity* may change the entry of that name."""
        if not identity.key:
            return identity.is_server
        above = self._administered.get(identity.key)
        if above is None:
            if len(self._administered) >= RULES_MAX:
                self._administered.clear()
            above = tuple(each for each, who in self._administrators if identity.key in who)
            self._administered[identity.key] = above
        # A name's key begins with those of all names above it.
        return key.startswith(above)

    @property
    def reads_everything(self) -> bool:
        """Whether nothing is hidden from anyone."""
        return self._default and not self._anonymous


def _persons(snapshot: Snapshot, names: tuple[bytes, ...]) -> dict[bytes, None]:
    """The keys of the named persons, and of the members of the named groups."""
    found: dict[bytes, None] = {}
    for each in names:
        try:
            dn = Dn.parse(each.decode("utf-8", "replace"))
            found[dn.key(snapshot.schema)] = None
            view = snapshot.view(snapshot.find(dn))
        except DirectoryError:
            continue
        for attribute in ("member", "uniqueMember"):
            for member in () if view is None else view.attributes.get(attribute, ()):
                try:
                    found[Dn.parse(member.decode("utf-8", "replace")).key(snapshot.schema)] = None
                except DirectoryError:
                    continue
    return found
