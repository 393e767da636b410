"""Asking a peer for the file of its store, and fetching it: the first way to fill this host's store.

It is as fast as the disk and the line, and goes on where it was cut off. Where it does not succeed, the rows
are taken one after the other (:mod:`.copying`).
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog
from msgspec import structs

from holdfast.directory.hosting.files import ReplicaFiles
from holdfast.directory.hosting.peer_links import PeerLinks
from holdfast.directory.hosting.shipped_copy import take_file
from holdfast.directory.replica.maps import KEPT
from holdfast.directory.replication.messages import (
    CopyAsk,
    CopyOffered,
    Message,
    Reason,
    Refused,
    ShippedCopyAsk,
)
from holdfast.directory.replication.roster import Own, own_row
from holdfast.directory.replication.taking import HALF_COPIED
from holdfast.directory.store import Batch
from holdfast.model.errors import DISK_ERRORS, HoldfastError
from holdfast.model.ids import HostId
from holdfast.shipping.manifest import decode_manifest
from holdfast.shipping.shipping_thread import ShippingThread

ATTEMPTS: Final = 3
"""How often a file is asked for; then rows are."""
SOURCE_PATIENCE_S: Final = 10.0
"""For how long the one is waited for whom people have named; then anybody will do."""
OFFER_S: Final = 600.0
"""How long the giver may take to copy and hash its file."""

log: Final = structlog.get_logger("holdfast.directory")


class FileCopying:
    """Takes one copy: implements :class:`.peer_links.PeerEvents`."""

    def __init__(
        self,
        files: ReplicaFiles,
        own: Own,
        *,
        suffix: str,
        links: PeerLinks,
        source: HostId | None,
        directory: Path,
        shelf: Path,
        shipping: Callable[[], ShippingThread],
    ) -> None:
        """*directory* is the replica's, *shelf* where *shipping* keeps what it has fetched."""
        self._files = files
        self._own = own
        self._suffix = suffix
        self._links = links
        self._named: str | None = source
        self._directory = directory
        self._shelf = shelf
        self._shipping = shipping
        self._up: dict[str, None] = {}
        self._asked: str | None = None
        self._answer: asyncio.Future[tuple[HostId, bytes] | None] = asyncio.get_running_loop().create_future()
        self.problem = ""
        """Why the last peer that was asked gave none."""

    @property
    def bytes(self) -> int:
        """How much of the file is here."""
        try:
            fetching = self._shipping().latest.fetching
        except HoldfastError:
            return 0
        return 0 if fetching is None else fetching.found_bytes + fetching.received_bytes

    async def take(self) -> bool:
        """Make another's file the next store; False if nobody gives one. Raises the disk's errors."""
        await self._mark()
        for _ in range(ATTEMPTS):
            try:
                if await self._take_once():
                    return True
            except DISK_ERRORS:
                raise
            except (HoldfastError, TimeoutError) as error:
                self.problem = str(error) or "no file was offered in time"
            log.warning("the file of a store was not fetched", why=self.problem)
        return False

    async def _mark(self) -> None:
        """Note which replica the store will be, before anybody counts it: what is in it counts no more."""
        batch = Batch()
        batch.put(KEPT, HALF_COPIED, b"1")
        batch.put(KEPT, *own_row(structs.replace(self._own, is_ready=False)))
        await self._files.write(batch)

    async def _take_once(self) -> bool:
        shipping = self._shipping()
        self._asked, self._answer = None, asyncio.get_running_loop().create_future()
        self._ask()
        patience = asyncio.get_running_loop().call_later(SOURCE_PATIENCE_S, self._ask_anybody)
        try:
            async with asyncio.timeout(OFFER_S):
                found = await self._answer
        finally:
            patience.cancel()
        if found is None:
            return False
        giver, manifest = found
        contents = decode_manifest(manifest)
        await asyncio.wrap_future(shipping.fetch(contents, [giver]))
        await asyncio.to_thread(take_file, contents, self._shelf, self._directory, self._own)
        await asyncio.wrap_future(shipping.drop(contents))
        return True

    # --- whom it asks

    def _ask(self) -> None:
        if self._asked is None and self._up and (self._named is None or self._named in self._up):
            self._asked = self._named or next(iter(self._up))
            self._links.send(self._asked, ShippedCopyAsk(suffix=self._suffix, replica=self._own.replica))

    def _ask_anybody(self) -> None:
        self._named = None
        self._ask()

    # --- connections

    def on_up(self, peer: str) -> None:
        self._up.pop(peer, None)
        self._up[peer] = None
        if self._asked == peer and not self._answer.done():
            self._asked = None  # what was asked on the last connection may not have arrived
        self._ask()

    def on_down(self, peer: str) -> None:
        self._up.pop(peer, None)
        if self._asked == peer and not self._answer.done():
            self._asked = None
            self._ask()

    def on_message(self, peer: str, message: Message) -> None:
        if isinstance(message, CopyAsk | ShippedCopyAsk):
            self._links.send(peer, Refused(Reason.NOT_READY, "this store is being filled itself"))
        elif peer != self._asked or self._answer.done():
            return
        elif isinstance(message, CopyOffered):
            self._answer.set_result((HostId(peer), message.manifest))
        elif isinstance(message, Refused):
            self.problem = f"{peer}: {message.why}"
            self._up.pop(peer, None)
            self._up[peer] = None  # the others first
            self._answer.set_result(None)
