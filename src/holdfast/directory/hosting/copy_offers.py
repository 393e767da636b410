"""Copies of this host's store that others fetch: the whole file, compacted, offered by shipping (W5).

A copy is made when a replica asks that is counted already (G5), so it may be as old as that: nothing that the
replica lacks is trimmed or purged before it has spoken. Whoever was cut off and asks again is offered the
same copy, and fetches only what it lacks of it.
"""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from holdfast.directory.lmdb_store import FILE, LmdbStore
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import Epoch, Position, ReplicaId
from holdfast.shipping.manifest import Contents, describe
from holdfast.shipping.shipping_thread import ShippingThread
from holdfast.storage.disk import Directory

COPIES_MAX: Final = 2
"""How many copies may be there at a time: each is as large as the store."""
UNASKED_S: Final = 600.0
"""A copy of which nobody has fetched anything for so long is dropped."""
LOOK_S: Final = 10.0

log: Final = structlog.get_logger("holdfast.directory")
Then = Callable[[bytes | None], None]


@dataclass(frozen=True, slots=True)
class _Copy:
    contents: Contents
    directory: Path


class CopyOffers:
    """Implements :class:`holdfast.directory.replication.ports.ShippedCopies` for one life of a replica."""

    def __init__(
        self, directory: Path, store: LmdbStore, suffix: str, shipping: Callable[[], ShippingThread]
    ) -> None:
        """*directory* is for copies alone: what an earlier process left there goes. *shipping* raises
        ``Unavailable`` if this host ships nothing."""
        self._directory = directory
        self._store = store
        self._suffix = suffix
        self._shipping = shipping
        self._copies: dict[ReplicaId, _Copy] = {}
        self._making: dict[ReplicaId, list[Then]] = {}
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._looking = self._loop.call_later(LOOK_S, self._look)
        shutil.rmtree(directory, ignore_errors=True)

    def offer(self, replica: ReplicaId, then: Then) -> None:
        known = self._copies.get(replica)
        if known is not None:
            then(known.contents.encoded)
        elif replica in self._making:
            self._making[replica].append(then)
        elif len(self._copies) + len(self._making) >= COPIES_MAX:
            then(None)
        else:
            self._making[replica] = [then]
            self._spawn(self._make(replica))

    def taken(self, replica: ReplicaId) -> None:
        copy = self._copies.pop(replica, None)
        if copy is not None:
            self._spawn(self._drop(copy))

    async def close(self) -> None:
        self._looking.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for copy in self._copies.values():
            await self._drop(copy)
        self._copies.clear()

    async def _make(self, replica: ReplicaId) -> None:
        copy: _Copy | None = None
        try:
            copy = await asyncio.to_thread(self._made, replica)
            self._copies[replica] = copy
        except HoldfastError as error:
            log.warning("no copy of the store can be offered", replica=replica, why=str(error))
        for then in self._making.pop(replica):
            then(None if copy is None else copy.contents.encoded)

    def _made(self, replica: ReplicaId) -> _Copy:
        shipping = self._shipping()
        directory = self._directory / f"{replica}"
        self._store.copy(directory)
        contents = describe(
            Directory(directory),
            [FILE],
            subject=f"directory {self._suffix}",
            epoch=Epoch(1),
            position=Position(replica),
        )
        shipping.offer(contents, directory)
        return _Copy(contents, directory)

    async def _drop(self, copy: _Copy) -> None:
        with suppress(HoldfastError):  # shipping has ended, and its offers with it
            await asyncio.to_thread(self._shipping().withdraw, copy.contents.id)
        await asyncio.to_thread(shutil.rmtree, copy.directory, ignore_errors=True)

    def _look(self) -> None:
        self._looking = self._loop.call_later(LOOK_S, self._look)
        if self._copies:
            self._spawn(self._drop_unasked())

    async def _drop_unasked(self) -> None:
        for replica, copy in list(self._copies.items()):
            try:
                unasked_s = await asyncio.to_thread(self._shipping().unasked_s, copy.contents.id)
            except HoldfastError:
                return
            if unasked_s > UNASKED_S:
                self.taken(replica)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done))
