"""What all connections of one door share: the suffixes that it serves, bounds, and a few ports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from holdfast.directory.dn import Dn
from holdfast.directory.operations import Scope
from holdfast.directory.replica.access import Identity
from holdfast.directory.replica.replica import Replica
from holdfast.directory.replica.snapshot import Snapshot
from holdfast.directory.replica.view import Attributes
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap.config_entries import ConfigEntries, may_find_conflicts
from holdfast.ldap.limits import DoorLimits
from holdfast.ldap.naming_context import NamingContext, SecondStore
from holdfast.ldap.rendering import Selection
from holdfast.ldap.server_entries import ServerEntries

SELECTIONS_MAX: Final = 1_000
"""How many different lists of attributes are kept ready."""


NAMES_MAX: Final = 20_000
"""How many names are kept read."""
NAME_KEPT_MAX: Final = 512
"""How long such a name is at most."""


class NamedDn(NamedTuple):
    """A name as a client wrote it, read."""

    dn: Dn
    key: bytes
    is_server_s: bool
    """Whether it is one of the server's own entries."""
    context: NamingContext
    """The suffix that it is below; any if it is below none."""


class Hasher(Protocol):
    """Does work with passwords off the loop; there is a bound on how much may wait."""

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None]) -> bool:
        """Do *work* on another thread and call *then* with its result on the loop. False if too much waits:
        then nothing is done."""
        ...


@dataclass(frozen=True, slots=True)
class DoorPorts:
    """What a door needs of its machine."""

    now: Callable[[], float]
    """Seconds that only grow."""
    random_bytes: Callable[[int], bytes]
    hasher: Hasher
    note: Callable[..., None]
    """Writes a line of the log: a word, and fields. Never a password."""


@dataclass(frozen=True, slots=True)
class DoorPolicy:
    """What the door demands of clients."""

    anonymous_read: bool = True
    """Whether clients that have not bound may read where no entry says otherwise."""
    require_tls: bool = False
    """Whether passwords are taken over TLS alone."""
    password_rounds: int = 100_000
    """How often new passwords are hashed."""


DEFAULT_POLICY: Final = DoorPolicy()


class Service:
    """The suffixes behind one door, each a naming context of its own, and what all connections share.

    Begins with one; more may come (:meth:`add`). A suffix leaves only with the whole service, because
    searches hold its snapshots.
    """

    def __init__(
        self,
        replica: Replica,
        ports: DoorPorts,
        limits: DoorLimits,
        policy: DoorPolicy,
        version: str,
        second_store: SecondStore | None = None,
    ) -> None:
        """*replica* is the first one; *second_store* is its, None for a directory of one master alone."""
        limits.validate()
        self.schema = replica.schema
        self.ports = ports
        self.limits = limits
        self.policy = policy
        self.contexts: tuple[NamingContext, ...] = ()
        self.searches = 0
        """How many hold a snapshot now."""
        self.pages = 0
        self.operations = 0
        self.connections = 0
        self._selections: dict[object, Selection] = {}
        self._names: dict[str, NamedDn] = {}
        self.add(replica, second_store)
        self.config = ConfigEntries(lambda: self.contexts)
        self.entries = ServerEntries(
            replica.schema,
            lambda: tuple(each.suffix.text for each in self.contexts),
            lambda: tuple(each.csnstate() for each in self.contexts),
            version,
        )

    def add(self, replica: Replica, second_store: SecondStore | None = None) -> None:
        """Serve one more suffix."""
        made = NamingContext(replica, self.ports.now, second_store, anonymous_read=self.policy.anonymous_read)
        # In the order of their names, so that a host that starts again says the same.
        self.contexts = tuple(sorted((*self.contexts, made), key=lambda each: each.suffix.text))
        self._names.clear()  # some may be below it

    def name(self, text: str) -> NamedDn:
        """A name that a client wrote, with its key. Programs ask about the same names again and again."""
        found = self._names.get(text)
        if found is None:
            dn = Dn.parse(text)
            context = self._context_of(dn)
            found = NamedDn(
                dn,
                context.suffix.key_of(dn, self.schema),
                self.entries.is_below_config(dn) or not dn.rdns,
                context,
            )
            if len(self._names) >= NAMES_MAX:
                for each in list(self._names)[: NAMES_MAX // 8]:
                    del self._names[each]
            if len(text) <= NAME_KEPT_MAX:
                self._names[text] = found
        return found

    def _context_of(self, dn: Dn) -> NamingContext:
        """Of suffixes below each other, the nearest above the name."""
        if len(self.contexts) == 1:
            return self.contexts[0]
        above = [each for each in self.contexts if each.suffix.covers(dn, self.schema)]
        return max(above, key=lambda each: len(each.suffix.dn), default=self.contexts[0])

    def snapshot(self, context: NamingContext) -> Snapshot:
        """A snapshot for a search, which must give it back with :meth:`release`."""
        if self.searches >= self.limits.searches:
            raise DirectoryError(ResultCode.BUSY, f"{self.searches} searches are under way; try again")
        snapshot = context.replica.snapshot()
        self.searches += 1
        return snapshot

    def release(self, snapshot: Snapshot) -> None:
        self.searches -= 1
        snapshot.close()

    def selection(self, attributes: tuple[str, ...], *, types_only: bool, sees_all: bool) -> Selection:
        key = (attributes, types_only, sees_all)
        found = self._selections.get(key)
        if found is None:
            if len(self._selections) >= SELECTIONS_MAX:
                self._selections.clear()
            found = Selection(self.schema, attributes, types_only=types_only, sees_all=sees_all)
            self._selections[key] = found
        return found

    def identity(self, dn: Dn) -> Identity:
        return Identity(str(dn), dn.key(self.schema))

    def administered(self, identity: Identity) -> tuple[NamingContext, ...]:
        """The suffixes that someone administers from their tops."""
        return tuple(each for each in self.contexts if each.rules.is_administrator(identity, each.suffix.key))

    def entries_below_config(self, identity: Identity, dn: Dn, scope: Scope) -> dict[str, Attributes]:
        """What a search from *dn* may find below ``cn=config``, besides the entries that each server has; by
        name. Raises ``DirectoryError`` for whoever administers nothing."""
        if not self.entries.is_private(dn):
            return {}
        administered = self.administered(identity)
        if not administered:
            raise DirectoryError(
                ResultCode.INSUFFICIENT_ACCESS_RIGHTS, "only administrators may read the server's own entries"
            )
        return self.config.entries(administered, has_conflicts=may_find_conflicts(dn, scope))
