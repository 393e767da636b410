"""A domain on several machines, made by `machine init` and joined by a network that fails on command.

Hosts ``a``, ``b`` and ``c`` are on the machines of those names, the authority on ``authority``, and callers
on ``callers``. Each machine has its own directory, certificates and agent, and everything is sent by TLS.
"""

import asyncio
import contextlib
import datetime
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from domain import HOLDFAST, WAIT_S
from group_client import EXAMPLES, POLICY, GroupClient

from holdfast.agent.machine_setup import found_or_join, new_machine
from holdfast.cli.machine import set_
from holdfast.client.admin_client import order
from holdfast.client.domain import Domain as Connection
from holdfast.client.domain import connect
from holdfast.demo.network.internet import Internet
from holdfast.model.admin.groups import GroupInfo, ListGroups
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId
from holdfast.net import Address, ConnectionSettings, PeerIdentity, Role, Tls
from holdfast.net.certificates import create_domain, issue, issue_machine
from holdfast.node.layout import Layout

T = TypeVar("T")

HOSTS = ("a", "b", "c")
AUTHORITY, CALLERS = "authority", "callers"
MACHINES = (*HOSTS, AUTHORITY, CALLERS)
NAME = "spread"
AUTHORITY_PORT = 7401
ASK_S = 2.0
"""A host that has not answered by then is cut off, or the machine is busy: all are asked again."""


class SpreadDomain:
    """A domain on *net*, which has the ``MACHINES``; each has its files below *directory*."""

    def __init__(self, net: Internet, directory: Path) -> None:
        self.net = net
        self.directory = directory
        self._certs = directory / "certs"
        self._agents: dict[str, subprocess.Popen[Any]] = {}

    def __enter__(self) -> "SpreadDomain":
        create_domain(self._certs, NAME, self.now())
        self.make_callers_certificates()
        for machine in (AUTHORITY, *HOSTS):
            self.make_certificates(machine)
            self.init(machine)
            self.start(machine)
            if machine == AUTHORITY:
                self._wait_for_authority()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop(*(machine for machine in list(self._agents) if machine != AUTHORITY))
        self.stop(AUTHORITY)

    def _wait_for_authority(self) -> None:
        """Wait until machines can join: on a busy one its start takes longer than a join waits."""
        output, until = self.layout(AUTHORITY).output("authority"), time.monotonic() + WAIT_S
        while not output.exists() or "listening" not in output.read_text(errors="replace"):
            assert time.monotonic() < until, self.said(AUTHORITY, "agent")
            time.sleep(0.1)

    # --- its machines

    def layout(self, machine: str) -> Layout:
        return Layout(self.directory / machine)

    def certs(self, machine: str) -> Path:
        return self.directory / f"certs-{machine}"

    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)

    def make_callers_certificates(self, *, renew: bool = False) -> None:
        for role in (Role.CLIENT, Role.ADMIN):
            issue(self._certs, role, CALLERS, self.now(), renew=renew)

    def make_certificates(self, machine: str, *, renew: bool = False) -> None:
        issue_machine(
            self._certs,
            machine,
            self.now(),
            to=self.certs(machine),
            hosts=[] if machine == AUTHORITY else [machine],
            location=f"rack1/{machine}",
            with_authority=machine == AUTHORITY,
            renew=renew,
        )

    @property
    def url(self) -> str:
        return f"holdfast://{self.net.address(AUTHORITY)}:{AUTHORITY_PORT}/{NAME}"

    def init(self, machine: str) -> None:
        """Do what `holdfast machine init` does, on *machine*."""
        description = new_machine(
            self.url,
            listen=self.net.address(machine),
            location=f"rack1/{machine}",
            hosts=int(machine != AUTHORITY),
            certs=self.certs(machine),
            app=EXAMPLES,
        )
        self.net.inside(machine, lambda: asyncio.run(found_or_join(self.layout(machine), description)))

    def readdress(self, machine: str) -> None:
        """Give the stopped *machine* another address, and say so in its description."""
        self.net.renumber(machine)
        self.command(machine, set_, listen=self.net.address(machine))

    def start(self, machine: str) -> None:
        """Start the agent of *machine*, which starts the rest, for the first time or again."""
        layout = self.layout(machine)
        with layout.output("agent").open("ab") as output:
            command = [*HOLDFAST, "agent", "--dir", str(layout.directory)]
            self._agents[machine] = self.net.run(machine, command, stdout=output, stderr=output)

    def stop(self, *machines: str) -> None:
        """End everything on these machines in an orderly way; the network must be whole."""
        for machine in machines:
            if machine in self._agents:
                self._agents[machine].terminate()
        for machine in machines:
            if machine in self._agents:
                assert self._agents.pop(machine).wait(WAIT_S) == 0, self.said(machine, "agent")

    def forget(self, machine: str) -> None:
        """Wait for the end of a machine's agent, which something else has stopped."""
        assert self._agents.pop(machine).wait(WAIT_S) == 0, self.said(machine, "agent")

    def said(self, machine: str, process: str) -> str:
        """Return the end of what a process of *machine* has written."""
        return self.layout(machine).output(process).read_text(errors="replace")[-3000:]

    def command(self, machine: str, command: Callable[..., int], /, **options: Any) -> None:
        """Do what a command of `holdfast` does, on *machine* and about the domain there."""
        if "at" not in options:
            options["dir"] = self.layout(machine).directory
        assert self.net.inside(machine, lambda: command(**options)) == 0

    # --- its callers

    def call(self, work: Callable[["SpreadClient"], Awaitable[T]], hosts: Sequence[str] = HOSTS) -> T:
        """Run *work* on the callers' machine, connected to the domain."""

        async def connected() -> T:
            addresses = await asyncio.gather(*map(self.address, hosts))
            url = f"holdfast://{','.join(addresses)}/{NAME}"
            async with connect(url, policy=POLICY, certs=self._certs, name=CALLERS) as connection:
                return await work(SpreadClient(self, connection, hosts))

        return self.net.inside(CALLERS, lambda: asyncio.run(connected()))

    def endpoint(self, role: Role) -> ConnectionSettings:
        """The identity of the callers' machine in that role."""
        return ConnectionSettings(PeerIdentity(NAME, role, CALLERS), tls=Tls.load(self._certs, role, CALLERS))

    async def address(self, host: str) -> str:
        """Return where the host is reached, once it has opened its store."""
        hint = self.layout(host).host(HostId(host)) / "address"
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            # A machine that has moved has yet to say so.
            if hint.exists() and (address := hint.read_text()).startswith(f"{self.net.address(host)}:"):
                return address
            await asyncio.sleep(0.02)
        raise AssertionError(f"{host} does not serve within {WAIT_S:g} s: {self.said(host, 'agent')}")


