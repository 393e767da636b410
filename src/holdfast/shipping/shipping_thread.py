"""A host's shipping on a thread and a loop of its own, beside the loop that answers calls.

Reading and hashing a chunk takes a millisecond of a slow disk, and the interpreter is free meanwhile: on a
thread of its own that holds up nobody. Its methods may be called from any thread.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import uvloop
from msgspec import Struct

from holdfast.model.errors import HoldfastError, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.ports import Trace
from holdfast.net import Address, ConnectionSettings, Server, serve
from holdfast.shipping.fetch import FetchConfig, Progress
from holdfast.shipping.manifest import Contents, ManifestId
from holdfast.shipping.service import OFFERED_BYTES_PER_S, SHIPPING_ADMITS, Fetcher, OfferServer

CLOSE_WAIT_S: Final = 10.0
"""A hung disk must not hang the end of its host: the thread ends with the process then."""


class FetchStatus(Struct, frozen=True, kw_only=True):
    """How far a fetch is, for people."""

    subject: str
    manifest: str
    phase: str
    total_bytes: int
    found_bytes: int
    received_bytes: int
    damaged_chunks: int
    damage: str
    """The last of them, with its file and offset."""
    problem: str
    """Why the last source was left."""


class ShippingStatus(Struct, frozen=True, kw_only=True):
    """What a host ships at this moment."""

    offered: tuple[str, ...]
    """What it offers: subject, position and id."""
    sent_bytes: int
    counting: tuple[str, ...]
    """The ids of the manifests that count on its shelf."""
    fetching: FetchStatus | None


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
    fetch: FetchConfig
    offered_bytes_per_s: int = OFFERED_BYTES_PER_S


class ShippingThread:
    """The thread. Nothing works before :meth:`start` has returned."""

    def __init__(self, settings: ShippingSettings, trace: Trace, *, random: Random) -> None:
        self._settings = settings
        self._trace = trace
        self._random = random
        self._started: Future[Address] = Future()
        self._thread = threading.Thread(target=self._run, name="shipping", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._offers: OfferServer | None = None
        self._fetcher: Fetcher | None = None

    def start(self) -> Address:
        """Open the shelf and listen; return where. Raises what keeps it from that."""
        self._thread.start()
        return self._started.result()

    def offer(self, contents: Contents, directory: Path) -> None:
        """Serve this manifest from *directory*, whose files must not change until it is withdrawn."""
        self._call(self._opened()[1].offer, contents, directory)

    def withdraw(self, manifest: ManifestId) -> None:
        self._call(self._opened()[1].withdraw, manifest)

    def unasked_s(self, manifest: ManifestId) -> float:
        """For how long nobody has asked for a chunk of that offer; infinite when it is not offered."""
        return float(self._call(self._opened()[1].unasked_s, manifest))

    def fetch(self, contents: Contents, sources: Sequence[HostId]) -> "Future[Progress]":
        """Like :meth:`.service.Fetcher.fetch`; the future may be cancelled."""
        loop, _, fetcher = self._opened()
        return asyncio.run_coroutine_threadsafe(fetcher.fetch(contents, sources), loop)

    def keep_only(self, manifests: Iterable[Contents]) -> "Future[None]":
        """Remove from the shelf what belongs to none of these, between two fetches."""
        loop, _, fetcher = self._opened()
        return asyncio.run_coroutine_threadsafe(fetcher.keep_only(tuple(manifests)), loop)

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
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(self._serve())
            except HoldfastError as error:
                if not self._started.done():
                    self._started.set_exception(error)

    async def _serve(self) -> None:
        settings = self._settings
        end = self._end = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        offers = self._offers = OfferServer(self._trace, bytes_per_s=settings.offered_bytes_per_s)
        fetcher = self._fetcher = Fetcher(
            settings.directory,
            settings.connection,
            settings.where,
            self._trace,
            settings.on_failed,
            random=self._random,
            config=settings.fetch,
        )
        server: Server | None = None
        try:
            await fetcher.open()
            server = await serve(
                settings.listen_at, lambda _: offers, settings.connection, admits=SHIPPING_ADMITS
            )
            self._started.set_result(server.address)
            await end.wait()
        finally:
            offers.close()
            await fetcher.close()
            if server is not None:
                await server.close()

    def _status(self) -> ShippingStatus:
        _, offers, fetcher = self._opened()
        return ShippingStatus(
            offered=tuple(map(repr, offers.offered())),
            sent_bytes=offers.bytes_sent,
            counting=tuple(manifest.hex() for manifest in fetcher.shelf.complete()),
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
