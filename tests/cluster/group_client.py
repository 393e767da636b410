"""A client that creates groups, calls them and harms their hosts, shared by the tests of groups."""

import asyncio
import contextlib
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from direct import Answer, DirectCaller, Watch
from domain import WAIT_S, Domain

from holdfast.agent.status_client import url_of
from holdfast.calling.config import CallPolicy
from holdfast.cli.admin import order_at
from holdfast.client.domain import Domain as Connection
from holdfast.client.domain import connect
from holdfast.client.proxy import Group
from holdfast.model.admin.groups import GroupInfo, Order
from holdfast.model.errors import OutcomeUnknown, Unavailable
from holdfast.model.ids import SECOND, HostId
from holdfast.net import ConnectionSettings, NotConnected, PeerIdentity, Role
from holdfast.node.layout import Layout

EXAMPLES = Path(__file__).parents[2] / "examples"
POLICY = CallPolicy(duration_ns=240 * SECOND)
"""A call outlasts every outage that a test causes, on a slow machine too."""
T = TypeVar("T")


class GroupClient(ABC):
    """A client of a domain whose hosts' files are below *directory*."""

    def __init__(self, connection: Connection, directory: Path) -> None:
        self.layout = Layout(directory)
        self.name = self.layout.read().domain
        self.connection = connection
        self.group = connection.group

    @abstractmethod
    async def stop_hosts(self) -> None:
        """End all hosts in an orderly way, so that their files can be read."""

    @abstractmethod
    async def address(self, host: HostId) -> str:
        """Return the address of *host*, which is running."""

    def files(self, host: HostId) -> Path:
        """Return the directory of *host*."""
        return self.layout.host(host)

    def endpoint(self) -> ConnectionSettings:
        """Return the identity with which hosts are called directly."""
        secret = self.layout.secret(self.name)
        return ConnectionSettings(PeerIdentity(self.name, Role.CLIENT, "direct"), credentials=secret)

    async def create(self, name: str, style: str = "warm_passive") -> Group[Any]:
        """Create a ledger as soon as enough hosts can take a member."""
        return await self._insist(lambda: self.connection.create("ledger:Ledger", name=name, style=style))

    async def info(self, name: str) -> GroupInfo:
        """Return the group as some host knows it; waits for a host that answers."""
        found = await self._insist(self.connection.groups)
        return next(each for each in found if each.name == name)

    async def wait(self, name: str, what: str, holds: Callable[[GroupInfo], bool]) -> GroupInfo:
        """Ask about the group until *holds* is true of it; fails with *what* did not happen."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            found = await self.info(name)
            if holds(found):
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"did not happen within {WAIT_S:g} s: {what}; {found}")

    async def wait_in_sync(self, name: str) -> GroupInfo:
        """Wait until every member has every acknowledged operation."""
        return await self.wait(
            name, "all members are in-sync", lambda found: set(found.in_sync) == set(found.placed_on)
        )

    async def deposit_behind(self, old: str, name: str, account: str) -> int:
        """Deposit 1 through the group's primary once it is no longer *old*, and return the new balance. Only
        the new primary is called: a client of all members would ask *old* first, and so tell it."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            found = await self.info(name)
            if found.primary != old:
                answer = await self._ask_once(found, "deposit", account, 1)
                if answer is not None:
                    return answer.value
            await asyncio.sleep(0.02)
        raise AssertionError(f"nobody but {old} takes calls within {WAIT_S:g} s")

    async def _ask_once(self, found: GroupInfo, method: str, *arguments: object) -> Answer | None:
        caller = DirectCaller(found.primary, found.group, found.epoch)
        try:
            await caller.open(await self.address(found.primary), self.endpoint())
            return await caller.send(method, *arguments)
        except NotConnected:
            return None
        finally:
            caller.close()

    @contextlib.asynccontextmanager
    async def watching(self, name: str, account: str, floor: Callable[[], int]) -> AsyncIterator[list[Watch]]:
        """Ask every host separately for *account*, again and again; an answer below *floor* is stale."""
        found = await self.info(name)
        watches = [
            Watch(DirectCaller(host, found.group, found.epoch), floor, account, self._connecting(host))
            for host in found.placed_on
        ]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(watch.keep_asking()) for watch in watches]
            yield watches
            for task in tasks:
                task.cancel()
        for watch in watches:
            watch.close()

    def _connecting(self, host: HostId) -> Callable[[DirectCaller], Awaitable[None]]:
        async def connecting(caller: DirectCaller) -> None:
            await caller.open(await self.address(host), self.endpoint())

        return connecting

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return await ask()
            except (Unavailable, OutcomeUnknown):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)


class Client(GroupClient):
    """A client of a domain on this machine, which can also signal its processes."""

    def __init__(self, domain: Domain, connection: Connection) -> None:
        super().__init__(connection, domain.directory)
        self.domain = domain

    async def stop_hosts(self) -> None:
        await asyncio.to_thread(self.domain.run, "down")

    async def order(self, wanted: Order) -> tuple[GroupInfo, ...]:
        return await order_at(self.layout, wanted)

    async def pid(self, host: HostId) -> int:
        """Return the pid of the process of *host*; waits while it is being restarted."""
        return int(await self._known_of(host, "pid"))

    async def _known_of(self, host: HostId, what: str) -> Any:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            found = (await asyncio.to_thread(self.domain.host, host))[what]
            if found is not None:
                return found
            await asyncio.sleep(0.01)
        raise AssertionError(f"no {what} of {host} is known within {WAIT_S:g} s")

    async def address(self, host: HostId) -> str:
        """Return the address of a running host, as soon as it has reported it."""
        return str(await self._known_of(host, "address"))

    async def kill(self, host: HostId) -> int:
        """Kill the process of *host*, or the next one if the agent has just named one that had ended. Returns
        which process it was: the agent may name it a moment longer."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(ProcessLookupError):
                pid = await self.pid(host)
                os.kill(pid, signal.SIGKILL)
                return pid
            await asyncio.sleep(0.01)
        raise AssertionError(f"no process of {host} was there to be killed within {WAIT_S:g} s")

    async def kill_primary(self, name: str) -> None:
        await self.kill((await self.info(name)).primary)

    async def kill_all(self) -> None:
        """Kill -9 every running host at once."""
        await self.signal_all(signal.SIGKILL)

    async def signal_all(self, number: signal.Signals) -> None:
        for host in (await asyncio.to_thread(self.domain.status))["hosts"]:
            if host["pid"] is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(host["pid"], number)


def run(domain: Domain, work: Callable[[Client], Awaitable[T]]) -> T:
    """Connect to *domain* and run *work*."""

    async def connected() -> T:
        layout = Layout(domain.directory)
        async with connect(
            await url_of(layout, layout.read()), dir=domain.directory, policy=POLICY
        ) as connection:
            return await work(Client(domain, connection))

    return asyncio.run(connected())
