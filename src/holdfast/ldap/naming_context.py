"""One suffix behind a door: its replica, who may do what in it, and where its changes are confirmed.

A door serves several. Whatever has a name in it belongs to one of them; each has a replica, a generator of
CSNs and access rules of its own, and nothing is carried out in two at once.
"""

from collections.abc import Callable
from typing import Protocol

from holdfast.directory.replica.access import AccessRules, Identity
from holdfast.directory.replica.commit_times import CommitTimes
from holdfast.directory.replica.replica import Replica
from holdfast.model.csn import Csn
from holdfast.model.errors import HoldfastError


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


class NamingContext:
    """RFC 4512's word for a suffix and all below it."""

    def __init__(
        self,
        replica: Replica,
        now: Callable[[], float],
        second_store: SecondStore | None,
        *,
        anonymous_read: bool,
    ) -> None:
        self.replica = replica
        self.suffix = replica.suffix_name
        self.second_store = second_store
        self.times = CommitTimes(replica.generator.assignments, now)
        self._rules = AccessRules(anonymous_read=anonymous_read)
        self._rules_of = -1

    def csnstate(self) -> str:
        """One value for each suffix, as each has a generator of its own."""
        replica = self.replica
        return f"{replica.generator.csnstate()} replica={replica.id} suffix={self.suffix.text}"

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

    def is_administrator(self, identity: Identity, key: bytes) -> bool:
        return self.rules.is_administrator(identity, key)
