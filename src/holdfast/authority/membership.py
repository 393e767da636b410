"""Joining and leaving the control plane, and listing its members (the ns-server calls of IM section K).

No host joins or leaves while a transaction is open. Joining and leaving compare the transaction they found
closed, and opening a transaction compares the guard they change, so whichever comes second is refused
(IM-34).
"""

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Absent, Applied, Delete, LeaseGone
from holdfast.authority.control_records import INDEXER, MANAGER, Member, Standing, Transaction, read_standing
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    Guard,
    InDoubt,
    Recipe,
    Removed,
    Seen,
    answering,
    change,
    put,
    read,
)
from holdfast.authority.sessions import NoSession, Session, find_session
from holdfast.model.ids import HostId, Incarnation, Nonce


class Held(msgspec.Struct, frozen=True, tag="held"):
    """A transaction is open; join or leave when it has ended."""

    transaction: Transaction


class NotJoined(msgspec.Struct, frozen=True, tag="not_joined"):
    """That process is not a member of the control plane."""

    host: HostId
    incarnation: Incarnation


@answering
def join(
    session: Session, *, roles: tuple[str, ...] = (MANAGER,), context_cas: int, nonce: Nonce
) -> Recipe[Seen[Member] | Held | NoSession | Contended | InDoubt]:
    """Make *session*'s host a member while the session lives, replacing the entry of an earlier process."""
    key = keys.member(session.host)
    for _ in range(ATTEMPTS_MAX):
        standing = yield from read_standing()
        found = standing.member(session.host)
        if found is not None and found.value.nonce == nonce:
            return found
        live = yield from find_session(session.host, session.incarnation)
        if isinstance(live, NoSession):
            return live
        if standing.open_transaction is not None:
            return Held(standing.open_transaction)
        member = Member(
            host=session.host,
            incarnation=session.incarnation,
            address=session.address,
            roles=roles,
            context_cas=context_cas,
            nonce=nonce,
        )
        result = yield from change(
            [
                Absent(key) if found is None else found.unchanged(),
                live.unchanged(),
                standing.last.unchanged(),
                standing.guard.unchanged(),
            ],
            [put(key, member, lease=live.lease), put(keys.MEMBERSHIP_GUARD, Guard(nonce=nonce))],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(key, member, result.revision, live.lease)
        if isinstance(result, LeaseGone):
            return NoSession(session.host, session.incarnation)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the joining of {session.host}")


@answering
def leave(
    host: HostId, incarnation: Incarnation, *, nonce: Nonce
) -> Recipe[Removed | Held | Contended | InDoubt]:
    """Remove that process from the members; the entry of a later process of the host stays."""
    for _ in range(ATTEMPTS_MAX):
        standing = yield from read_standing()
        found = standing.member(host)
        if found is None or found.value.incarnation != incarnation:
            return Removed()
        if standing.open_transaction is not None:
            return Held(standing.open_transaction)
        result = yield from change(
            [found.unchanged(), standing.last.unchanged()],
            [Delete(found.key), put(keys.MEMBERSHIP_GUARD, Guard(nonce=nonce))],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Removed()
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the leaving of {host}")


@answering
def declare_context(
    host: HostId, incarnation: Incarnation, *, context_cas: int, nonce: Nonce
) -> Recipe[Seen[Member] | NotJoined | Contended | InDoubt]:
    """Declare that this process now holds the context of *context_cas*, durable and settled (T3)."""
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.member(host), Member)
        if found.value is None or found.value.incarnation != incarnation:
            return NotJoined(host, incarnation)
        if found.value.nonce == nonce:
            return Seen(found.key, found.value, found.modified, found.lease)
        member = msgspec.structs.replace(found.value, context_cas=context_cas, nonce=nonce)
        result = yield from change(
            [found.unchanged()], [put(found.key, member, lease=found.lease)], nonce=nonce
        )
        if isinstance(result, Applied):
            return Seen(found.key, member, result.revision, found.lease)
        if isinstance(result, LeaseGone):
            return NotJoined(host, incarnation)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the declaration of {host}")


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The current members of the control plane (IM-58), read again each time and never cached."""

    masterAddr: str
    """The coordinator's address; empty when none is elected."""
    replicas: tuple[str, ...]
    nodes: tuple[str, ...]


def cluster_of(standing: Standing) -> Cluster:
    coordinator = standing.coordinator()
    return Cluster(
        masterAddr="" if coordinator is None else coordinator.value.address,
        replicas=_addresses(standing, MANAGER, without=coordinator),
        nodes=_addresses(standing, INDEXER),
    )


def _addresses(standing: Standing, role: str, without: Seen[Member] | None = None) -> tuple[str, ...]:
    return tuple(
        each.value.address for each in standing.members if role in each.value.roles and each != without
    )


@answering
def read_cluster() -> Recipe[Cluster]:
    return cluster_of((yield from read_standing()))


@answering
def get_index_coordinator() -> Recipe[str]:
    """GetIndexCoordinator: the elected coordinator's address; empty when there is none (IM-120)."""
    return cluster_of((yield from read_standing())).masterAddr


@answering
def get_index_coordinator_replicas() -> Recipe[tuple[str, ...]]:
    """GetIndexCoordinatorReplicas: the addresses of all other active managers (IM-121)."""
    return cluster_of((yield from read_standing())).replicas


@answering
def get_indexer_nodes() -> Recipe[tuple[str, ...]]:
    """GetIndexerNodes: the addresses of all active indexers (IM-122)."""
    return cluster_of((yield from read_standing())).nodes
