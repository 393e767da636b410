"""A host's store: a directory with its log and checkpoints, which is numbered each time it is opened.

Opening takes an exchange between the disk and the authority (:mod:`holdfast.authority.store_opening`). If the
authority does not know the store in its present state, the store cannot be trusted, and the host begins a new
one.
"""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from holdfast.authority.recipe import Authority
from holdfast.authority.store_opening import StoreOpening
from holdfast.clock.errors import ClockConfig
from holdfast.groups.stamps import Stamps
from holdfast.machine import LogTrace, LoopTimers, MachineClock
from holdfast.model.errors import BrokenInvariant, Corruption, HoldfastError
from holdfast.model.ids import HostId, Nonce, Opening, ReplicaId, StoreId
from holdfast.model.ports import Token
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.disk import FileDisk
from holdfast.storage.free_space import FreeSpace
from holdfast.storage.identity import StoreIdentity, load
from holdfast.storage.log import Log
from holdfast.storage.recovery import scan
from holdfast.storage.scratch import ScratchStore
from holdfast.storage.segments import LogConfig, salt_of
from holdfast.storage.writer import Phase

STORE: Final = "store"
"""The store's directory within the host's directory."""

log = structlog.get_logger("holdfast.store")


class HostStore:
    """The store of one host in *directory*, which the host has locked."""

    def __init__(
        self,
        directory: Path,
        host: HostId,
        authority: Authority,
        nonces: Callable[[], Nonce],
        config: LogConfig,
        clock: ClockConfig,
    ) -> None:
        self._clock = clock
        self._host = host
        self._loop = asyncio.get_running_loop()
        self.directory = directory / STORE
        call_soon = partial(self._loop.call_soon_threadsafe, self._guarded)  # type: ignore[arg-type]  # what it gets is added to a partial
        self._disk = FileDisk(self.directory, self._on_synced, call_soon)
        self._failure: asyncio.Future[None] = self._loop.create_future()
        self._identity = StoreIdentity(self._disk, load(self._disk), self.fail)
        self._opening = StoreOpening(self._identity, host, authority, nonces, self._durably)
        self._config = config
        self._log: Log | None = None
        self._checkpoints: CheckpointStore | None = None
        self._scratch: ScratchStore | None = None
        self._stamps: Stamps | None = None

    @property
    def on_durable(self) -> Callable[[int], None]:
        """Called with the number of records of this opening that would survive a power cut."""
        return self.log.on_durable

    @on_durable.setter
    def on_durable(self, then: Callable[[int], None]) -> None:
        self.log.on_durable = then

    async def open(self) -> None:
        """Get a number for this opening, then open the log; waits while the authority is away.

        Raises ``Corruption`` if the disk is damaged, and ``AuthorityBehind`` if the authority was restored.
        """
        await self._opening.open()
        await self._open_log()
        self._checkpoints = CheckpointStore(self._disk, salt=salt_of(self.id), on_failed=self.fail)
        self._scratch = ScratchStore(self._disk, salt=salt_of(self.id), on_failed=self.fail)
        log.info("store is open", store=self.id, opening=self.opening, groups=len(self.log.groups()))

    @property
    def log(self) -> Log:
        if self._log is None:
            raise BrokenInvariant("the log is used only once the store is open")
        return self._log

    @property
    def checkpoints(self) -> CheckpointStore:
        if self._checkpoints is None:
            raise BrokenInvariant("checkpoints are used only once the store is open")
        return self._checkpoints

    @property
    def scratch(self) -> ScratchStore:
        if self._scratch is None:
            raise BrokenInvariant("scratch files are used only once the store is open")
        return self._scratch

    async def open_stamps(self, replica: ReplicaId) -> Stamps:
        """Open the host's clock, kept in this store. Without records there is no stamp to continue from."""
        self._stamps = Stamps(
            replica,
            clock=MachineClock(),
            timers=lambda on_timer: LoopTimers(self._loop, on_timer),
            disk=self._disk,
            trace=LogTrace(),
            on_failed=self.fail,
            config=self._clock,
            lock=threading.Lock(),  # taken without a call of Python code, unlike a context that does nothing
        )
        opened: asyncio.Future[None] = self._loop.create_future()
        self._stamps.open(lambda: opened.set_result(None), is_new=not self.log.groups())
        await self._first_of(opened)
        return self._stamps

    @property
    def id(self) -> StoreId:
        return self._opening.store.store

    @property
    def opening(self) -> Opening:
        return self._opening.store.opening

    @property
    def log_bytes(self) -> int:
        """The space that the store's files take on the disk."""
        return sum(self._disk.size(name) for name in self._disk.list())

    def space(self) -> FreeSpace | None:
        """The space on the disk, as last looked up (D5)."""
        return self._disk.space()

    def adopt(self, name: str) -> None:
        """Register a file that a copy of this process has written."""
        self._disk.adopt(name)

    def oldest_sync_age_ns(self) -> int:
        """How long the oldest unfinished sync has been running. May be called from any thread (K3)."""
        return self._disk.oldest_sync_age_ns()

    async def failed(self) -> None:
        """Wait until the disk fails, and raise its error: the host must then end (D1)."""
        await asyncio.shield(self._failure)

    async def close(self) -> None:
        """Close in good order: a final record follows the last batch and proves it complete (D2)."""
        if self._stamps is not None:
            self._stamps.close()
        if self._log is not None and self._log.phase is Phase.OPEN and not self._failure.done():
            number = self._log.settle()
            self._log.flush()
            while self._log.durable < number and not self._failure.done():
                await asyncio.sleep(0.001)
        self._disk.close()

    # --- opening

    async def _open_log(self) -> None:
        # On a thread: reading a long log must not look like a hung loop (K3) or delay SIGTERM. Nothing else
        # uses the disk meanwhile.
        recovered = await asyncio.to_thread(
            scan, self._disk, salt=salt_of(self.id), sector=self._config.sector_bytes
        )
        opened: asyncio.Future[None] = self._loop.create_future()
        self._log = Log(
            self._disk,
            recovered,
            store=self.id,
            opening=self.opening,
            config=self._config,
            on_open=lambda: opened.set_result(None),
            on_durable=lambda _: None,
            on_stopped=self.fail,
            trace=LogTrace(host=self._host),
        )
        self._log.open()
        await self._first_of(opened)

    # --- the disk

    def _on_synced(self, token: Token, ok: bool) -> None:
        for part in (self._log, self._checkpoints, self._scratch, self._stamps, self._identity):
            if part is not None and part.on_synced(token, ok):
                return

    def _guarded(self, deliver: Callable[[], None]) -> None:
        """Let the disk deliver its answers; whatever goes wrong then ends the host."""
        try:
            deliver()
        except HoldfastError as error:
            self.fail(error)

    def fail(self, error: HoldfastError) -> None:
        """Note that the disk has failed, which makes :meth:`failed` raise *error*."""
        if not self._failure.done():
            # The log only learns that a sync failed; the disk knows the cause, such as "no space left".
            self._failure.set_exception(self._disk.failure or error)

    async def _durably(self, step: Callable[[Callable[[], None]], None]) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        step(lambda: done.set_result(None))
        await self._first_of(done)

    async def _first_of(self, done: "asyncio.Future[None]") -> None:
        """Wait for *done*, or raise the disk's error if it fails first."""
        await asyncio.wait((done, self._failure), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            await self._failure


def advice(error: HoldfastError, store: Path) -> str:
    """What a person can do about the disk error that ended the host."""
    if isinstance(error, Corruption):
        return (
            f"`holdfast log inspect {store}` shows the damage; once {store} is moved away, the host joins as "
            "new and is brought up to date by its peers"
        )
    return f"see to the disk of {store}; the host tries again by itself"
