"""A domain on this machine and what people do to it, a temporary domain, and the end of a demo on a signal.

:class:`Ending` ends a demo or a soak early in such a way that the calls made until then are still counted.
"""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import uvloop

from holdfast.agent.startup import describe, hold, start_agent, wait_until_alive
from holdfast.agent.status_client import (
    address_of,
    addresses_of,
    signal_holder,
    stop_domain,
    url_of,
)
from holdfast.client.admin_client import give
from holdfast.client.domain import Domain, connect
from holdfast.model.admin.groups import (
    Answer,
    GroupHistory,
    GroupInfo,
    GroupList,
    ListGroups,
    Order,
    ShowHistory,
)
from holdfast.model.errors import OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId
from holdfast.node.endpoints import admin_endpoint
from holdfast.node.layout import Layout
from holdfast.node.messages import DomainStatus

START_S: Final = 60.0
POLL_S: Final = 0.05
Given = TypeVar("Given", bound=Answer)
Progress = Callable[[DomainStatus | None], None]


class LocalDomain:
    """The domain in *directory*, whose hosts are processes of this machine."""

    def __init__(self, directory: Path) -> None:
        self.layout = Layout(directory)
        self.is_kept = False
        """Whether its files are kept for someone to examine."""

    async def url(self) -> str:
        """Return what clients connect to.

        Raises ``InvalidRequest`` when there is no domain, ``Unavailable`` when none of its hosts lives.
        """
        return await url_of(self.layout, self.layout.read())

    async def client(self) -> Domain:
        """Return a client of the domain, to be entered."""
        return connect(await self.url(), dir=self.layout.directory)

    def files(self, host: HostId) -> Path:
        """Return the directory of *host*."""
        return self.layout.host(host)

    async def ask(self, order: Order, kind: type[Given], *, host: HostId | None = None) -> Given:
        """Let *host*, or any host, carry out *order*. Raises ``Unavailable``."""
        description = self.layout.read()
        endpoint = admin_endpoint(self.layout, description)
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
        """Return the group once that many members are in sync; None when that takes too long."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    try:
                        found = await self.group(name)
                    except (Unavailable, OutcomeUnknown):
                        found = None  # its hosts are being restarted
                    if found is not None and len(found.in_sync) >= members:
                        return found
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            return None

    def signal_authority(self, number: signal.Signals) -> bool:
        """Signal the embedded authority's process; returns False when there is none."""
        return signal_holder(self.layout.authority, number)

    def signal(self, host: HostId, number: signal.Signals) -> bool:
        """Signal a host's process; returns False when there is none."""
        return signal_holder(self.layout.host(host), number)

    async def stop(self) -> None:
        """End every process in an orderly way; the files remain."""
        if self.layout.exists:
            await stop_domain(self.layout, self.layout.read())


@asynccontextmanager
async def temporary_domain(
    app: Path, *, hosts: int = 3, progress: Progress = lambda status: None
) -> AsyncIterator[LocalDomain]:
    """Start a new domain, which is removed afterwards unless ``is_kept`` is set.

    Its hosts import classes from *app*.

    Raises ``Unavailable`` with the output of its processes when the domain does not start.
    """
    directory = Path(tempfile.mkdtemp(prefix="holdfast-"))
    domain = LocalDomain(directory)
    try:
        await _start(domain.layout, app, hosts, progress)
        yield domain
    finally:
        try:
            # A second Ctrl-C must not cut this short: it would leave processes behind.
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


SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
ASKED: Final = "asked to end: what is broken now is got over, then every call is counted (again: end at once)"

Found = TypeVar("Found")


class Ending:
    """Handles signals that ask for the end.

    The first signal, once there are calls to count, asks for an orderly end. A second signal, or one before
    that, ends *at once* by cancelling *task*. Signals after that are ignored: only processes remain to be
    ended, and that must not be cut short.
    """

    def __init__(self, task: "asyncio.Task[Any]", on_asked: Callable[[str], None]) -> None:
        self._task = task
        self._on_asked = on_asked
        self._asked = asyncio.Event()
        self._is_loaded = False
        self._is_cut_short = False

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    def on_load(self) -> None:
        """Note that the first call is about to be made."""
        self._is_loaded = True

    def on_signal(self) -> None:
        if self._is_loaded and not self.is_asked:
            self._asked.set()
            self._on_asked(ASKED)
        elif not self._is_cut_short:
            self._is_cut_short = True
            self._task.cancel()

    async def rest(self, seconds: float) -> None:
        """Wait that long, or until the end is requested."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._asked.wait()


def run_until_asked(
    main: Callable[[Ending], Coroutine[Any, Any, Found]], *, on_asked: Callable[[str], None]
) -> Found:
    """Run *main* in its own event loop, with an ending that handles SIGINT and SIGTERM.

    *on_asked* gets a line for people when an orderly end was requested. Raises ``KeyboardInterrupt`` when the
    run was ended at once.
    """

    async def heard() -> Found:
        task = asyncio.current_task()
        assert task is not None  # a running coroutine has a task
        ending = Ending(task, on_asked)
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, ending.on_signal)
        return await main(ending)

    try:
        return uvloop.run(heard())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
