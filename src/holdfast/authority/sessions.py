"""Host sessions and their incarnations (V2), and the hosts' numbers in CSNs (S1).

A session stands under its host's lease and vanishes with it. Its incarnation is issued in the same
transaction, from a counter that is never removed, so that two processes of one host never share a number,
however they race. Opening a session replaces that of an earlier process, which finds itself replaced and
stops.

Each host also has a 16-bit number for CSNs, issued once and never to another host. Its record is never
removed, because the number stays in the CSNs of operations forever.
"""

from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied, Delete, LeaseGone
from holdfast.authority.identity import read_floors
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    InDoubt,
    Listing,
    Recipe,
    Removed,
    Seen,
    answering,
    change,
    put,
    read,
    read_all,
)
from holdfast.model.code import Code
from holdfast.model.csn import REPLICA_MAX
from holdfast.model.errors import Overloaded
from holdfast.model.host_roles import DEFAULT_ROLES
from holdfast.model.ids import HostId, Incarnation, LeaseId, Nonce, ReplicaId

LOCATION: Final = "location"
"""A key in the details of a session."""


class HostRecord(msgspec.Struct, frozen=True, kw_only=True, tag="host"):
    """The highest incarnation issued to a host, and the nonce of the opening (or closing) that took it."""

    host: HostId
    incarnation: Incarnation
    nonce: Nonce


class Session(msgspec.Struct, frozen=True, kw_only=True, tag="session"):
    """One process of a host, alive as far as the authority knows."""

    host: HostId
    incarnation: Incarnation
    address: str
    nonce: Nonce
    heartbeat_address: str = ""
    """The address of its heartbeat thread, which has its own loop and its own port."""
    agent_address: str = ""
    """The address of the agent that started it and that can prove its death (K2)."""
    agent: str = ""
    """The id of that agent. Its certificate names it, so that no other agent can speak for it."""
    details: dict[str, str] = {}
    """Facts about the host for people: pid, location, version. Members are placed by the location."""
    codes: dict[str, Code] = {}
    """The code of each class the host has, by class name (E7)."""
    roles: tuple[str, ...] = DEFAULT_ROLES
    """What the host is for (:mod:`holdfast.model.host_roles`): members are placed where their role is."""

    @property
    def location(self) -> str:
        """Where the host is, as ``rack1/m2``; its own name if it says nothing of that."""
        return self.details.get(LOCATION) or self.host


class NoSession(msgspec.Struct, frozen=True, tag="no_session"):
    """The session does not exist: its lease ended, it was closed, or a later process replaced it."""

    host: HostId
    incarnation: Incarnation


