"""Shipping on sockets and files: what one host offers, and what it fetches.

A fetch has connections of its own to its sources, made for it and closed after it. Its asks travel as
``SHIPPING_ASK``, answered on the same connection as ``SHIPPING_ANSWER``. Fetches take turns: each has the
whole rate, and no two write one file. Everything runs on one loop, which should not be one that answers calls
if files are large: reading and hashing take their time there.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from holdfast.machine.real_ports import LoopTimers, MachineClock
from holdfast.machine.trace import LibraryLog
from holdfast.model.errors import Corruption, HoldfastError, Overloaded, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.ports import Timers, Token, Trace
from holdfast.model.validation import insist_valid
from holdfast.net import (
    Address,
    Admission,
    Connection,
    ConnectionSettings,
    Expected,
    Kind,
    Link,
    Reason,
    Role,
)
from holdfast.shipping.fetch import Fetch, FetchPorts, ShippingConfig
from holdfast.shipping.manifest import Contents, ManifestId
from holdfast.shipping.messages import Ask, ChunkSent, NotSent, decode_message, encode_message
from holdfast.shipping.offering import Offering
from holdfast.shipping.progress import Progress
from holdfast.shipping.shelf import Shelf
from holdfast.storage.disk import Directory, FileDisk
from holdfast.storage.segments import Readable

SHIPPING_ADMITS: Final[Admission] = {Kind.SHIPPING_ASK: frozenset({Role.HOST})}
"""What a server takes that serves files only. Files hold everything that groups hold: hosts alone may ask."""
FREE_BYTES_MIN: Final = 256 << 20
"""What a fetch leaves free on its disk. The host's log needs room for far less than that."""
WAITING_MAX: Final = 1024
"""The most fetches at a time, the running one included. Each holds its manifest in memory."""
CONNECT_S: Final = 0.5
"""How long a fetch waits for its first connection, so as not to ask where nobody can be heard yet."""

log = LibraryLog("holdfast.shipping")


class OfferServer:
    """The offers of one host: the receiver of ``SHIPPING_ASK`` on any connection."""

    def __init__(self, trace: Trace, *, bytes_per_s: int) -> None:
        self._connections: dict[str, Connection] = {}
        self._accepted = 0
        self._names: dict[Connection, str] = {}
        self._timers: list[LoopTimers] = []
        self._offering = Offering(
            MachineClock(), self._make_timers, self, trace, self._on_damage, bytes_per_s=bytes_per_s
        )

    @property
    def bytes_sent(self) -> int:
        return self._offering.bytes_sent

    def offer(self, contents: Contents, directory: Path) -> None:
        """Serve this manifest from *directory*, whose files must not change until it is withdrawn."""
        self._offering.offer(contents, Directory(directory))

    def offer_from(self, contents: Contents, source: Readable) -> None:
        """Serve this manifest from *source*, which has the files under the names that the manifest gives."""
        self._offering.offer(contents, source)

    def withdraw(self, manifest: ManifestId) -> None:
        self._offering.withdraw(manifest)

    def asked_ns(self, manifest: ManifestId) -> int | None:
        """When a chunk of that offer was last asked for; None when none was. For any thread."""
        offer = self._offering.offers.get(manifest)
        return offer.last_asked_ns if offer is not None and offer.was_asked else None

    def offered(self) -> list[Contents]:
        return [offer.contents for offer in self._offering.offers.values()]

    def unasked_s(self, manifest: ManifestId) -> float:
        """For how long nobody has asked for a chunk of that offer; infinite when it is not offered."""
        offer = self._offering.offers.get(manifest)
        return (MachineClock.now() - offer.last_asked_ns) / 1e9 if offer is not None else float("inf")

    def close(self) -> None:
        for timers in self._timers:
            timers.close()

    # --- the receiver

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        message = decode_message(payload)
        if kind is not Kind.SHIPPING_ASK or not isinstance(message, Ask):
            raise msgspec.ValidationError(f"{kind.name} is not asked here")
        name = self._names.get(connection)
        if name is None:
            self._accepted += 1
            name = self._names[connection] = f"{connection.peer.id}/{self._accepted}"
            self._connections[name] = connection
        self._offering.on_ask(name, message)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        name = self._names.pop(connection, None)
        if name is not None:
            del self._connections[name]
            self._offering.on_lost(name)

    # --- the ports

    def send(self, peer: str, message: object) -> None:
        # There is one: what a connection has asked for goes with it.
        self._connections[peer].send(Kind.SHIPPING_ANSWER, encode_message(message))

    def _make_timers(self, on_timer: Callable[[Any], None]) -> Timers:
        self._timers.append(LoopTimers(asyncio.get_running_loop(), on_timer))
        return self._timers[-1]

    def _on_damage(self, manifest: ManifestId, damage: Corruption) -> None:
        log.warning("an offered file is damaged", manifest=manifest.hex()[:12], damage=str(damage))


