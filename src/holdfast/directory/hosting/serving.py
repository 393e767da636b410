"""A replica that serves: its data, its replication, and the links on which it replicates."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import structs

from holdfast.clock import Generator
from holdfast.directory.hosting.files import ReplicaFiles
from holdfast.directory.hosting.peer_links import PeerLinks
from holdfast.directory.operations import Change
from holdfast.directory.replica.access import SERVER
from holdfast.directory.replica.changelog import vector_in
from holdfast.directory.replica.maps import KEPT, MAPS
from holdfast.directory.replica.replica import Replica, ReplicaPorts
from holdfast.directory.replication.messages import Message
from holdfast.directory.replication.ports import ReplicationConfig, ReplicationPorts, ShippedCopies
from holdfast.directory.replication.replicator import Replicator
from holdfast.directory.replication.roster import SELF, Own, Roster, decoded_own, own_row
from holdfast.directory.replication.taking import HALF_COPIED
from holdfast.directory.schema.standard import standard_schema
from holdfast.directory.store import Batch
from holdfast.machine.real_ports import MachineRandom
from holdfast.model.csn import Csn
from holdfast.model.errors import DiskFailed
from holdfast.model.ids import HostId, ReplicaId
from holdfast.model.ports import Trace


class ServedReplica:
    """One replica while it serves: implements :class:`.peer_links.PeerEvents`."""

    def __init__(self, files: ReplicaFiles, generator: Generator, replica: Replica) -> None:
        self._files = files
        self._loop = asyncio.get_running_loop()
        self.generator = generator
        self.replica = replica
        self.again: asyncio.Future[str] = self._loop.create_future()
        """Done, with the reason, when the replica must begin again."""
        self.is_over = False
        """Whether it must because others have said that its id is over."""
        self._replicator: Replicator | None = None

    @classmethod
    async def open(
        cls, files: ReplicaFiles, generator: Generator, trace: Trace, suffix: str, *, generation: str | None
    ) -> "ServedReplica":
        """Read in what the store has; *generation* is the mark of new data, for a store that has none."""
        replica = Replica(
            ReplicaPorts(files.store, generator, MachineRandom(), trace),
            standard_schema(),
            suffix,
            on_failed=lambda why: files.fail(DiskFailed(why)),
        )
        files.on_committed = replica.on_committed
        with files.store.read() as reader:
            vector = vector_in(reader)
        newest = None if vector is None else vector.newest()
        if newest is not None:
            # Here and not on the thread below: the generator's ports belong to the loop.
            generator.observe("own store", newest, override_reason="CSNs of the own store")
        # On a thread, because it reads every entry; what the store says meanwhile waits.
        files.hold()
        try:
            await asyncio.to_thread(replica.open, generation=generation)
        finally:
            files.release()
        return cls(files, generator, replica)

    @property
    def replicator(self) -> Replicator:
        assert self._replicator is not None, "it replicates before anybody asks"
        return self._replicator

    @property
    def is_replicating(self) -> bool:
        return self._replicator is not None

    @property
    def is_leaving(self) -> bool:
        return self.replicator.roster.own.is_leaving

    @property
    def is_stuck(self) -> bool:
        return self.replicator.is_stuck

    def replicate(
        self,
        links: PeerLinks,
        peers: Sequence[HostId],
        config: ReplicationConfig,
        trace: Trace,
        masters: Callable[[], Sequence[str]],
        allotted: Callable[[], Sequence[ReplicaId]],
        copies: ShippedCopies,
    ) -> None:
        """Begin to replicate with *peers*. *masters* says where a read-only replica sends writers,
        *allotted* which replicas there are as the authority knows it."""
        files, replica = self._files, self.replica
        rows = replica.kept()
        roster = Roster(decoded_own(dict(rows)[SELF]), rows)
        self._replicator = Replicator(
            ReplicationPorts(replica, self.generator, links, files.clock, files.timers, trace, copies),
            roster,
            config,
            maps=MAPS,
            peers=peers,
            masters=masters,
            allotted=allotted,
            on_told_over=self._on_told_over,
            on_failed=lambda why: files.fail(DiskFailed(why)),
        )
        files.on_timer = self._replicator.on_timer
        if roster.purged is not None:
            replica.ensure_purged(roster.purged)
        links.attach(self)
        links.set_peers(peers)

    def _on_told_over(self) -> None:
        self.is_over = True
        self.begin_again("its replica id is over")

    def begin_again(self, why: str) -> None:
        if not self.again.done():
            self.again.set_result(why)

    async def execute(self, request: Change) -> Csn:
        """Have the server itself change something, and wait until it is on the disk."""
        done: asyncio.Future[None] = self._loop.create_future()
        csns: list[Csn] = []

        def committed(csn: Csn) -> None:
            csns.append(csn)
            if not done.done():
                done.set_result(None)

        self.replica.execute(request, SERVER.dn, committed)
        await self._files.first_of(done)
        return csns[0]

    async def mark_for_initialisation(self, own: Own) -> None:
        """Mark the store as one that is to be filled anew, as replica *own*; it is empty from now on."""
        rows: list[tuple[bytes, bytes | None]] = [
            (HALF_COPIED, b"1"),
            own_row(structs.replace(own, is_ready=False)),
        ]
        await self._files.durably(lambda then: self.replicator.keep(rows, then))

    # --- links

    def on_up(self, peer: str) -> None:
        self.replicator.on_up(peer)

    def on_down(self, peer: str) -> None:
        self.replicator.on_down(peer)

    def on_message(self, peer: str, message: Message) -> None:
        self.replicator.on_message(peer, message)


async def begin_data(files: ReplicaFiles, own: Own) -> None:
    """The first replica of all: its store is new, and there is nobody to ask."""
    batch = Batch()
    batch.put(KEPT, *own_row(structs.replace(own, is_ready=True, known=(own.replica,))))
    await files.write(batch)
