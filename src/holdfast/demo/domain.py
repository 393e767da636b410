"""A domain on this machine for a while: hosts as real processes, in a directory that goes with it."""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from holdfast.client.ordering import give
from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId
from holdfast.model.orders import Answer, GroupHistory, GroupInfo, GroupList, ListGroups, Order, ShowHistory
from holdfast.net import Endpoint, Identity, Role
from holdfast.node.holders import signal_holder, stop_domain
from holdfast.node.layout import Layout
from holdfast.node.messages import DomainStatus
from holdfast.node.reaching import addresses_of, url_of
from holdfast.node.starting import describe, hold, start_agent, wait_until_alive

START_S: Final = 60.0
POLL_S: Final = 0.05
Given = TypeVar("Given", bound=Answer)


class LocalDomain:
    """``async with LocalDomain(app) as domain``: up when entered; afterwards nothing of it is left.

    *app* is the directory from which the hosts import classes.
    """

    def __init__(
        self,
        app: Path,
        *,
        hosts: int = 3,
        progress: Callable[[DomainStatus | None], None] = lambda status: None,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._progress = progress
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-"))
        self.layout = Layout(self.directory)
        self.url = ""

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def stop(self) -> None:
        """End every process in order; the files stay until the domain is closed."""
        if self.layout.exists:
            await stop_domain(self.layout, self.layout.read())

    async def close(self) -> None:
        try:
            # Not to be cut short by a second Ctrl-C: what would be left behind is processes.
            await asyncio.shield(self.stop())
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    # --- what people do to it

    async def ask(self, order: Order, kind: type[Given]) -> Given:
        """Have any host do *order*."""
        description = self.layout.read()
        endpoint = Endpoint(Identity(description.domain, Role.ADMIN, "demo"))
        return await give(await addresses_of(self.layout, description), endpoint, order, kind)

    async def group(self, name: str) -> GroupInfo:
        return (await self.ask(ListGroups(name=name), GroupList)).groups[0]

    async def history(self, name: str) -> GroupHistory:
        return await self.ask(ShowHistory(name=name), GroupHistory)

    async def wait_in_sync(self, name: str, *, members: int, within_s: float) -> GroupInfo | None:
        """The group, once so many members are in sync; None when that takes too long."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    try:
                        found = await self.group(name)
                    except Unavailable:
                        found = None  # its hosts are being started again
                    if found is not None and len(found.in_sync) >= members:
                        return found
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            return None

    def signal(self, host: HostId, number: signal.Signals) -> bool:
        """Signal a host's process; False when there is none."""
        return signal_holder(self.layout.host(host), number)

    async def kill_primary(self, name: str) -> HostId:
        """As a crash would; which host it was."""
        primary = (await self.group(name)).primary
        self.signal(primary, signal.SIGKILL)
        return primary

    # --- starting

    async def _start(self) -> None:
        lock = hold(self.layout)
        try:
            description = describe(self.layout, hosts=self._hosts, etcd=(), app=self._app)
            # The agent ends with this process, however that ends, and its hosts with it.
            agent = start_agent(self.layout, with_parent=True)
        finally:
            lock.release()
        await wait_until_alive(self.layout, description, agent, within_s=START_S, progress=self._progress)
        self.url = await url_of(self.layout, description)