class SpreadClient(GroupClient):
    """A client of a spread domain."""

    def __init__(self, domain: SpreadDomain, connection: Connection, hosts: Sequence[str]) -> None:
        super().__init__(connection, domain.layout(HOSTS[0]).directory)
        self._hosts = hosts
        self.net = domain.net
        self._domain = domain

    async def stop_hosts(self) -> None:
        await asyncio.to_thread(self._domain.stop, *HOSTS)

    def files(self, host: HostId) -> Path:
        return self._domain.layout(host).host(host)

    def endpoint(self) -> ConnectionSettings:
        return self._domain.endpoint(Role.CLIENT)

    async def info(self, name: str) -> GroupInfo:
        """Return the group from whichever host answers first: some may be cut off from the authority, and
        cannot answer."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            asked = [self._info_from(host, name) for host in self._hosts]
            for answer in asyncio.as_completed(asked):
                found = await answer
                if found is not None:
                    return found
        raise AssertionError(f"no host knows of {name} within {WAIT_S:g} s")

    async def _info_from(self, host: str, name: str) -> GroupInfo | None:
        where, wanted = [Address.parse(await self._domain.address(host))], ListGroups(name=name)
        with contextlib.suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(ASK_S):
                return (await order(where, self._domain.endpoint(Role.ADMIN), wanted))[0]
        return None

    async def address(self, host: HostId) -> str:
        return await self._domain.address(host)
