"""Asks running processes for their status, finds where hosts listen, and stops processes by their locks.

A status request uses one connection and one question; if the agent does not answer, the processes' locks are
consulted instead. :func:`url_of` and its siblings find the addresses of a domain's hosts from its directory.

Processes are identified by the directory they lock, whoever started them, because a pid read from anywhere
may belong to another process by now. The kernel says which process holds a lock, and a pidfd keeps referring
to that process; so a signal sent from here reaches the holder or nobody (K2).
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from holdfast.model.errors import InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId, Incarnation
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Kind,
    NotConnected,
    Reason,
    Requests,
    Role,
    connect,
)
from holdfast.node.endpoints import admin_endpoint, expecting
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


async def ask_agent(layout: Layout, description: Description) -> DomainStatus:
    """The domain as its agent on this machine sees it. Raises ``NotConnected`` or ``OutcomeUnknown``, and
    ``InvalidRequest`` if this user cannot read the domain's secret."""
    return await _status(description.own_agent, layout, description, Role.AGENT, DomainStatus)


async def status_of(layout: Layout, description: Description) -> DomainStatus:
    """The domain's status from its agent, or from the processes' locks if the agent does not answer."""
    try:
        return await ask_agent(layout, description)
    except (NotConnected, OutcomeUnknown):
        return _status_by_locks(layout, description)


async def ask_host(address: str, layout: Layout, description: Description) -> HostReport:
    """A host's own report."""
    return await _status(address, layout, description, Role.HOST, HostReport)


async def ask_host_at(address: Address, endpoint: ConnectionSettings) -> HostReport:
    """A host's own report. Raises as :func:`ask_agent` does."""
    return await _ask(address, endpoint, Role.HOST, HostReport)


async def ask_agent_at(address: Address, endpoint: ConnectionSettings) -> DomainStatus:
    """A machine's part of a domain as its agent sees it. Raises as :func:`ask_agent` does."""
    return await _ask(address, endpoint, Role.AGENT, DomainStatus)


async def _status(
    address: str, layout: Layout, description: Description, role: Role, kind: type[Answer]
) -> Answer:
    return await _ask(Address.parse(address), admin_endpoint(layout, description), role, kind)


async def _ask(address: Address, endpoint: ConnectionSettings, role: Role, kind: type[Answer]) -> Answer:
    connection, asker = await _connect(address, endpoint, role)
    try:
        body = await asker.requests.ask(Kind.STATUS_REQUEST, b"", deadline_s=ASK_S)
    finally:
        connection.close()
        await connection.wait_gone()
    return msgspec.msgpack.decode(body, type=kind)


async def _connect(address: Address, endpoint: ConnectionSettings, role: Role) -> tuple[Connection, _Asker]:
    askers: list[_Asker] = []

    def on_connection(connection: Connection) -> _Asker:
        askers.append(_Asker(connection))
        return askers[0]

    settings = expecting(endpoint, role)
    connection = await connect(address, on_connection, settings, deadline_s=ASK_S)
    return connection, askers[0]


