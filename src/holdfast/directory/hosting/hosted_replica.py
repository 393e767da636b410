"""The life of one replica on one host, again and again: it is opened, filled if it has no data, and serves.

It begins again when it was filled, when others say that its replica id is over (G3), and when people want it
to be filled anew. Nothing but a failing disk ends the host.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from holdfast.authority.directories import DirectoryRecord, Edit
from holdfast.authority.recipe import Authority, Seen
from holdfast.clock import ClockConfig
from holdfast.directory.hosting.copy_offers import CopyOffers
from holdfast.directory.hosting.copying import Copying
from holdfast.directory.hosting.file_copying import FileCopying
from holdfast.directory.hosting.files import ReplicaFiles
from holdfast.directory.hosting.following import DirectoryFollower
from holdfast.directory.hosting.opening import HostIds, open_store
from holdfast.directory.hosting.orders import FOUNDING
from holdfast.directory.hosting.peer_links import PeerLinks
from holdfast.directory.hosting.serving import ServedReplica, begin_data
from holdfast.directory.replica.maps import KEPT
from holdfast.directory.replication.identity import Decision, Step, emptied
from holdfast.directory.replication.ports import ReplicationConfig
from holdfast.directory.replication.roster import CSNSTATE
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId, Nonce
from holdfast.model.ports import Trace
from holdfast.shipping.shipping_thread import ShippingThread

WATCH_S: Final = 2.0
"""How often a replica is looked at that may never come up to date."""
COPIES: Final = "copies"
"""The directory for copies of the store that others fetch."""

log: Final = structlog.get_logger("holdfast.directory")


@dataclass(frozen=True, slots=True)
class ReplicaSurroundings:
    """What a replica on a host stands on."""

    host: HostId
    directory: Path
    authority: Authority
    nonces: Callable[[], Nonce]
    follower: DirectoryFollower
    change: Callable[[Edit], Awaitable[DirectoryRecord]]
    """Changes what the domain knows of the directory, and takes that in."""
    take: Callable[[Seen[DirectoryRecord]], None]
    """Takes in what another change made of it."""
    links: PeerLinks
    trace: Trace
    on_disk_failed: Callable[[HoldfastError], None]
    masters: Callable[[], Sequence[str]]
    """Where clients may write, as LDAP URLs."""
    clock: ClockConfig
    replication: ReplicationConfig
    shipping: Callable[[], ShippingThread]
    """How files travel; raises ``Unavailable`` if this host ships none."""
    shelf: Path
    """Where fetched files are."""


class HostedReplica:
    """One host's replica. *on_serving* is told which replica serves now, and None when it stops."""

    def __init__(
        self, surroundings: ReplicaSurroundings, on_serving: Callable[[ServedReplica | None], Awaitable[None]]
    ) -> None:
        self._around = surroundings
        self._on_serving = on_serving
        self.state = "opening"
        """What it is doing, in a word."""
        self.served: ServedReplica | None = None
        self.copying: Copying | FileCopying | None = None
        self.source: HostId | None = None
        """From whom people want it to be filled."""
        self.ids = HostIds(
            surroundings.host,
            surroundings.authority,
            surroundings.nonces,
            surroundings.follower.known,
            surroundings.take,
        )

    async def run(self) -> None:
        """Live until cancelled. Raises what keeps the replica from being opened."""
        around = self._around
        while True:
            self.state = "opening"
            files = await ReplicaFiles.open(around.directory, around.trace, around.on_disk_failed)
            try:
                why = await self._live(files)
                log.info("the replica begins again", why=why)
            finally:
                around.links.detach()
                await files.close()

    async def _live(self, files: ReplicaFiles) -> str:
        """One life; returns why it ended."""
        around, record = self._around, self._around.follower.known()
        decision = await open_store(
            files,
            around.host,
            around.authority,
            around.nonces,
            self.ids,
            is_read_only=around.host in record.read_only,
        )
        with files.store.read() as reader:
            csnstate = reader.get(KEPT, CSNSTATE)
        generator = await files.open_clock(
            decision.own.replica,
            around.clock,
            is_new=not decision.own.is_ready,
            csnstate=None if csnstate is None else csnstate.decode(),
        )
        is_founding = record.founder == around.host and not record.is_founded
        if decision.step is Step.INITIALISE:
            if not is_founding:
                await self._fill(files, decision)
                return "it was filled"
            await begin_data(files, decision.own)
        generation = record.generation if is_founding else None
        served = await ServedReplica.open(
            files, generator, around.trace, record.suffix, generation=generation
        )
        try:
            return await self._serve(files, served, is_founding=is_founding)
        finally:
            await self._stop_serving()
            served.replica.close()

    async def _fill(self, files: ReplicaFiles, decision: Decision) -> None:
        around = self._around
        self.state = "being filled"
        log.info("the replica is filled with a copy", replica=decision.own.replica, source=self.source)
        if await self._fill_with_file(files, decision):
            self.source = None
            return
        copying = self.copying = Copying(
            files,
            decision.own,
            suffix=around.follower.known().suffix,
            links=around.links,
            config=around.replication,
            source=self.source,
        )
        around.links.attach(copying)
        around.links.set_peers(around.follower.known().peers_of(around.host))
        try:
            await files.first_of(copying.done)
        finally:
            self.copying = None
        self.source = None

    async def _fill_with_file(self, files: ReplicaFiles, decision: Decision) -> bool:
        around = self._around
        copying = self.copying = FileCopying(
            files,
            decision.own,
            suffix=around.follower.known().suffix,
            links=around.links,
            source=self.source,
            directory=around.directory,
            shelf=around.shelf,
            shipping=around.shipping,
        )
        around.links.attach(copying)
        around.links.set_peers(around.follower.known().peers_of(around.host))
        try:
            return await copying.take()
        finally:
            self.copying = None
            around.links.detach()

    async def _serve(self, files: ReplicaFiles, served: ServedReplica, *, is_founding: bool) -> str:
        around = self._around
        self.served = served
        if is_founding:
            # Others take copies once the first entries are there, and not before.
            self.state = FOUNDING
            await around.follower.until(lambda record: record.is_founded)
        offers = CopyOffers(around.directory / COPIES, files.store, served.replica.suffix, around.shipping)
        served.replicate(
            around.links,
            around.follower.known().peers_of(around.host),
            around.replication,
            around.trace,
            around.masters,
            lambda: around.follower.known().present,
            offers,
        )
        self.state = "serving"
        was_leaving = served.is_leaving
        await self._on_serving(served)
        log.info("the replica serves", replica=served.replica.id, suffix=served.replica.suffix)
        try:
            while not served.again.done() and not files.failure.done():
                await asyncio.wait(
                    (served.again, files.failure), return_when=asyncio.FIRST_COMPLETED, timeout=WATCH_S
                )
                if not served.again.done() and served.is_stuck:
                    await self._fill_anew(served)
        finally:
            await offers.close()
        if not served.again.done():
            raise files.failure.result()
        if served.is_over and served.is_leaving and not was_leaving:
            # It is being retired, and the domain is about to say so: under another id, clients could write
            # here what nobody hears of any more.
            await around.follower.until(lambda record: around.host in record.left)
        return served.again.result()

    async def _fill_anew(self, served: ServedReplica) -> None:
        """A store that was put back lacks what no peer keeps any more, and a peer has all that it has: it is
        filled without asking people, because nothing can be lost and it is of no use as it is."""
        log.warning("the replica lacks what no peer keeps any more, and is filled anew")
        ids = await self.ids.with_new()
        await served.mark_for_initialisation(emptied(served.replicator.roster.own, ids))
        served.begin_again("it lacked what no peer keeps any more")

    async def _stop_serving(self) -> None:
        served, self.served = self.served, None
        if served is not None and served.is_replicating:
            await self._on_serving(None)
