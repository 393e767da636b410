"""The files of stored objects on a simulated host: SQLite on its disk, and production shipping between hosts.

What takes long on a machine takes some time here, too: between a flush and the end of hashing a process may
end. Chunks are damaged on their way now and then, which their receiver must notice (W6).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from holdfast.execution.database import ObjectDatabase, Place, StorageFailed
from holdfast.groups.object_file import ObjectFile, Scratch
from holdfast.model.errors import DISK_ERRORS, Corruption, DiskFailed, HoldfastError, Unavailable
from holdfast.model.ids import GroupId, HostId
from holdfast.model.ports import Token
from holdfast.shipping.fetch import Fetch, FetchPorts, ShippingConfig
from holdfast.shipping.manifest import Contents, ManifestId, digest_of
from holdfast.shipping.messages import Ask, ChunkSent, NotSent, decode_message, encode_message
from holdfast.shipping.offering import Offering
from holdfast.shipping.shelf import Shelf, file_name
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND
from holdfast.sim.engine.vfs import SimVfs
from holdfast.sim.scenarios.sequence.startup import DIRECTORY as STORE
from holdfast.storage.segments import Readable

FILES: Final = "databases"
SHELF: Final = "shelf"
TAKES_NS: Final = (1 * MILLISECOND, 300 * MILLISECOND)
"""How long it takes to hash a database, or to put it into its place."""
GARBLED: Final = 0.03
"""How often a chunk is damaged on its way."""
RATES: Final = (4 << 20, 40_000)
"""How fast a process serves files. With the lower one a file changes several times while it is fetched."""
ASKED_NS: Final = 500 * MILLISECOND
ASIDE: Final = ".fetched"
BESIDE: Final = ("", "-wal", "-shm")
CONFIG: Final = ShippingConfig(
    window_bytes=16 << 10,
    bytes_per_s=4 << 20,
    silence_ns=300 * MILLISECOND,
    attempts_max=6,
    pause_first_ns=20 * MILLISECOND,
    pause_most_ns=200 * MILLISECOND,
)


class Shipped(msgspec.Struct, frozen=True, array_like=True, tag="shipped"):
    """A message of shipping, which has connections of its own in production."""

    body: bytes


class SimulatedFiles:
    """The Files port of one simulated process (:class:`holdfast.groups.ports.FilesPort`)."""

    chunk_bytes: Final = 4096

    def __init__(self, ports: NodePorts, fail: Callable[[HoldfastError], None]) -> None:
        self._ports = ports
        self._fail = fail
        # SQLite believes its pages: what rots while an object is open is read as it is (decision 57).
        ports.node.disk.sound = (FILES,)
        self._disk = ports.disk(FILES, self._on_placed)
        self._store = ports.disk(STORE, self._on_written)
        self._vfs = SimVfs(
            ports.disk(FILES), rng=ports.random.stream("sqlite"), wall=lambda: ports.clock.wall()
        )
        self._random = ports.random.stream("files")
        self._number = 0
        self._writing: dict[int, Callable[[], None]] = {}
        self._placing: dict[int, Callable[[], None]] = {}
        self._shelf_disk = ports.disk(SHELF, self._on_shelf_synced)
        rate = self._random.choice(RATES)
        self._offering = Offering(
            ports.clock, ports.timers, self, ports.trace, self._on_damage, bytes_per_s=rate
        )
        self._is_open = False
        self._fetch: Fetch | None = None
        self._waiting: list[Callable[[], None]] = []
        self._shelf = Shelf(self._shelf_disk, ports.trace, fail)
        self._shelf.open(self._opened)

    # --- databases

    def place(self, name: str) -> Place:
        return Place(name, self._vfs.name, is_exclusive=True)

    def list(self) -> list[str]:
        return self._disk.list()

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            for each in (name + beside for beside in BESIDE):
                if self._disk.exists(each):
                    self._disk.remove(each)

    @property
    def directory(self) -> Scratch:
        return self._disk

    def settle(
        self,
        database: ObjectDatabase,
        before: Callable[[], None],
        after: Callable[[int], Contents],
        then: Callable[[Contents | HoldfastError], None],
    ) -> None:
        try:
            before()
        except Unavailable as error:
            self._later(partial(then, error))
            return
        found = after(database.settle())
        self._ports.node.world.sometimes("a stored object was flushed")
        self._compare(found, database.place.path)
        self._later(lambda: then(found))

    def _compare(self, found: Contents, name: str) -> None:
        """Hash the whole file, which production does not, and say so if the manifest is not that (W8)."""
        about = found.manifest
        whole = ObjectFile(GroupId(int(name[:20])), name, self.chunk_bytes)
        if whole.described(self._disk, about.position, about.epoch).id != found.id:
            world = self._ports.node.world
            world.violation("W8", f"{self._ports.name}: the manifest {found!r} is not that of its file")

    def describe(
        self, work: Callable[[], Contents], then: Callable[[Contents | HoldfastError], None]
    ) -> None:
        found = work()  # the file does not change meanwhile: what is read later is the same
        self._later(lambda: then(found))

    def _later(self, work: Callable[[], None]) -> None:
        node, life = self._ports.node, self._ports.life
        node.world.after(self._random.randint(*TAKES_NS), node.run, life, lambda: self._guarded(work))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except DISK_ERRORS as error:
            self._fail(error)
        except StorageFailed as failed:
            self._fail(failed.error)

    # --- checkpoint files

    def write(self, name: str, data: Iterable[bytes], then: Callable[[], None]) -> None:
        self.discard(name)
        for piece in data:
            self._store.append(name, piece)
        self._number += 1
        self._writing[self._number] = then
        self._store.sync(name, self._number)

    def discard(self, name: str) -> None:
        if name in self._store.list():
            self._store.remove(name)

    def _on_written(self, token: Token, ok: bool) -> None:
        self._answered(self._writing, token, ok)

    def _answered(self, waiting: dict[int, Callable[[], None]], token: Token, ok: bool) -> None:
        then = waiting.pop(token, None) if isinstance(token, int) else None
        if then is None:
            return
        if ok:
            self._guarded(then)
        else:
            self._fail(DiskFailed("the sync of an object's file failed"))

    # --- shipping

    def offer(self, contents: Contents, source: Readable) -> None:
        self._offering.offer(contents, source)

    def withdraw(self, manifest: ManifestId) -> None:
        self._offering.withdraw(manifest)

    def is_asked(self, manifest: ManifestId) -> bool:
        offer = self._offering.offers.get(manifest)
        if offer is None or not offer.was_asked:
            return False
        return self._ports.clock.now() - offer.last_asked_ns < ASKED_NS

    def fetch(
        self,
        contents: Contents,
        file: str,
        sources: Sequence[HostId],
        name: str,
        then: Callable[[HoldfastError | None], None],
        *,
        removed: Sequence[str] = (),
        instead_of: Contents | None = None,
    ) -> None:
        self.remove(removed)

        def begin() -> None:
            shelf = self._shelf
            if not self._is_open or self._fetch is not None:
                self._waiting.append(begin)
                return
            if not sources:
                then(Unavailable("nobody is there to fetch from"))
                return
            ports = FetchPorts(self._ports.clock, self._ports.timers, self, self._ports.trace)

            def ended(error: HoldfastError | None) -> None:
                self._fetch = None
                self._ports.node.world.sometimes("files were fetched" if error is None else "a fetch failed")
                if error is None:
                    self._later(lambda: self._put(contents, shelf, name, then))
                else:
                    then(error)
                self._next()

            self._fetch = Fetch(contents, sources, shelf, ports, ended, CONFIG, instead_of)
            self._fetch.start()

        self._later(begin)

    def _next(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._later(each)

    def _put(
        self, contents: Contents, shelf: Shelf, name: str, then: Callable[[HoldfastError | None], None]
    ) -> None:
        """Copy the file from the shelf, hashed on the way, as production does."""
        (file,) = contents.manifest.files
        self.remove([name, name + ASIDE])
        for chunk in contents.chunks(file):
            data = self._shelf_disk.read(file_name(file), chunk.offset, chunk.length)
            if digest_of(data) != chunk.digest:
                then(Unavailable("a file on the shelf is damaged"))
                return
            self._disk.append(name + ASIDE, data)

        def synced() -> None:
            self._disk.rename(name + ASIDE, name)
            self._number += 1
            self._placing[self._number] = lambda: then(None)
            self._disk.sync_dir(self._number)

        self._number += 1
        self._placing[self._number] = synced
        self._disk.sync(name + ASIDE, self._number)

    def take(self, contents: Contents) -> None:
        if self._is_open:
            self._shelf.drop(contents)
        else:  # a host opens its shelf before its groups, so that this never waits
            self._waiting.append(partial(self._shelf.drop, contents))

    def unshelve(self, contents: Contents) -> None:
        if self._is_open and self._fetch is None:
            self._shelf.drop(contents)

    def _on_placed(self, token: Token, ok: bool) -> None:
        self._answered(self._placing, token, ok)

    def _opened(self) -> None:
        self._is_open = True
        self._next()

    def _on_shelf_synced(self, token: Token, ok: bool) -> None:
        self._shelf.on_synced(token, ok)

    def _on_damage(self, manifest: ManifestId, damage: Corruption) -> None:
        # No fault strikes these files (`sound` above), so whatever is not as it was said to be is our doing.
        world = self._ports.node.world
        world.violation("W8", f"{self._ports.name} offers what it does not have: {damage}")

    def send(self, peer: str, message: object) -> None:
        if isinstance(message, ChunkSent) and message.data and self._random.random() < GARBLED:
            self._ports.node.world.sometimes("a chunk was damaged on its way")
            message = msgspec.structs.replace(message, data=bytes([message.data[0] ^ 1]) + message.data[1:])
        self._ports.network.send(peer, Shipped(encode_message(message)))

    def on_message(self, peer: str, shipped: Shipped) -> None:
        message = decode_message(shipped.body)
        if isinstance(message, Ask):
            self._guarded(lambda: self._offering.on_ask(peer, message))
        elif self._fetch is not None:
            fetch = self._fetch
            if isinstance(message, ChunkSent):
                self._guarded(lambda: fetch.on_chunk(peer, message))
            elif isinstance(message, NotSent):
                self._guarded(lambda: fetch.on_not_sent(peer, message))
