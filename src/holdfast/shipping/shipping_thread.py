"""A host's shipping on a thread and a loop of its own, beside the loop that answers calls.

Reading and hashing a chunk takes a millisecond of a slow disk, and the interpreter is free meanwhile: on a
thread of its own that holds up nobody. Its methods may be called from any thread.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import uvloop

from holdfast.model.errors import HoldfastError, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.ports import Trace
from holdfast.net import Address, ConnectionSettings, Server, serve
from holdfast.shipping.fetch import ShippingConfig
from holdfast.shipping.manifest import Contents, ManifestId
from holdfast.shipping.progress import SHOWN_MAX, FetchStatus, Progress, ShippingStatus
from holdfast.shipping.service import SHIPPING_ADMITS, Fetcher, OfferServer
from holdfast.storage.segments import Readable

LOOK_S: Final = 0.5
"""How often the status is taken that others may see without waiting for the thread."""
CLOSE_WAIT_S: Final = 10.0
"""A hung disk must not hang the end of its host: the thread ends with the process then."""


@dataclass(frozen=True, slots=True)
class ShippingSettings:
    """What shipping needs to know of its host."""

    directory: Path
    """The shelf."""
    connection: ConnectionSettings
    where: Callable[[HostId], Address | None]
    """Where a host's shipping listens; called on the thread."""
    on_failed: Callable[[HoldfastError], None]
    """Told, on the thread, when the disk has failed (D1)."""
    listen_at: Address
    config: ShippingConfig


