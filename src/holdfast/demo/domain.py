"""A domain on this machine and what people do to it; or one for a while, that leaves nothing behind."""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from holdfast.client.ordering import give
from holdfast.model.errors import OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.orders import Answer, GroupHistory, GroupInfo, GroupList, ListGroups, Order, ShowHistory
from holdfast.net import Endpoint, Identity, Role
from holdfast.node.holders import signal_holder, stop_domain
from holdfast.node.layout import Layout
from holdfast.node.messages import DomainStatus
from holdfast.node.reaching import address_of, addresses_of, url_of
from holdfast.node.starting import describe, hold, start_agent, wait_until_alive

START_S: Final = 60.0
POLL_S: Final = 0.05
Given = TypeVar("Given", bound=Answer)
Progress = Callable[[DomainStatus | None], None]


class LocalDomain:
    """The domain in *directory*, whose hosts are processes of this machine."""

    def __init__(self, directory: Path) -> None:
        self.layout = Layout(directory)
        self.is_kept = False
        """Whether its files are to stay, for somebody to look at."""

    async def url(self) -> str:
        """What clients connect to. Raises ``InvalidRequest`` when there is no domain, ``Unavailable`` when
        none of its hosts lives."""
        return await url_of(self.layout, self.layout.read())

    async def ask(self, order: Order, kind: type[Given], *, host: HostId | None = None) -> Given:
        """Have *host*, or any, do *order*. Raises ``Unavailable``."""
        description = self.layout.read()
        endpoint = Endpoint(Identity(description.domain, Role.ADMIN, "demo"))
        if host is None:
            addresses = await addresses_of(self.layout, description)
        else:
            addresses = [await address_of(self.layout, description, host)]
        return await give(addresses, endpoint, order, kind)

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
                    except (Unavailable, OutcomeUnknown):
                        found = None  # its hosts are being started again
                    if found is not None and len(found.in_sync) >= members:
                        return found
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            return None

    def signal_authority(self, number: signal.Signals) -> bool:
        """Signal the embedded authority's process; False when there is none."""
        return signal_holder(self.layout.authority, number)

    def signal(self, host: HostId, number: signal.Signals) -> bool:
        """Signal a host's process; False when there is none."""
        return signal_holder(self.layout.host(host), number)

    async def stop(self) -> None:
        """End every process in order; the files stay."""
        if self.layout.exists:
            await stop_domain(self.layout, self.layout.read())


@asynccontextmanager
async def temporary_domain(
    app: Path, *, hosts: int = 3, progress: Progress = lambda status: None
) -> AsyncIterator[LocalDomain]:
    """A new domain, up; afterwards nothing of it is left, unless it says otherwise by ``is_kept``. Its hosts
    import classes from *app*.

    Raises ``Unavailable`` with what its processes said when none comes up.
    """
    directory = Path(tempfile.mkdtemp(prefix="holdfast-"))
    domain = LocalDomain(directory)
    try:
        await _start(domain.layout, app, hosts, progress)
        yield domain
    finally:
        try:
            # Not to be cut short by a second Ctrl-C: what would be left behind is processes.
            await asyncio.shield(domain.stop())
        finally:
            if not domain.is_kept:
                shutil.rmtree(directory, ignore_errors=True)


async def _start(layout: Layout, app: Path, hosts: int, progress: Progress) -> None:
    lock = hold(layout)
    try:
        description = describe(layout, hosts=hosts, etcd=(), app=app)
        # The agent ends with this process, however that ends, and its hosts with it.
        agent = start_agent(layout, with_parent=True)
    finally:
        lock.release()
    await wait_until_alive(layout, description, agent, within_s=START_S, progress=progress)