class Fetcher:
    """The shelf of one host, and the fetches that fill it.

    *where* says where a host listens now; None means that it is not known. *on_failed* is told when the disk
    fails: nothing is fetched any more, and the process should end (D1).
    """

    def __init__(
        self,
        directory: Path,
        settings: ConnectionSettings,
        where: Callable[[HostId], Address | None],
        trace: Trace,
        on_failed: Callable[[HoldfastError], None],
        *,
        random: Random,
        config: ShippingConfig,
        free_bytes_min: int = FREE_BYTES_MIN,
    ) -> None:
        insist_valid(config, "settings of a fetch")
        self._free_bytes_min = free_bytes_min
        self._directory = directory
        self._settings = replace(settings, expected=Expected(roles=frozenset({Role.HOST})))
        self._where = where
        self._trace = trace
        self._on_failed = on_failed
        self._random = random
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._disk = FileDisk(directory, self._on_synced, self._loop.call_soon_threadsafe)
        self.shelf: Final = Shelf(self._disk, self, self._fail)
        self._opened: asyncio.Future[None] | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._running: _Running | None = None
        self.failure: HoldfastError | None = None

    @property
    def progress(self) -> tuple[Contents, Progress] | None:
        """How far the present fetch is; None when there is none."""
        running = self._running
        return (running.fetch.contents, running.fetch.progress) if running is not None else None

    @property
    def waiting(self) -> int:
        """How many fetches wait for their turn, without the one that runs."""
        return max(self._waiting - 1, 0)

    async def open(self) -> None:
        """Wait until what is on the shelf can be relied upon. Raises the disk's own errors."""
        if self._opened is None:
            self._opened = self._loop.create_future()
            self.guard(self.shelf.open, partial(_resolve, self._opened))
        await self._opened

    async def fetch(
        self, contents: Contents, sources: Sequence[HostId], instead_of: Contents | None = None
    ) -> Progress:
        """Fetch a manifest's files from these hosts; it counts when this returns. Files of *instead_of*,
        which nobody needs any more, become its own in place.

        Called for a manifest that counts already, it hashes everything again and mends what is damaged.
        Raises ``Unavailable`` when no source gives what is lacking or the disk has too little room: what was
        fetched stays, and another call goes on from there. Raises ``InvalidRequest`` for a manifest that
        contradicts itself, ``Overloaded`` when too many wait, and the disk's own errors.
        """
        if self._waiting >= WAITING_MAX:
            raise Overloaded(f"{self._waiting} fetches wait for their turn")
        self._waiting += 1
        try:
            return await self._fetch_in_turn(contents, sources, instead_of)
        finally:
            self._waiting -= 1

    async def _fetch_in_turn(
        self, contents: Contents, sources: Sequence[HostId], instead_of: Contents | None
    ) -> Progress:
        async with self._turn:
            if self.failure is not None:
                raise self.failure
            await self.open()
            self._require_room(contents, instead_of)
            running = self._running = _Running(self, contents, sources, instead_of)
            try:
                await running.connected()
                self.guard(running.fetch.start)
                await running.ended
            finally:
                self._running = None
                running.fetch.stop()
                await running.close()
            return running.fetch.progress

    async def keep_only(self, manifests: Sequence[Contents]) -> None:
        """Remove from the shelf what belongs to none of these, between two fetches."""
        async with self._turn:
            self.guard(self.shelf.keep_only, manifests)

    async def drop(self, contents: Contents) -> None:
        """Remove one manifest from the shelf, and what belongs to no other. It waits for no fetch: one that
        finds a file removed asks for its chunks."""
        if self.failure is None:
            await self.open()
            self.guard(self.shelf.drop, contents)

    async def close(self) -> None:
        """Stop; what was fetched stays on the shelf."""
        if self._running is not None:
            self._running.end(Unavailable("the host is closing"))
        async with self._turn:
            self.failure = self.failure or Unavailable("the host is closing")
            self._disk.close()

    def note(self, kind: str, **fields: object) -> None:
        """The trace of the cores: damage is for people too."""
        self._trace.note(kind, **fields)
        if kind.endswith(("damage", "damaged")):
            log.warning("shipped bytes are damaged and will be fetched again", **fields)

    def guard(self, work: Callable[..., object], *arguments: Any) -> None:
        """Let a core take an event. What the disk raises ends all fetching."""
        try:
            work(*arguments)
        except HoldfastError as error:
            self._fail(error)

    def link(self, host: HostId, running: "_Running") -> Link:
        return Link(
            f"files of {host}",
            partial(self._where, host),
            running.on_up,
            replace(self._settings, expected=replace(self._settings.expected, id=host)),
            random=self._random,
        )

    def fetch_ports(self, running: "_Running") -> FetchPorts:
        return FetchPorts(MachineClock(), running.make_timers, running, self)

    @property
    def config(self) -> ShippingConfig:
        return self._config

    def _require_room(self, contents: Contents, instead_of: Contents | None) -> None:
        found = os.statvfs(self._directory)
        free, needed = found.f_bavail * found.f_frsize, self.shelf.room_needed(contents, instead_of)
        if needed and free - needed < self._free_bytes_min:
            raise Unavailable(
                f"{contents!r} needs {needed} bytes; {free} are free at {self._directory}, "
                f"of which {self._free_bytes_min} are kept free"
            )

    def _on_synced(self, token: Token, ok: bool) -> None:
        self.guard(self.shelf.on_synced, token, ok)

    def _fail(self, error: HoldfastError) -> None:
        # The disk knows better than whoever was told "sync failed".
        error = self._disk.failure or error
        if self.failure is None:
            self.failure = error
            self._on_failed(error)
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(error)
        if self._running is not None:
            self._running.end(error)


