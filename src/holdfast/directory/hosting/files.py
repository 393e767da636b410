"""The files of one replica on one host, and the ports that stand on them.

``identity/``  which store this is, and how often it was opened (V5)
``clock/``     the generator's future timestamp
``store/``     entries, indexes, changelog and vector, in LMDB

They are opened anew whenever the replica begins again.
"""

import asyncio
import threading
from collections.abc import Callable, Hashable
from pathlib import Path

from holdfast.clock import ClockConfig, ClockPorts, Generator
from holdfast.clock.generator import Phase as ClockPhase
from holdfast.directory.hosting.shipped_copy import STORE, put_in_place
from holdfast.directory.lmdb_store import LmdbStore
from holdfast.directory.replica.maps import MAPS
from holdfast.directory.store import Batch
from holdfast.machine.files import make_durably
from holdfast.machine.real_ports import LoopTimers, MachineClock
from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.ids import ReplicaId
from holdfast.model.ports import Token, Trace
from holdfast.storage.disk import FileDisk
from holdfast.storage.identity import StoreIdentity, load

OnCommitted = Callable[[Token, bool], None]
OWN_TOKEN = "files"


class ReplicaFiles:
    """What one life of a replica stands on. *on_failed* is told once, when the process must end (D1)."""

    def __init__(self, directory: Path, trace: Trace, on_failed: Callable[[HoldfastError], None]) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._trace = trace
        self._on_failed = on_failed
        self.failure: asyncio.Future[HoldfastError] = loop.create_future()
        self.timers = LoopTimers(loop, self._on_timer)
        self.clock = MachineClock()
        self.generator: Generator | None = None
        self.on_timer: Callable[[Hashable], None] = lambda tag: None
        """Who hears the timers that are not the generator's."""
        self.on_committed: OnCommitted = lambda token, ok: None
        """Who hears what the store has committed."""
        self._held: list[tuple[Token, bool]] | None = None
        self._written: dict[Token, asyncio.Future[None]] = {}
        self._is_closed = False
        self._clock_disk = FileDisk(directory / "clock", self._on_clock_synced, loop.call_soon_threadsafe)
        self._identity_disk = FileDisk(
            directory / "identity", self._on_identity_synced, loop.call_soon_threadsafe
        )
        self.identity = StoreIdentity(self._identity_disk, load(self._identity_disk), self.fail)

    store: LmdbStore

    @classmethod
    async def open(
        cls, directory: Path, trace: Trace, on_failed: Callable[[HoldfastError], None]
    ) -> "ReplicaFiles":
        """Open the files of *directory*, making them if they are not there. Raises the disk's errors."""
        for name in ("identity", "clock"):
            await asyncio.to_thread(make_durably, directory / name)
        if await asyncio.to_thread(put_in_place, directory):
            trace.note("directory_copy_in_place")
        files = cls(directory, trace, on_failed)
        # On a thread: a new file is synced, and the loop must turn meanwhile.
        files.store = await asyncio.to_thread(
            LmdbStore, directory / STORE, MAPS, files._on_store_committed, files._post
        )
        return files

    # --- waiting for the disk

    async def durably(self, step: Callable[[Callable[[], None]], None]) -> None:
        """Begin *step* and wait until it says that it is durable. Raises the disk's error."""
        done: asyncio.Future[None] = self._loop.create_future()
        step(lambda: None if done.done() else done.set_result(None))
        await self.first_of(done)

    async def write(self, batch: Batch) -> None:
        """Commit *batch* to the store, and wait until it is on the disk."""
        done: asyncio.Future[None] = self._loop.create_future()
        token = (OWN_TOKEN, id(done))
        self._written[token] = done
        self.store.write(batch, token)
        await self.first_of(done)

    async def first_of(self, done: "asyncio.Future[None]") -> None:
        await asyncio.wait((done, self.failure), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise self.failure.result()

    # --- the clock

    async def open_clock(
        self, replica: ReplicaId, config: ClockConfig, *, is_new: bool, csnstate: str | None
    ) -> Generator:
        """Open the generator of *replica*, and wait until its first future timestamp is stored."""
        stored: asyncio.Future[None] = self._loop.create_future()
        generator = self.generator = Generator(
            ClockPorts(self.clock, self.timers, self._clock_disk, self._trace),
            replica,
            config,
            lock=threading.Lock(),
            on_stored=lambda: None if stored.done() else stored.set_result(None),
            on_failed=lambda why: self.fail(DiskFailed(why)),
        )
        generator.open(is_new=is_new, csnstate=csnstate)
        while generator.status().phase is ClockPhase.OPENING:
            await self.first_of(stored)
            stored = self._loop.create_future()
        return generator

    # --- its end

    def hold(self) -> None:
        """Keep back what the store says until :meth:`release`: another thread reads it in."""
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for token, ok in held:
            self._committed(token, ok)

    def fail(self, error: HoldfastError) -> None:
        if not self.failure.done() and not self._is_closed:
            error = self._clock_disk.failure or self._identity_disk.failure or error
            self.failure.set_result(error)
            self._on_failed(error)

    async def close(self) -> None:
        """Commit what waits, store where the clock is, and let the files go. Readers must be closed."""
        self._is_closed = True
        self.on_committed = lambda token, ok: None
        if self.generator is not None:
            self.generator.close()
        await asyncio.to_thread(self.store.close)
        # Closing waits for what was queued before, the generator's last timestamp among it.
        await asyncio.to_thread(self._clock_disk.close)
        await asyncio.to_thread(self._identity_disk.close)
        self.timers.close()

    # --- events

    def _post(self, work: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def _on_timer(self, tag: Hashable) -> None:
        if isinstance(tag, str) and tag.startswith("clock") and self.generator is not None:
            self.generator.on_timer(tag)
        else:
            self.on_timer(tag)

    def _on_clock_synced(self, token: Token, ok: bool) -> None:
        if self.generator is not None:
            self.generator.on_synced(token, ok)

    def _on_identity_synced(self, token: Token, ok: bool) -> None:
        self.identity.on_synced(token, ok)

    def _on_store_committed(self, token: Token, ok: bool) -> None:
        if self._held is not None:
            self._held.append((token, ok))
        else:
            self._committed(token, ok)

    def _committed(self, token: Token, ok: bool) -> None:
        done = self._written.pop(token, None)
        if not ok:
            self.fail(DiskFailed(f"nothing is committed any more: {self.store.failure}"))
        elif done is not None:
            if not done.done():
                done.set_result(None)
        else:
            self.on_committed(token, ok)