@answering
def open_session(
    host: HostId,
    *,
    lease: LeaseId,
    address: str,
    nonce: Nonce,
    heartbeat_address: str = "",
    agent_address: str = "",
    agent: str = "",
    details: dict[str, str] | None = None,
    codes: dict[str, Code] | None = None,
    roles: tuple[str, ...] = DEFAULT_ROLES,
) -> Recipe[Seen[Session] | LeaseGone | Contended | InDoubt]:
    """Issue the next incarnation of *host* and store its session under *lease*."""
    for _ in range(ATTEMPTS_MAX):
        record = yield from read(keys.host(host), HostRecord)
        if record.value is not None and record.value.nonce == nonce:
            ours = yield from find_session(host, record.value.incarnation)
            return LeaseGone(lease) if isinstance(ours, NoSession) else ours
        floors, identity = yield from read_floors()
        issued = record.value.incarnation if record.value is not None else Incarnation(0)
        incarnation = Incarnation(max(issued, floors.incarnation) + 1)
        session = Session(
            host=host,
            incarnation=incarnation,
            address=address,
            nonce=nonce,
            heartbeat_address=heartbeat_address,
            agent_address=agent_address,
            agent=agent,
            details=details or {},
            codes=codes or {},
            roles=roles,
        )
        result = yield from change(
            [record.unchanged(), identity.unchanged()],
            [
                put(keys.host(host), HostRecord(host=host, incarnation=incarnation, nonce=nonce)),
                put(keys.session(host), session, lease=lease),
            ],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(keys.session(host), session, result.revision, lease)
        if isinstance(result, LeaseGone | InDoubt):
            return result
    return Contended(f"the incarnation of {host}")


@answering
def resume_session(
    session: Session, *, lease: LeaseId
) -> Recipe[Seen[Session] | NoSession | LeaseGone | Contended | InDoubt]:
    """Restore the session of a process that still lives, under a new lease, after its old one ended.

    NoSession means that a later process of the host has started: that process is the host now, and this one
    stops.
    """
    for _ in range(ATTEMPTS_MAX):
        record = yield from read(keys.host(session.host), HostRecord)
        if record.value is None or record.value.nonce != session.nonce:
            return NoSession(session.host, session.incarnation)
        current = yield from read(keys.session(session.host), Session)
        if current.value == session and current.lease == lease:
            return Seen(current.key, session, current.modified, lease)
        result = yield from change(
            [record.unchanged(), current.unchanged()],
            [put(keys.session(session.host), session, lease=lease)],
            nonce=session.nonce,
        )
        if isinstance(result, Applied):
            return Seen(current.key, session, result.revision, lease)
        if isinstance(result, LeaseGone | InDoubt):
            return result
    return Contended(f"the session of {session.host}")


@answering
def close_session(
    host: HostId, incarnation: Incarnation, *, nonce: Nonce
) -> Recipe[Removed | Contended | InDoubt]:
    """Remove the session if it still belongs to that incarnation; a successor's session stays.

    Closing takes an incarnation that no process gets, so that a delayed resumption cannot bring the session
    back.
    """
    for _ in range(ATTEMPTS_MAX):
        record = yield from read(keys.host(host), HostRecord)
        found = yield from find_session(host, incarnation)
        if record.value is None or isinstance(found, NoSession):
            return Removed()
        closed = HostRecord(host=host, incarnation=Incarnation(record.value.incarnation + 1), nonce=nonce)
        result = yield from change(
            [record.unchanged(), found.unchanged()],
            [Delete(found.key), put(record.key, closed)],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Removed()
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the session of {host}")


def find_session(host: HostId, incarnation: Incarnation) -> Recipe[Seen[Session] | NoSession]:
    """The live session of this incarnation, as a step; :func:`read_session` is the standalone recipe."""
    found = yield from read(keys.session(host), Session)
    if found.value is None or found.value.incarnation != incarnation:
        return NoSession(host, incarnation)
    return Seen(found.key, found.value, found.modified, found.lease)


read_session = answering(find_session)


@answering
def list_sessions() -> Recipe[Listing[Session]]:
    """List every live session, sorted by host."""
    return (yield from read_all(keys.SESSIONS, Session))


class NoHost(msgspec.Struct, frozen=True, tag="no_host"):
    """No host of that name has ever had a session."""

    host: HostId


@answering
def read_host(host: HostId) -> Recipe[Seen[HostRecord] | NoHost]:
    """Read the record of a host, whether it is alive or not."""
    found = yield from read(keys.host(host), HostRecord)
    return NoHost(host) if found.value is None else Seen(found.key, found.value, found.modified)


class ReplicaRecord(msgspec.Struct, frozen=True, kw_only=True, tag="replica"):
    """A host's number in CSNs."""

    host: HostId
    replica: ReplicaId
    nonce: Nonce


class ReplicaCounter(msgspec.Struct, frozen=True, kw_only=True, tag="replica_counter"):
    """The highest host number ever issued."""

    last: ReplicaId
    nonce: Nonce


@answering
def ensure_replica(host: HostId, *, nonce: Nonce) -> Recipe[Seen[ReplicaRecord] | Contended | InDoubt]:
    """Return the number of *host*, issuing one if needed. Raises ``Overloaded`` when all are used."""
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.replica(host), ReplicaRecord)
        if found.value is not None:
            return Seen(found.key, found.value, found.modified)
        counter = yield from read(keys.REPLICA_COUNTER, ReplicaCounter)
        replica = ReplicaId(counter.value.last + 1 if counter.value is not None else 1)
        if replica > REPLICA_MAX:
            raise Overloaded(f"all {REPLICA_MAX} numbers of hosts are given away")
        record = ReplicaRecord(host=host, replica=replica, nonce=nonce)
        result = yield from change(
            [found.unchanged(), counter.unchanged()],
            [put(found.key, record), put(counter.key, ReplicaCounter(last=replica, nonce=nonce))],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(found.key, record, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended("the counter of hosts in CSNs")