def _resolve(waited: asyncio.Future[None]) -> None:
    if not waited.done():
        waited.set_result(None)


class _Running:
    """One fetch with its connections and timers: the Network port of its core, and the answers' receiver."""

    def __init__(
        self,
        fetcher: Fetcher,
        contents: Contents,
        sources: Sequence[HostId],
        instead_of: Contents | None,
    ) -> None:
        self._fetcher = fetcher
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._timers: list[LoopTimers] = []
        self.fetch: Final = Fetch(
            contents, sources, fetcher.shelf, fetcher.fetch_ports(self), self.end, fetcher.config, instead_of
        )
        self._is_up = asyncio.Event()
        self._links = {host: fetcher.link(host, self) for host in sources}

    async def connected(self) -> None:
        """Wait until a source is connected, but not for long: it may be that none is needed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_S):
                await self._is_up.wait()

    def on_up(self, connection: Connection) -> "_Running":
        self._is_up.set()
        return self

    def end(self, error: HoldfastError | None) -> None:
        if error is None:
            _resolve(self.ended)
        elif not self.ended.done():
            self.ended.set_exception(error)

    async def close(self) -> None:
        for timers in self._timers:
            timers.close()
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def make_timers(self, on_timer: Callable[[Any], None]) -> Timers:
        self._timers.append(LoopTimers(self._loop, partial(self._fetcher.guard, on_timer)))
        return self._timers[-1]

    def send(self, peer: str, message: object) -> None:
        if not self._links[HostId(peer)].send(Kind.SHIPPING_ASK, encode_message(message)):
            # Not inside the core's own call; and what was asked of nobody need not be waited for.
            self._loop.call_soon(self._lost, peer)

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        message = decode_message(payload)
        peer = connection.peer.id
        if kind is Kind.SHIPPING_ANSWER and isinstance(message, ChunkSent):
            self._fetcher.guard(self.fetch.on_chunk, peer, message)
        elif kind is Kind.SHIPPING_ANSWER and isinstance(message, NotSent):
            self._fetcher.guard(self.fetch.on_not_sent, peer, message)
        else:
            raise msgspec.ValidationError(f"{kind.name} answers nothing that was asked")

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._lost(connection.peer.id)

    def _lost(self, peer: str) -> None:
        self._fetcher.guard(self.fetch.on_lost, peer)
