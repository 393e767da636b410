"""A domain whose hosts are on separate machines, joined by a network that fails on command.

Hosts ``a``, ``b`` and ``c`` are on the machines of those names, the authority on ``authority``, and callers
on ``callers``. There are no agents: nobody can prove a death, and a killed host stays dead.
"""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from domain import HOLDFAST, WAIT_S
from faults.internet import Internet
from group_client import EXAMPLES, POLICY, GroupClient

from holdfast.client.admin_client import order
from holdfast.client.domain import Domain as Connection
from holdfast.client.domain import connect
from holdfast.model.admin.groups import GroupInfo, ListGroups
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId
from holdfast.net import Address, ConnectionSettings, PeerIdentity, Role
from holdfast.node.layout import Description, Layout

T = TypeVar("T")

HOSTS = ("a", "b", "c")
AUTHORITY, CALLERS = "authority", "callers"
MACHINES = (*HOSTS, AUTHORITY, CALLERS)
NAME = "spread"
AUTHORITY_PORT = 7400
ASK_S = 2.0
"""A host that has not answered by then is cut off, or the machine is busy: all are asked again."""
_HOST = Path(__file__).with_name("spread_host.py")


class SpreadDomain:
    """A domain on *net*, which has the ``MACHINES``; its files are below *directory*."""

    def __init__(self, net: Internet, directory: Path) -> None:
        self.net = net
        self.layout = Layout(directory)
        self._processes: dict[str, subprocess.Popen[Any]] = {}

    def __enter__(self) -> "SpreadDomain":
        authority = f"{self.net.address(AUTHORITY)}:{AUTHORITY_PORT}"
        description = Description(
            domain=NAME,
            hosts=tuple(map(HostId, HOSTS)),
            agent_address="127.0.0.1:1",  # nobody listens there
            authority_address=authority,
            app=str(EXAMPLES),
        )
        self.layout.write(description)
        self.layout.prepare(description)
        command = [*HOLDFAST, "authority", "serve", "--dir", str(self.layout.authority)]
        command += ["--secret-dir", str(self.layout.directory)]
        self._run(AUTHORITY, [*command, "--listen", authority, "--domain", NAME, "--insecure"])
        for host in HOSTS:
            self.start(host)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def start(self, host: str) -> None:
        """Start the process of *host*, for the first time or again."""
        program = [sys.executable, str(_HOST), str(self.layout.directory), host, self.net.address(host)]
        self._run(host, program)

    def stop(self) -> None:
        """End the hosts in an orderly way, so that their files can be read; the network must be whole."""
        for host in HOSTS:
            self._processes[host].terminate()
        for host in HOSTS:
            assert self._processes[host].wait(WAIT_S) == 0, self.said(host)

    def said(self, host: str) -> str:
        """Return the end of what *host* has written."""
        return self.layout.output(host).read_text(errors="replace")[-3000:]

    def _run(self, machine: str, argv: list[str]) -> None:
        with self.layout.output(machine).open("ab") as output:
            self._processes[machine] = self.net.run(machine, argv, stdout=output, stderr=output)

    # --- its callers

    def call(self, work: Callable[["SpreadClient"], Awaitable[T]]) -> T:
        """Run *work* on the callers' machine, connected to the domain."""

        async def connected() -> T:
            addresses = await asyncio.gather(*map(self._address, HOSTS))
            async with connect(
                f"holdfast://{','.join(addresses)}/{NAME}",
                dir=self.layout.directory,
                policy=POLICY,
                insecure=True,
            ) as connection:
                return await work(SpreadClient(self, connection, dict(zip(HOSTS, addresses, strict=True))))

        return self.net.inside(CALLERS, lambda: asyncio.run(connected()))

    async def _address(self, host: str) -> str:
        """Return where the host listens, once it has opened its store."""
        hint = self.layout.host(HostId(host)) / "address"
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            if hint.exists() and (address := hint.read_text()):
                return address
            assert self._processes[host].poll() is None, self.said(host)
            await asyncio.sleep(0.02)
        raise AssertionError(f"{host} does not serve within {WAIT_S:g} s: {self.said(host)}")


class SpreadClient(GroupClient):
    """A client of a spread domain."""

    def __init__(self, domain: SpreadDomain, connection: Connection, addresses: dict[str, str]) -> None:
        super().__init__(connection, domain.layout.directory)
        self.net = domain.net
        self._domain = domain
        self._addresses = addresses

    async def stop_hosts(self) -> None:
        await asyncio.to_thread(self._domain.stop)

    async def info(self, name: str) -> GroupInfo:
        """Return the group from whichever host answers first: some may be cut off from the authority, and
        cannot answer."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            asked = [self._info_from(address, name) for address in self._addresses.values()]
            for answer in asyncio.as_completed(asked):
                found = await answer
                if found is not None:
                    return found
        raise AssertionError(f"no host knows of {name} within {WAIT_S:g} s")

    async def _info_from(self, address: str, name: str) -> GroupInfo | None:
        endpoint = ConnectionSettings(PeerIdentity(NAME, Role.ADMIN, "test"), credentials=self.secret)
        where, wanted = [Address.parse(address)], ListGroups(name=name)
        with contextlib.suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(ASK_S):
                return (await order(where, endpoint, wanted, insecure=True))[0]
        return None

    async def address(self, host: HostId) -> str:
        return self._addresses[host]
