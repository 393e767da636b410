"""Asking a running process how it is: one connection, one question; or, failing that, what its lock tells."""

from typing import TypeVar

import msgspec

from holdfast.model.errors import OutcomeUnknown
from holdfast.model.ids import HostId, Incarnation
from holdfast.net import (
    Address,
    Connection,
    Endpoint,
    Expected,
    Identity,
    Kind,
    NotConnected,
    Reason,
    Requests,
    Role,
    connect,
)
from holdfast.node.layout import Description, Layout
from holdfast.node.messages import AuthorityStatus, DomainStatus, HostReport, HostStatus
from holdfast.storage.lock import Holder, holder_of

ASK_S = 2.0
Answer = TypeVar("Answer")


class _Asker:
    """The receiver of a connection on which questions are asked."""

    def __init__(self, connection: Connection) -> None:
        self.requests = Requests(connection)

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is Kind.STATUS_REPLY:
            self.requests.on_answer(payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.requests.on_closed(reason)


async def ask_agent(description: Description) -> DomainStatus:
    """The domain as its agent on this machine sees it. Raises ``NotConnected`` or ``OutcomeUnknown``."""
    return await _status(description.agent_address, description, Role.AGENT, DomainStatus)


async def status_of(layout: Layout, description: Description) -> DomainStatus:
    """The same, for a domain whose agent may be gone or not answer: then what the locks tell."""
    try:
        return await ask_agent(description)
    except (NotConnected, OutcomeUnknown):
        return _status_by_locks(layout, description)


async def ask_host(address: str, description: Description) -> HostReport:
    """A host's own report."""
    return await _status(address, description, Role.HOST, HostReport)


async def _status(address: str, description: Description, role: Role, kind: type[Answer]) -> Answer:
    connection, asker = await _connect(address, description, role)
    try:
        body = await asker.requests.ask(Kind.STATUS_REQUEST, b"", deadline_s=ASK_S)
    finally:
        connection.close()
        await connection.wait_gone()
    return msgspec.msgpack.decode(body, type=kind)


async def _connect(address: str, description: Description, role: Role) -> tuple[Connection, _Asker]:
    askers: list[_Asker] = []

    def on_connection(connection: Connection) -> _Asker:
        askers.append(_Asker(connection))
        return askers[0]

    identity = Identity(description.domain, Role.ADMIN, "cli")
    endpoint = Endpoint(identity, expected=Expected(roles=frozenset({role})))
    connection = await connect(Address.parse(address), on_connection, endpoint, deadline_s=ASK_S)
    return connection, askers[0]


def _status_by_locks(layout: Layout, description: Description) -> DomainStatus:
    authority = holder_of(layout.authority)
    return DomainStatus(
        domain=description.domain,
        hosts=tuple(_host_by_lock(host, holder_of(layout.host(host))) for host in description.hosts),
        authority=AuthorityStatus(
            kind="etcd" if description.etcd_endpoints else "sqlite",
            alive=authority is not None,
            pid=None if authority is None else authority.pid,
            address=description.authority_address or ",".join(description.etcd_endpoints),
            restarts=0,
            last_exit=None,
        ),
        agent=None,
    )


def _host_by_lock(host: HostId, holder: Holder | None) -> HostStatus:
    known = None if holder is None or holder.incarnation is None else Incarnation(holder.incarnation)
    return HostStatus(
        id=host,
        alive=False,
        incarnation=known,
        pid=None if holder is None else holder.pid,
        address=None,
        restarts=0,
        uptime_s=None,
        state="stopped" if holder is None else "without its agent",
        last_exit=None,
    )
