"""Holdfast itself: three hosts under an agent, as ``holdfast up`` starts them, and one client process."""

import asyncio
import datetime
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from holdfast.agent.machine_setup import changed
from holdfast.agent.startup import describe, last_output, start_agent, wait_until_alive
from holdfast.agent.status_client import ask_agent
from holdfast.bench.measuring.access import CLIENT, StartedDomain, client_of, layout_of, started
from holdfast.bench.measuring.callers import Load, drive, first_after
from holdfast.bench.objects import CLASSES, Counter
from holdfast.bench.systems import CALLERS_AT_FAIL_OVER, FAIL_OVER_S, START_S, Durability
from holdfast.client.domain import Domain
from holdfast.client.proxy import Group
from holdfast.model.admin.groups import GroupInfo
from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId
from holdfast.net import Address, Role
from holdfast.net.certificates import create_domain, issue, issue_machine
from holdfast.net.secret_file import keep_secret
from holdfast.node.layout import Description, Layout
from holdfast.node.links import remembered
from holdfast.node.messages import DomainStatus

POLL_S: Final = 0.02
NAME: Final = "counter"
MACHINE: Final = "bench"
NOBODY: Final = "127.0.0.1:1"
"""An address at which no agent listens."""


@dataclass(frozen=True, slots=True)
class Holdfast:
    """A warm passive group of *members* members, one on each host."""

    durability: Durability = "disk"
    members: int = 3
    has_tls: bool = False
    """Whether all connections are by TLS, as between machines."""

    @property
    def name(self) -> str:
        return "Holdfast by TLS" if self.has_tls else "Holdfast"

    @property
    def configuration(self) -> str:
        kept = "synced by every in-sync member" if self.durability == "disk" else "in every member's memory"
        return (
            f"{self.members} hosts and their agent on the embedded authority, defaults throughout; a warm "
            f"passive group, an acknowledged call is {kept}; called by the Python client over one connection"
        )

    @asynccontextmanager
    async def running(self, directory: Path) -> AsyncIterator["RunningHoldfast"]:
        async with (
            started_domain(directory, hosts=self.members, has_tls=self.has_tls) as (description, status),
            client_of(description, status) as domain,
        ):
            group = await domain.create(Counter, name=NAME, replicas=self.members, durability=self.durability)
            await until_whole(domain, self.members)
            yield RunningHoldfast(domain, group, status)


class RunningHoldfast:
    """A domain whose one group is whole."""

    def __init__(self, domain: Domain, group: Group[Counter], status: DomainStatus) -> None:
        self.group = group
        self.pids = pids_of(status) | {"client": os.getpid()}
        self._domain = domain

    async def load(self, *, in_flight: int, seconds: float) -> Load:
        add, group = Counter.add, self.group
        return await drive(lambda: group.call(add, 1), in_flight=in_flight, seconds=seconds, pids=self.pids)

    async def load_payload(self, payload: bytes, *, in_flight: int, seconds: float) -> Load:
        """Measure the load of calls with an argument of some size."""
        put, group = Counter.put, self.group
        return await drive(
            lambda: group.call(put, payload), in_flight=in_flight, seconds=seconds, pids=self.pids
        )

    async def info(self) -> GroupInfo:
        """Return the current state of the group."""
        (info,) = await self._domain.groups()
        return info

    async def fail_over(self) -> float:
        pid = self.pids[str((await self.info()).primary)]
        add, group = Counter.add, self.group
        return await first_after(
            lambda: os.kill(pid, signal.SIGKILL),
            lambda: group.call(add, 1),
            callers=CALLERS_AT_FAIL_OVER,
            within_s=FAIL_OVER_S,
        )


@asynccontextmanager
async def started_domain(
    directory: Path,
    *,
    hosts: int,
    etcd: Sequence[str] = (),
    loss_s: float | None = None,
    has_tls: bool = False,
) -> AsyncIterator[tuple[StartedDomain, DomainStatus]]:
    """Start a domain in *directory* and wait until all hosts live; it ends with the context.

    *etcd*: the endpoints of its authority, if not the embedded one. *loss_s*: when a host counts as lost, if
    not the default. *has_tls*: with certificates, as a machine of several has them.
    """
    layout = Layout(directory / "domain")
    description = describe(
        layout, hosts=hosts, etcd=etcd, app=directory, loss_s=loss_s, allowed_classes=CLASSES
    )
    if has_tls:
        description = certified(description, directory / "certs")
        layout.write(description)
    agent = start_agent(layout, with_parent=True)
    try:
        status = await wait_until_alive(layout, description, agent, within_s=START_S, progress=lambda _: None)
        while not all(host.alive and host.address and host.pid for host in status.hosts):
            await asyncio.sleep(POLL_S)
            status = await ask_agent(layout, description)
        yield started(description, layout), status
    finally:
        agent.terminate()
        await asyncio.to_thread(agent.wait)


def certified(description: Description, certs: Path) -> Description:
    """Return the description of the same domain with certificates for its processes and for a client."""
    now = datetime.datetime.now(datetime.UTC)
    create_domain(certs, description.domain, now)
    issue(certs, Role.CLIENT, CLIENT, now)
    hosts = description.hosts
    # Without a location each host is a fault region of its own, as in a domain on one machine.
    issue_machine(certs, MACHINE, now, to=certs, hosts=hosts, location="", with_authority=True)
    return changed(description, name=MACHINE, certs=certs)


@dataclass(frozen=True, slots=True)
class LoneHost:
    """A host without an agent."""

    host: HostId
    process: "subprocess.Popen[bytes]"
    address: Address


@asynccontextmanager
async def lone_host(directory: Path, domain: StartedDomain, host: HostId) -> AsyncIterator[LoneHost]:
    """Start one more host of *domain*, as if on its own machine.

    No agent restarts it or proves that it is dead. It has a session, and ends with the context.
    """
    layout = Layout(directory / host)
    description = msgspec.structs.replace(domain, hosts=(host,), agent_address=NOBODY)
    layout.write(description)
    keep_secret(layout.directory, layout_of(domain).secret(domain.domain))
    layout.prepare(description)
    command = [*(sys.executable, "-m", "holdfast", "host"), "--dir", str(layout.directory), "--id", host]
    with layout.output(host).open("wb") as output:
        process = subprocess.Popen(
            [*command, "--with-parent", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(START_S):
            while (address := remembered(layout.host(host))) is None:
                if process.poll() is not None:
                    raise Unavailable(f"{host} has ended; it said:\n{last_output(layout, host)}")
                await asyncio.sleep(POLL_S)
        yield LoneHost(host, process, address)
    finally:
        process.kill()
        process.wait()


def pids_of(status: DomainStatus) -> dict[str, int]:
    """Return the domain's processes except the agent and the authority, which no call passes through."""
    return {str(host.id): host.pid for host in status.hosts if host.pid is not None}


async def until_whole(domain: Domain, members: int) -> None:
    """Wait until every member is in sync, so that each call is stored by all of them."""
    try:
        async with asyncio.timeout(START_S):
            while True:
                groups = await domain.groups()
                if all(len(group.in_sync) == members for group in groups):
                    return
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise Unavailable(f"the group had no {members} members in sync within {START_S:g} s") from None