def _status_by_locks(layout: Layout, description: Description) -> DomainStatus:
    authority = holder_of(layout.authority)
    place = layout.authority_place(description)
    return DomainStatus(
        domain=description.domain,
        hosts=tuple(_host_by_lock(host, holder_of(layout.host(host))) for host in description.hosts),
        authority=AuthorityStatus(
            kind=place.kind,
            alive=authority is not None,
            pid=None if authority is None else authority.pid,
            address=place.where,
            restarts=0,
            last_exit=None,
        ),
        agent=None,
        machine=description.machine,
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


def reachable(status: DomainStatus) -> list[str]:
    """The addresses of the hosts that are alive, those of this machine first."""
    here = [host.address for host in status.hosts if host.alive and host.address is not None]
    known = [host for machine in status.machines for host in machine.hosts if host.alive]
    return list(dict.fromkeys([*here, *(host.address for host in known)]))


async def addresses_of(layout: Layout, description: Description) -> list[Address]:
    """The addresses of the hosts that are alive. Raises ``Unavailable`` if none is."""
    status = await status_of(layout, description)
    found = reachable(status)
    if not found:
        raise Unavailable(
            f"no host of {layout.directory} lives; `holdfast status --dir {layout.directory}` says why, "
            f"`holdfast up --dir {layout.directory}` starts them"
        )
    return [Address.parse(each) for each in found]


async def address_of(layout: Layout, description: Description, host: HostId) -> Address:
    """The address of that host. Raises ``Unavailable`` if it is not alive."""
    status = await status_of(layout, description)
    elsewhere = [each for machine in status.machines for each in machine.hosts if each.id == host]
    if host not in description.hosts and elsewhere:
        if not elsewhere[0].alive:
            raise Unavailable(f"{host} does not live now; `holdfast machine list` shows when it does")
        return Address.parse(elsewhere[0].address)
    found = next((each for each in status.hosts if each.id == host), None)
    if found is None:
        raise InvalidRequest(f"there is no host {host!r}; `holdfast machine list` shows which there are")
    if not found.alive or found.address is None:
        raise Unavailable(f"{host} does not live now ({found.state}); `holdfast status` shows when it does")
    return Address.parse(found.address)


async def url_of(layout: Layout, description: Description) -> str:
    """The URL that a client connects to. Raises ``Unavailable`` if no host is alive."""
    addresses = await addresses_of(layout, description)
    return f"holdfast://{','.join(map(str, addresses))}/{description.domain}"


POLL_S: Final = 0.02
AGENT_GRACE_S: Final = 45.0
"""How long an agent may take to stop everything before it is killed; longer than its own limits."""
STOP_GRACE_S: Final = 10.0
"""How long any other process may take to end on SIGTERM before it is killed."""


def signal_holder(directory: Path, number: signal.Signals) -> bool:
    """Signal the process that holds *directory*; returns False if there is none or it is out of reach."""
    return signal_found(lambda: holder_of(directory), number)


def signal_found(find: Callable[[], Holder | None], number: signal.Signals) -> bool:
    """Signal the holder of a lock that *find* finds; returns False if there is none or it is out of reach."""
    holder = find()
    if holder is None or holder.pid <= 0:
        return False  # a holder in another pid namespace has no pid here
    try:
        pidfd = os.pidfd_open(holder.pid)
    except ProcessLookupError:
        return False
    try:
        again = find()
        # If it is still the holder while we have the pidfd, the pidfd is the holder's and not a successor's.
        if again is None or again.pid != holder.pid:
            return False
        signal.pidfd_send_signal(pidfd, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(pidfd)


async def stop_domain(layout: Layout, description: Description) -> bool:
    """Stop every process of the domain on this machine, in order; returns whether there was any.

    Raises ``Unavailable`` naming a process that does not end even when killed.
    """
    hosts = [layout.host(host) for host in description.hosts]
    # The process that starts or shows the domain stops its agent, and the agent stops its processes. Only
    # processes that outlived their agent are left for the later steps.
    steps: tuple[tuple[Sequence[Path], float], ...] = (
        ([layout.directory], AGENT_GRACE_S),
        ([layout.agent_directory], AGENT_GRACE_S),
        (hosts, STOP_GRACE_S),
        ([layout.authority], STOP_GRACE_S),
    )
    stopped = [await _stop_holders(directories, grace_s) for directories, grace_s in steps]
    return any(stopped)


async def stop_orphans(layout: Layout, description: Description) -> None:
    """Stop the processes that a dead agent left behind, unless another agent supervises them now."""
    if holder_of(layout.agent_directory) is None:
        await _stop_holders([layout.host(host) for host in description.hosts], STOP_GRACE_S)
        await _stop_holders([layout.authority], STOP_GRACE_S)


async def _stop_holders(directories: Sequence[Path], grace_s: float) -> bool:
    return any(await asyncio.gather(*(_stop_holder(directory, grace_s) for directory in directories)))


async def _stop_holder(directory: Path, grace_s: float) -> bool:
    if holder_of(directory) is None:
        return False
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, STOP_GRACE_S)):
        signal_holder(directory, number)
        try:
            async with asyncio.timeout(patience_s):
                while holder_of(directory) is not None:
                    await asyncio.sleep(POLL_S)
            return True
        except TimeoutError:
            continue
    holder = holder_of(directory)
    if holder is not None:
        raise Unavailable(
            f"{holder.what} (pid {holder.pid}) does not end, not even killed; does its disk hang?"
        )
    return True
