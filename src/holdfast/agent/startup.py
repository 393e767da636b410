"""Starts a domain on this machine: describes it if it is new, starts its agent and waits for its hosts."""

import asyncio
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from holdfast.agent.status_client import ask_agent
from holdfast.authority.move.place import EtcdAccess
from holdfast.machine.child_process import Output
from holdfast.model.errors import InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.host_roles import parsed_roles
from holdfast.model.ids import HostId
from holdfast.net import Address, NotConnected
from holdfast.node.layout import HOSTS_MAX, Description, Layout
from holdfast.node.links import free_addresses
from holdfast.node.messages import DomainStatus, HostStatus
from holdfast.storage.lock import DirectoryLock, Holder, LockHeld, holder_of

HOSTS_DEFAULT: Final = 3
LOOPBACK: Final = "127.0.0.1"
POLL_S: Final = 0.05
HOPELESS_RESTARTS: Final = 3
"""A host that ended so often while starting will not succeed while somebody waits for it."""
OUTPUT_LINES: Final = 12
"""How many lines of output of a process that failed to start are shown to the person who started it."""


def check_hosts(hosts: int | None) -> None:
    """Raise ``InvalidRequest`` for a number of hosts that no domain on one machine can have."""
    if hosts is not None and not 1 <= hosts <= HOSTS_MAX:
        raise InvalidRequest(f"a machine can have 1 to {HOSTS_MAX} hosts, not {hosts}")


def describe(
    layout: Layout,
    *,
    hosts: int | None,
    etcd: Sequence[str],
    etcd_access: EtcdAccess | None = None,
    app: Path | None = None,
    allows_chaos: bool = True,
    loss_s: float | None = None,
    allowed_classes: Sequence[str] | None = None,
    port_base: int | None = None,
    locations: Sequence[str] = (),
    roles: Sequence[str] = (),
) -> Description:
    """The domain's existing description, updated, or a new one. Raises ``InvalidRequest`` if they conflict.

    *app*, *allows_chaos*, *loss_s*, *allowed_classes*, *port_base*, *locations* and *roles* may change each
    time: they say how the domain is run, not what it is. Without *app*, the last one stays, so that a domain
    can be started from any directory; for a new domain it is the current directory.
    """
    known = layout.read() if layout.exists else None
    if app is None:
        app = Path(known.app) if known is not None else Path()
    if not app.is_dir():
        raise InvalidRequest(f"{app} is not a directory to import classes from")
    if known is not None:
        if hosts is not None and hosts != len(known.hosts):
            raise InvalidRequest(f"{layout.directory} is a domain of {len(known.hosts)} hosts, not {hosts}")
        if etcd and tuple(etcd) != known.etcd_endpoints:
            raise InvalidRequest(f"{layout.directory} is a domain on another authority")
        description = _with_free_ports(layout, known)
    else:
        description = _new_description(hosts if hosts is not None else HOSTS_DEFAULT, etcd)
    if etcd_access is not None:
        description = msgspec.structs.replace(description, etcd_access=etcd_access)
    description = msgspec.structs.replace(description, app=str(app.absolute()), allows_chaos=allows_chaos)
    if port_base is not None and port_base != description.port_base:
        if _runs(layout, description):
            how = f"`holdfast down --dir {layout.directory}`"
            raise InvalidRequest(f"processes of the domain still run, on other ports: stop them with {how}")
        description = description.with_ports(port_base)
    if loss_s is not None:
        description = msgspec.structs.replace(description, loss_s=loss_s)
    if allowed_classes is not None:
        description = msgspec.structs.replace(description, allowed_classes=tuple(allowed_classes))
    description = with_places(description, locations, roles)
    if problems := description.problems():
        raise InvalidRequest("; ".join(problems))
    layout.write(description)
    layout.prepare(description)
    return description


def with_places(description: Description, locations: Sequence[str], roles: Sequence[str]) -> Description:
    """*description* with its hosts at these places, and for these roles. Raises ``InvalidRequest``.

    A location is HOST=LOCATION, or LOCATION alone: those are dealt to the hosts in turn, from the first on.
    Roles are ROLES=COUNT, and are given to the last hosts, so that the first stay for groups.
    """
    hosts = list(description.hosts)
    named = dict(each.split("=", 1) for each in locations if "=" in each)
    dealt = [each for each in locations if "=" not in each]
    for number, host in enumerate(hosts):
        if dealt:
            description = description.with_host(host, location=dealt[number % len(dealt)])
    for name, location in named.items():
        _check_is_host(HostId(name), description)
        description = description.with_host(HostId(name), location=location)
    for each in roles:
        text, count = _roles_and_count(each)
        if count > len(hosts):
            have = f"{len(description.hosts)} hosts"
            raise InvalidRequest(
                f"--role {each}: there are {have}, and {len(hosts)} of them without a role yet"
            )
        for _ in range(count):
            description = description.with_host(hosts.pop(), roles=text)
    return description


def _check_is_host(host: HostId, description: Description) -> None:
    if host not in description.hosts:
        raise InvalidRequest(f"there is no host {host!r}; there are: {', '.join(description.hosts)}")


