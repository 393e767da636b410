"""The two kinds of hosts of the scenario: those that offer the newest versions, and those that fetch them."""

from typing import Final

import msgspec

from holdfast.model.errors import Corruption, HoldfastError, InvalidRequest
from holdfast.model.ports import Token
from holdfast.shipping.fetch import Fetch, FetchPorts
from holdfast.shipping.manifest import Contents, ManifestId
from holdfast.shipping.messages import Ask, ChunkSent, NotSent, ShippingMessage
from holdfast.shipping.offering import Offering
from holdfast.shipping.shelf import Shelf
from holdfast.sim.engine.disk import DiskHandle
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND
from holdfast.sim.scenarios.shipping.library import PUBLISH_NS, ROT, Library
from holdfast.sim.scenarios.shipping.library import SHELF as DIRECTORY

AGAIN_NS: Final = 60 * MILLISECOND
IN_PLACE: Final = 0.4
"""How often the files of one version become those of the next."""
SOURCES: Final = ("a", "b")


class Source:
    """Keeps the offered versions on its disk and serves them. It restores what it finds damaged."""

    def __init__(self, ports: NodePorts, library: Library) -> None:
        self._ports = ports
        self._library = library
        self._disk = ports.disk("files", lambda token, ok: None)
        self._timers = ports.timers(lambda tag: self._offer())
        self._offering = Offering(
            ports.clock, ports.timers, self, ports.trace, self._on_damage, bytes_per_s=400_000
        )
        self.garbled = 0
        """The number of coming chunks that are damaged on their way."""
        self._offer()

    def on_message(self, peer: str, message: ShippingMessage) -> None:
        if isinstance(message, Ask):
            self._offering.on_ask(peer, message)

    def send(self, peer: str, message: object) -> None:
        if isinstance(message, ChunkSent):
            self._library.sent(peer, message)
            if self.garbled and message.data:
                self.garbled -= 1
                self._library.world.sometimes("a chunk was damaged on its way")
                message = msgspec.structs.replace(
                    message, data=bytes([message.data[0] ^ 1]) + message.data[1:]
                )
        self._ports.network.send(peer, message)

    def _offer(self) -> None:
        offered = self._library.offered()
        for contents, files in offered:
            if contents.id not in self._offering.offers:
                for name, data in files.items():
                    self._restore(contents, name, data)
                self._offering.offer(contents, _Prefixed(self._disk, contents))
        for manifest, offer in list(self._offering.offers.items()):
            if manifest not in [contents.id for contents, _ in offered]:
                self._offering.withdraw(manifest)
                for file in offer.contents.manifest.files:
                    self._disk.remove(_stored(offer.contents, file.name))
        self._timers.set(PUBLISH_NS // 3, "look")

    def _on_damage(self, manifest: ManifestId, damage: Corruption) -> None:
        self._library.world.sometimes("a source found its own damage")
        world = self._library.world
        if not any(world.faults[kind] for kind in (*ROT, "sync_fail", "power_cut", "power_cut_inside")):
            world.violation("W6", f"{self._ports.name}: a false alarm: {damage}")
        contents, files = next(each for each in self._library.versions if each[0].id == manifest)
        self._restore(contents, damage.file, files[damage.file])

    def _restore(self, contents: Contents, name: str, data: bytes) -> None:
        stored = _stored(contents, name)
        if self._disk.exists(stored):
            self._disk.remove(stored)
        self._disk.append(stored, data)
        self._disk.sync(stored, stored)


class _Prefixed:
    """The files of one version: they have its position before their names."""

    def __init__(self, disk: DiskHandle, contents: Contents) -> None:
        self._disk = disk
        self._contents = contents

    def list(self) -> list[str]:
        return [file.name for file in self._contents.files]

    def size(self, name: str) -> int:
        return self._disk.size(_stored(self._contents, name))

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self._disk.read(_stored(self._contents, name), offset, length)


def _stored(contents: Contents, name: str) -> str:
    return f"{contents.manifest.position}:{name}"


class Fetcher:
    """Fetches the newest version again and again, and keeps nothing else."""

    def __init__(self, ports: NodePorts, library: Library) -> None:
        self._ports = ports
        self._library = library
        self._node = ports.node
        self._timers = ports.timers(lambda tag: self._begin())
        self._disk = ports.disk(DIRECTORY, self._on_synced)
        self.shelf = Shelf(self._disk, self, self._stop)
        self.fetch: Fetch | None = None
        self.done = 0
        """The position of the newest version that counted here, by this process."""
        self._had: Contents | None = None
        """That version. Now and then its files become those of the next one in place."""
        self._is_carried = False
        """Whether this process may rely on what it has read in an earlier fetch: rot since then is not
        seen."""
        self._rot_at_first = len(self._node.disk.rot)
        self._checked_at: int | None = None
        self.shelf.open(self._opened)

    def _opened(self) -> None:
        self._library.check_shelf(self._node, self.shelf)
        self._begin()

    def _begin(self) -> None:
        if self._ports.random.stream("traps").random() < 0.2:
            self._refuse_trap()
        self._checked_at = None
        ports = FetchPorts(self._ports.clock, self._ports.timers, self, self)
        sources = list(SOURCES)
        self._ports.random.stream("sources").shuffle(sources)
        instead_of = self._had if self._ports.random.stream("places").random() < IN_PLACE else None
        newest, config = self._library.newest, self._library.config
        if instead_of is not None and instead_of.id != newest.id:
            self._library.world.sometimes("files became those of a later version in place")
            self._library.given_up(self._node)
            self._is_carried = True
        self.fetch = Fetch(newest, sources, self.shelf, ports, self._ended, config, instead_of)
        self.fetch.start()

    def _refuse_trap(self) -> None:
        try:
            Contents(self._library.hostile())
        except InvalidRequest:
            return
        self._library.world.violation("W6", f"{self._ports.name}: took a name that leads elsewhere")

    def _ended(self, error: HoldfastError | None) -> None:
        assert self.fetch is not None
        contents, world = self.fetch.contents, self._library.world
        if error is None:
            if not self.shelf.holds(contents.id):
                world.violation("W5", f"{self._ports.name}: {contents!r} is done and does not count")
            rot_before = len(self._node.disk.rot) if self._checked_at is None else self._checked_at
            if not self._is_carried or len(self._node.disk.rot) == self._rot_at_first:
                self._library.counts(self._node, contents.id, rot_before)
            self._is_carried = False
            self.done, self._had = contents.manifest.position, contents
            world.operation()
            if self.fetch.progress.found:
                world.sometimes("chunks were found on the shelf")
            self.shelf.keep_only([contents])
        else:
            world.sometimes("a fetch was given up")
            self._is_carried = True
        self.fetch = None
        self._timers.set(AGAIN_NS, "again")

    def on_message(self, peer: str, message: ShippingMessage) -> None:
        if self.fetch is None:
            return
        if isinstance(message, ChunkSent):
            self.fetch.on_chunk(peer, message)
        elif isinstance(message, NotSent):
            self.fetch.on_not_sent(peer, message)

    # --- the ports, which tell the observer

    def send(self, peer: str, message: object) -> None:
        if isinstance(message, Ask):
            self._library.asked(self._node, message)
        self._ports.network.send(peer, message)

    def note(self, kind: str, **fields: object) -> None:
        self._ports.trace.note(kind, **fields)
        if kind == "shipping-checking" and self._checked_at is None:
            self._checked_at = len(self._node.disk.rot)
        elif kind == "shipping-damage" and "on this disk" in str(fields["damage"]):
            self._library.world.sometimes("damage on the shelf was found")
            if not self._node.disk.rot:
                self._library.world.violation("W6", f"{self._ports.name}: wrote what it should not: {fields}")

    def _on_synced(self, token: Token, ok: bool) -> None:
        self.shelf.on_synced(token, ok)

    def _stop(self, error: HoldfastError) -> None:
        self._ports.stop(f"{error.code}: {error}")
