"""The records of the control plane: term, transaction, last committed context and members (T2, T3).

Elections and transactions decide on several of these records at once. They read all of them in one snapshot
(:func:`read_standing`), and every decision compares each record it depends on. A record that does not exist
at first is never removed once written, and every join and leave changes the guard.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import KeyValue
from holdfast.authority.identity import Floors, Identity
from holdfast.authority.recipe import Guard, Recipe, Seen, decoded, list_page, read
from holdfast.model.errors import Overloaded
from holdfast.model.ids import HostId, Incarnation, Nonce, Revision, Term

Value = TypeVar("Value")

MANAGER: Final = "manager"
"""The role of a host that may be the coordinator or follow one (IndexManager)."""
ONLOOKER: Final = "onlooker"
"""The role of a host that takes no part while there are enough managers."""
INDEXER: Final = "indexer"
"""The role of a host that stores index data (local-indexer-node)."""


class Status(StrEnum):
    """The status of a transaction. COMMIT and ROLLBACK are final."""

    INITIAL = "initial"
    COMMIT = "commit"
    ROLLBACK = "rollback"


class Participant(msgspec.Struct, frozen=True, kw_only=True):
    """A host that took part in a transaction, with the incarnation of its process at that time."""

    host: HostId
    incarnation: Incarnation


class Transaction(msgspec.Struct, frozen=True, kw_only=True, tag="transaction"):
    """One update of the state context. A CAS is never used again, not even after a rollback."""

    cas: int
    term: Term
    status: Status
    participants: tuple[Participant, ...]
    nonce: Nonce


class Member(msgspec.Struct, frozen=True, kw_only=True, tag="member"):
    """A host that has joined the control plane. The record stands under the host's session lease."""

    host: HostId
    incarnation: Incarnation
    address: str
    roles: tuple[str, ...]
    context_cas: int
    """The CAS of the durable, settled state context that this host holds; 0 if it holds none."""
    nonce: Nonce


class TermRecord(msgspec.Struct, frozen=True, kw_only=True, tag="term"):
    """The current term and the coordinator elected in it, if there is one."""

    term: Term
    coordinator: Participant | None
    address: str
    nonce: Nonce


@dataclass(frozen=True, slots=True)
class Standing:
    """One snapshot of the control plane's records."""

    term: Seen[TermRecord | None]
    last: Seen[Transaction | None]
    committed: Seen[Transaction | None]
    guard: Seen[Guard | None]
    identity: Seen[Identity | None]
    members: tuple[Seen[Member], ...]
    """Sorted by host."""

    @property
    def floors(self) -> Floors:
        return Floors() if self.identity.value is None else self.identity.value.floors

    @property
    def current_term(self) -> Term:
        return Term(0) if self.term.value is None else self.term.value.term

    @property
    def committed_cas(self) -> int:
        return 0 if self.committed.value is None else self.committed.value.cas

    @property
    def open_transaction(self) -> Transaction | None:
        last = self.last.value
        return last if last is not None and last.status is Status.INITIAL else None

    def member(self, host: HostId) -> Seen[Member] | None:
        return next((each for each in self.members if each.value.host == host), None)

    def coordinator(self) -> Seen[Member] | None:
        """The elected coordinator while that very process is a member; no later process resumes (IM-2)."""
        elected = None if self.term.value is None else self.term.value.coordinator
        found = None if elected is None else self.member(elected.host)
        if found is None or elected is None or found.value.incarnation != elected.incarnation:
            return None
        return found


def read_standing() -> Recipe[Standing]:
    """Read the snapshot. The identity is read separately, so every change that depends on it compares it."""
    identity = yield from read(keys.IDENTITY, Identity)
    page = yield from list_page(keys.CONTROL)
    if page.more:
        raise Overloaded("the control plane has more members than one list holds")
    items = {item.key: item for item in page.items}
    return Standing(
        term=_seen(items, keys.TERM, TermRecord),
        last=_seen(items, keys.LAST_TRANSACTION, Transaction),
        committed=_seen(items, keys.COMMITTED, Transaction),
        guard=_seen(items, keys.MEMBERSHIP_GUARD, Guard),
        identity=identity,
        members=tuple(decoded(item, Member) for item in page.items if item.key.startswith(keys.MEMBERS)),
    )


def _seen(items: dict[str, KeyValue], key: str, kind: type[Value]) -> Seen[Value | None]:
    item = items.get(key)
    if item is None:
        return Seen(key, None, Revision(0))
    found = decoded(item, kind)
    return Seen(key, found.value, found.modified)