def _roles_and_count(text: str) -> tuple[tuple[str, ...], int]:
    roles, equals, count = text.partition("=")
    if not equals or not count.isdecimal() or not 1 <= int(count) <= HOSTS_MAX:
        raise InvalidRequest(f"--role {text}: it is ROLES=COUNT, as directory=2 or groups,search=1")
    return parsed_roles(roles), int(count)


def hold(layout: Layout) -> DirectoryLock:
    """Lock the directory while this process starts and shows its domain: two would describe it twice.

    Raises ``LockHeld`` if another process does so, or if an agent runs the domain already.
    """
    since = datetime.now(UTC).isoformat(timespec="seconds")
    lock = DirectoryLock.take(layout.directory, Holder(pid=os.getpid(), what="holdfast up", since=since))
    agent = holder_of(layout.agent_directory)
    if agent is not None:
        raise LockHeld(layout.directory, agent)
    return lock


def start_agent(layout: Layout, *, with_parent: bool) -> "subprocess.Popen[bytes]":
    """Start the agent's process. With *with_parent*, it stops when this process is gone."""
    command = [sys.executable, "-P", "-m", "holdfast", "agent", "--dir", str(layout.directory)]
    if with_parent:
        command += ["--with-parent", str(os.getpid())]
    with Output(layout.output("agent")).begin() as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


async def wait_until_alive(
    layout: Layout,
    description: Description,
    agent: "subprocess.Popen[bytes]",
    *,
    within_s: float,
    progress: Callable[[DomainStatus | None], None],
) -> DomainStatus:
    """Wait until every host is alive or has shown that it cannot start: such a host does not stop the others.

    Raises ``Unavailable`` with the processes' output if no host is alive.
    """
    status: DomainStatus | None = None
    try:
        async with asyncio.timeout(within_s):
            while status is None or not all(map(_is_settled, status.hosts)):
                if agent.poll() is not None:
                    raise Unavailable(f"the agent has ended; it said:\n{last_output(layout, 'agent')}")
                await asyncio.sleep(POLL_S)
                status = await _status_or_none(layout, description, agent.pid)
                if status is not None and status.not_admitted:
                    raise Unavailable(status.not_admitted)
                progress(status)
    except TimeoutError:
        if status is None:
            said = last_output(layout, "agent")
            raise Unavailable(f"the agent did not answer within {within_s:g} s; it said:\n{said}") from None
    if status.hosts and not any(host.alive for host in status.hosts):
        raise Unavailable(why_not_alive(layout, status))
    return status


def last_output(layout: Layout, process: str) -> str:
    """The last lines of a process's output, indented."""
    lines = Output(layout.output(process)).tail(OUTPUT_LINES) or ["(nothing)"]
    return "\n".join(f"  {line}" for line in lines)


def why_not_alive(layout: Layout, status: DomainStatus) -> str:
    """Why some hosts are not alive, in words for people."""
    late = [host for host in status.hosts if not host.alive]
    lines = [f"{len(late)} of {len(status.hosts)} hosts did not come up:"]
    if status.authority.last_exit is not None:
        lines.append(f"the authority {status.authority.last_exit}")
    for host in late:
        how = host.last_exit or f"({host.state}) has said:\n{last_output(layout, host.id)}"
        lines.append(f"{host.id} {how}")
    return "\n".join(lines)


def _is_settled(host: HostStatus) -> bool:
    return host.alive or host.restarts >= HOPELESS_RESTARTS


async def _status_or_none(layout: Layout, description: Description, agent: int) -> DomainStatus | None:
    """What the agent with that pid says. Another one may be at its address: that of the directory of which
    this one is a copy, say."""
    try:
        status = await ask_agent(layout, description)
    except (NotConnected, OutcomeUnknown):
        return None
    return status if status.agent is not None and status.agent.pid == agent else None


def _new_description(hosts: int, etcd: Sequence[str]) -> Description:
    agent, authority = map(str, free_addresses(LOOPBACK, 2))
    return Description(
        domain=f"domain-{secrets.token_hex(4)}",
        hosts=tuple(HostId(f"host{number}") for number in range(1, hosts + 1)),
        agent_address=agent,
        authority_address=None if etcd else authority,
        etcd_endpoints=tuple(etcd),
    )


def _with_free_ports(layout: Layout, known: Description) -> Description:
    """*known*, with new ports where others are in use, unless one of its processes relies on the old ones."""
    if known.machine or known.port_base:
        return known  # others know it by its ports
    if _runs(layout, known):
        return known
    agent, authority = known.agent_address, known.authority_address
    if not _is_free(agent):
        agent = str(*free_addresses(LOOPBACK, 1))
    if authority is not None and not _is_free(authority):
        authority = str(*free_addresses(LOOPBACK, 1))
    return msgspec.structs.replace(known, agent_address=agent, authority_address=authority)


def _runs(layout: Layout, known: Description) -> bool:
    return (
        any(holder_of(layout.host(host)) for host in known.hosts) or holder_of(layout.authority) is not None
    )


def _is_free(address: str) -> bool:
    where = Address.parse(address)
    try:
        socket.create_server((where.host, where.port)).close()
    except OSError:
        return False
    return True
