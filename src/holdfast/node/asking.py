"""Asking a running process how it is, or to stop: one connection, one question."""

import asyncio
from typing import TypeVar

import msgspec

from holdfast.net import (
    Address,
    Connection,
    Endpoint,
    Identity,
    Kind,
    NotConnected,
    Reason,
    Requests,
    Role,
    connect,
)
from holdfast.node.layout import Description
from holdfast.node.messages import AuthorityStatus, DomainStatus, HostReport, HostStatus, StopRequest

ASK_S = 2.0
Answer = TypeVar("Answer")


class _Asker:
    """The receiver of a connection on which questions are asked."""

    def __init__(self, connection: Connection) -> None:
        self.requests = Requests(connection)
        self.closed = asyncio.Event()

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is Kind.STATUS_REPLY:
            self.requests.on_answer(payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.requests.on_closed(reason)
        self.closed.set()


async def ask_agent(description: Description) -> DomainStatus:
    """The domain as its agent on this machine sees it. Raises ``NotConnected`` when there is no agent."""
    return await _status(description.agent_address, description, DomainStatus)


async def status_of(description: Description) -> DomainStatus:
    """The same, for a domain that may be stopped: without an agent nothing is known to live."""
    try:
        return await ask_agent(description)
    except NotConnected:
        return _nobody(description)


async def ask_host(address: str, description: Description) -> HostReport:
    """A host's own report."""
    return await _status(address, description, HostReport)


async def ask_to_stop(description: Description, *, within_s: float) -> None:
    """Ask the agent to stop the domain, and wait until it has."""
    connection, asker = await _connect(description.agent_address, description)
    connection.send(Kind.AGENT_ORDER, msgspec.msgpack.encode(StopRequest()))
    async with asyncio.timeout(within_s):
        await asker.closed.wait()
        await connection.wait_gone()


async def _status(address: str, description: Description, kind: type[Answer]) -> Answer:
    connection, asker = await _connect(address, description)
    try:
        body = await asker.requests.ask(Kind.STATUS_REQUEST, b"", deadline_s=ASK_S)
    finally:
        connection.close()
        await connection.wait_gone()
    return msgspec.msgpack.decode(body, type=kind)


async def _connect(address: str, description: Description) -> tuple[Connection, _Asker]:
    askers: list[_Asker] = []

    def on_connection(connection: Connection) -> _Asker:
        askers.append(_Asker(connection))
        return askers[0]

    endpoint = Endpoint(Identity(description.domain, Role.ADMIN, "cli"))
    connection = await connect(Address.parse(address), on_connection, endpoint, deadline_s=ASK_S)
    return connection, askers[0]


def _nobody(description: Description) -> DomainStatus:
    return DomainStatus(
        domain=description.domain,
        hosts=tuple(
            HostStatus(
                id=host,
                alive=False,
                incarnation=None,
                pid=None,
                address=None,
                restarts=0,
                uptime_s=None,
                state="stopped",
                last_exit=None,
            )
            for host in description.hosts
        ),
        authority=AuthorityStatus(
            kind="etcd" if description.etcd_endpoints else "sqlite",
            alive=False,
            pid=None,
            address=description.authority_address or ",".join(description.etcd_endpoints),
            restarts=0,
            last_exit=None,
        ),
        agent=None,
    )
