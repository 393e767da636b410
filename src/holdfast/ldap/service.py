"""What all connections of one door share: the replica, the access rules, bounds, and a few ports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from holdfast.directory.dn import Dn
from holdfast.directory.replica.access import AccessRules, Identity
from holdfast.directory.replica.commit_times import CommitTimes
from holdfast.directory.replica.replica import Replica
from holdfast.directory.replica.snapshot import Snapshot
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap.config_entries import ConfigEntries
from holdfast.ldap.limits import DoorLimits
from holdfast.ldap.rendering import Selection
from holdfast.ldap.server_entries import ServerEntries
from holdfast.model.csn import Csn
from holdfast.model.errors import HoldfastError

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


class SecondStore(Protocol):
    """Another store that confirms changes (``acknowledge=2``)."""

    is_asked: bool
    """Whether every change waits for it, unless its client says otherwise."""

    def check_room(self) -> None:
        """Raise ``Overloaded`` before a change is begun that could not wait."""
        ...

    def wait(self, csn: Csn, answer: Callable[[HoldfastError | None], None]) -> None:
        """Call *answer* once, when another store has *csn*, which is committed here, or with the error that
        says that none has confirmed it in time."""
        ...


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
    """One suffix behind one door."""

    def __init__(
        self,
        replica: Replica,
        ports: DoorPorts,
        limits: DoorLimits,
        policy: DoorPolicy,
        version: str,
        second_store: SecondStore | None = None,
    ) -> None:
        """*second_store*: None for a directory of one master alone."""
        limits.validate()
        self.replica = replica
        self.schema = replica.schema
        self.ports = ports
        self.limits = limits
        self.policy = policy
        self.second_store = second_store
        self.times = CommitTimes(replica.generator.assignments, ports.now)
        self.config = ConfigEntries(replica, self.times)
        self.entries = ServerEntries(
            replica.schema, (replica.suffix,), self._csnstate, version, self.config.entries
        )
        self.searches = 0
        """How many hold a snapshot now."""
        self.pages = 0
        self.operations = 0
        self.connections = 0
        self._rules = AccessRules(anonymous_read=policy.anonymous_read)
        self._rules_of = -1
        self._selections: dict[object, Selection] = {}
        self._names: dict[str, NamedDn] = {}

    def _csnstate(self) -> str:
        """One value for each suffix, as each has a generator of its own."""
        return f"{self.replica.generator.csnstate()} replica={self.replica.id} suffix={self.replica.suffix}"

    @property
    def rules(self) -> AccessRules:
        """The access rules, as they are committed."""
        if self._rules_of != self.replica.rules_changed:
            self._rules_of = self.replica.rules_changed
            snapshot = self.replica.snapshot()
            try:
                self._rules.load(snapshot)
            finally:
                snapshot.close()
        return self._rules

    def name(self, text: str) -> NamedDn:
        """A name that a client wrote, with its key. Programs ask about the same names again and again."""
        found = self._names.get(text)
        if found is None:
            dn = Dn.parse(text)
            found = NamedDn(
                dn,
                self.replica.suffix_name.key_of(dn, self.schema),
                self.entries.is_below_config(dn) or not dn.rdns,
            )
            if len(self._names) >= NAMES_MAX:
                for each in list(self._names)[: NAMES_MAX // 8]:
                    del self._names[each]
            if len(text) <= NAME_KEPT_MAX:
                self._names[text] = found
        return found

    def snapshot(self) -> Snapshot:
        """A snapshot for a search, which must give it back with :meth:`release`."""
        if self.searches >= self.limits.searches:
            raise DirectoryError(ResultCode.BUSY, f"{self.searches} searches are under way; try again")
        snapshot = self.replica.snapshot()
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

    def is_administrator(self, identity: Identity, key: bytes) -> bool:
        return self.rules.is_administrator(identity, key)