class ShippingThread:
    """The thread. It may :meth:`listen` before its host may write, and offers and fetches nothing before
    :meth:`open` has returned; :meth:`start` is both."""

    def __init__(self, settings: ShippingSettings, trace: Trace, *, random: Random) -> None:
        self._settings = settings
        self._trace = trace
        self._random = random
        self._listening: Future[Address] = Future()
        self._started: Future[None] = Future()
        self._go_on: asyncio.Event | None = None
        self.latest = ShippingStatus()
        """What :meth:`status` answered lately. It never waits, whatever the disk does."""
        self._thread = threading.Thread(target=self._run, name="shipping", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._offers: OfferServer | None = None
        self._fetcher: Fetcher | None = None

    def start(self) -> Address:
        """Listen and open the shelf; return where. Raises what keeps it from that."""
        address = self.listen()
        self.open()
        return address

    def listen(self) -> Address:
        """Listen, and return where; nothing is written yet. Whoever asks is told that nothing is offered.
        Raises ``Unavailable`` or ``InvalidRequest``."""
        self._thread.start()
        return self._listening.result()

    def open(self) -> None:
        """Open the shelf. Raises the disk's errors."""
        if self._loop is None or self._go_on is None or not self._thread.is_alive():
            raise Unavailable("shipping does not listen, or has ended")
        self._loop.call_soon_threadsafe(self._go_on.set)
        self._started.result()

    def offer(self, contents: Contents, directory: Path) -> None:
        """Serve this manifest from *directory*, whose files must not change until it is withdrawn."""
        self._call(self._opened()[1].offer, contents, directory)

    def offer_from(self, contents: Contents, source: Readable) -> None:
        """Serve this manifest from *source*, read on the thread; its files must not change meanwhile."""
        self._call(self._opened()[1].offer_from, contents, source)

    def asked_ns(self, manifest: ManifestId) -> int | None:
        """When a chunk of that offer was last asked for; None when none was. It never waits for the
        thread."""
        return self._opened()[1].asked_ns(manifest)

    def withdraw(self, manifest: ManifestId) -> None:
        self._call(self._opened()[1].withdraw, manifest)

    def unasked_s(self, manifest: ManifestId) -> float:
        """For how long nobody has asked for a chunk of that offer; infinite when it is not offered."""
        return float(self._call(self._opened()[1].unasked_s, manifest))

    def fetch(
        self, contents: Contents, sources: Sequence[HostId], instead_of: Contents | None = None
    ) -> "Future[Progress]":
        """Like :meth:`.service.Fetcher.fetch`; the future may be cancelled."""
        loop, _, fetcher = self._opened()
        return asyncio.run_coroutine_threadsafe(fetcher.fetch(contents, sources, instead_of), loop)

    def keep_only(self, manifests: Iterable[Contents]) -> "Future[None]":
        """Remove from the shelf what belongs to none of these, between two fetches."""
        loop, _, fetcher = self._opened()
        return asyncio.run_coroutine_threadsafe(fetcher.keep_only(tuple(manifests)), loop)

    def drop(self, contents: Contents) -> "Future[None]":
        """Remove one manifest from the shelf, and what belongs to no other, between two fetches."""
        loop, _, fetcher = self._opened()
        return asyncio.run_coroutine_threadsafe(fetcher.drop(contents), loop)

    def holds(self, manifest: ManifestId) -> bool:
        """Whether that manifest counts here (W5)."""
        return bool(self._call(self._opened()[2].shelf.holds, manifest))

    def status(self) -> ShippingStatus:
        found = self._call(self._status)
        assert isinstance(found, ShippingStatus)
        return found

    def close(self) -> None:
        """End fetches, connections and the thread."""
        loop, end = self._loop, self._end
        if loop is not None and end is not None and self._thread.is_alive():
            loop.call_soon_threadsafe(end.set)
            self._thread.join(CLOSE_WAIT_S)

    def _opened(self) -> tuple[asyncio.AbstractEventLoop, OfferServer, Fetcher]:
        if self._loop is None or self._offers is None or self._fetcher is None or not self._thread.is_alive():
            raise Unavailable("shipping has not started, or has ended")
        return self._loop, self._offers, self._fetcher

    def _call(self, work: Callable[..., object], *arguments: Any) -> Any:
        """Do something on the thread and wait for it. Nothing there waits for whoever calls."""
        loop, _, _ = self._opened()

        async def called() -> object:
            return work(*arguments)

        return asyncio.run_coroutine_threadsafe(called(), loop).result()

    # --- on the thread

    def _run(self) -> None:
        found: HoldfastError = Unavailable("shipping has ended")
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except HoldfastError as error:
            found = error
        finally:
            for waited in (self._listening, self._started):
                if not waited.done():
                    waited.set_exception(found)

    async def _serve(self) -> None:
        settings = self._settings
        end, self._go_on = asyncio.Event(), asyncio.Event()
        self._end, self._loop = end, asyncio.get_running_loop()
        offers = OfferServer(self._trace, bytes_per_s=settings.config.offered_bytes_per_s)
        server: Server | None = None
        try:
            server = await serve(
                settings.listen_at, lambda _: offers, settings.connection, admits=SHIPPING_ADMITS
            )
            self._listening.set_result(server.address)
            waited = (asyncio.ensure_future(each.wait()) for each in (self._go_on, end))
            await asyncio.wait(tuple(waited), return_when=asyncio.FIRST_COMPLETED)
            if not end.is_set():
                await self._serve_shelf(offers, end)
        finally:
            offers.close()
            if server is not None:
                await server.close()

    async def _serve_shelf(self, offers: OfferServer, end: asyncio.Event) -> None:
        settings = self._settings
        fetcher = Fetcher(
            settings.directory,
            settings.connection,
            settings.where,
            self._trace,
            settings.on_failed,
            random=self._random,
            config=settings.config,
        )
        try:
            await fetcher.open()
            self._offers, self._fetcher = offers, fetcher
            self._started.set_result(None)
            while not end.is_set():
                self.latest = self._status()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await end.wait()
        finally:
            await fetcher.close()

    def _status(self) -> ShippingStatus:
        _, offers, fetcher = self._opened()
        return ShippingStatus(
            is_open=fetcher.failure is None,
            offered=tuple(map(repr, offers.offered()[:SHOWN_MAX])),
            sent_bytes=offers.bytes_sent,
            counting=tuple(manifest.hex() for manifest in fetcher.shelf.complete()[:SHOWN_MAX]),
            waiting=fetcher.waiting,
            problem=str(fetcher.failure or ""),
            fetching=_fetch_status(*fetcher.progress) if fetcher.progress is not None else None,
        )


def _fetch_status(contents: Contents, progress: Progress) -> FetchStatus:
    return FetchStatus(
        subject=contents.manifest.subject,
        manifest=contents.id.hex(),
        phase=progress.phase,
        total_bytes=progress.total,
        found_bytes=progress.found,
        received_bytes=progress.received,
        damaged_chunks=progress.damaged,
        damage=progress.damage,
        problem=progress.problem,
    )
