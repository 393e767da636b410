"""One host that offers files and one that fetches them, on simulated disks, driven step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.model.errors import Corruption, HoldfastError
from holdfast.model.ids import Epoch, Position
from holdfast.shipping.fetch import Fetch, FetchPorts, ShippingConfig
from holdfast.shipping.manifest import Contents, ManifestId, describe
from holdfast.shipping.messages import Ask, ChunkSent
from holdfast.shipping.offering import Offering
from holdfast.shipping.shelf import Shelf
from holdfast.sim import MILLISECOND, NodePorts, Options, World
from holdfast.sim.engine.node import Life

CHUNK = 512
CONFIG = ShippingConfig(
    window_bytes=8 * CHUNK,
    silence_ns=100 * MILLISECOND,
    attempts_max=4,
    pause_first_ns=5 * MILLISECOND,
    pause_most_ns=20 * MILLISECOND,
)
Files = dict[str, bytes]


def pattern(size: int, salt: int = 0) -> bytes:
    """Bytes no two chunks of which are alike."""
    return b"".join((salt * 1_000_003 + at).to_bytes(8, "big") for at in range(-(-size // 8)))[:size]


class Held:
    """Files in memory, which a test may damage."""

    def __init__(self, files: Files) -> None:
        self.files = dict(files)

    def list(self) -> list[str]:
        return sorted(self.files)

    def size(self, name: str) -> int:
        return len(self.files[name])

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self.files[name][offset : offset + length]


def manifest_of(files: Files, position: int = 1, chunk_bytes: int = CHUNK) -> Contents:
    return describe(
        Held(files),
        sorted(files),
        subject="files",
        epoch=Epoch(1),
        position=Position(position),
        chunk_bytes=chunk_bytes,
    )


class SourceHost:
    def __init__(self, ports: NodePorts, bytes_per_s: int) -> None:
        self.damage: list[tuple[ManifestId, Corruption]] = []
        self.sent: list[Any] = []
        self.garbles = 0
        self.is_mute = False
        self._ports = ports
        self.offering = Offering(
            ports.clock,
            ports.timers,
            self,
            ports.trace,
            lambda manifest, damage: self.damage.append((manifest, damage)),
            bytes_per_s=bytes_per_s,
        )

    def on_message(self, peer: str, message: Ask) -> None:
        self.offering.on_ask(peer, message)

    def send(self, peer: str, message: object) -> None:
        if self.is_mute:
            return
        self.sent.append(message)
        if self.garbles and isinstance(message, ChunkSent):
            self.garbles -= 1
            message = ChunkSent(message.manifest, message.number, b"?" + message.data[1:])
        self._ports.network.send(peer, message)


@dataclass
class FetchingHost:
    ports: NodePorts
    shelf: Shelf = field(init=False)
    fetch: Fetch | None = None
    ended: list[HoldfastError | None] = field(default_factory=list)
    notes: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    asked: list[tuple[str, Ask]] = field(default_factory=list)
    failures: list[HoldfastError] = field(default_factory=list)

    def __post_init__(self) -> None:
        disk = self.ports.disk("shelf", lambda token, ok: self.shelf.on_synced(token, ok) and None)
        self.shelf = Shelf(disk, self, self.failures.append)
        self.shelf.open(lambda: None)

    def begin(
        self,
        contents: Contents,
        sources: Sequence[str],
        config: ShippingConfig,
        instead_of: Contents | None = None,
    ) -> Fetch:
        ports = FetchPorts(self.ports.clock, self.ports.timers, self, self)
        self.fetch = Fetch(contents, sources, self.shelf, ports, self.ended.append, config, instead_of)
        self.fetch.start()
        return self.fetch

    def on_message(self, peer: str, message: Any) -> None:
        if self.fetch is not None:
            (self.fetch.on_chunk if isinstance(message, ChunkSent) else self.fetch.on_not_sent)(peer, message)

    def send(self, peer: str, message: Ask) -> None:
        self.asked.append((peer, message))
        self.ports.network.send(peer, message)

    def note(self, kind: str, **fields: object) -> None:
        self.notes.append((kind, fields))


class Pair:
    """Sources "a" and "b", and the host "c" that fetches."""

    def __init__(self, *, bytes_per_s: int = 1 << 30) -> None:
        self.world = World(Options(scenario="shipping", seed=1))
        for name in ("a", "b"):
            self.world.add_node(name, lambda ports: SourceHost(ports, bytes_per_s))
        self.node = self.world.add_node("c", FetchingHost, supervised=False)
        self.run(50)

    @property
    def a(self) -> SourceHost:
        return self._core("a")

    @property
    def b(self) -> SourceHost:
        return self._core("b")

    @property
    def c(self) -> FetchingHost:
        return self._core("c")

    def offer(self, files: Files, position: int = 1, *, by: Sequence[str] = ("a",)) -> tuple[Contents, Held]:
        contents, held = manifest_of(files, position), Held(files)
        for name in by:
            self._core(name).offering.offer(contents, held)
        return contents, held

    def begin(self, contents: Contents, *sources: str, config: ShippingConfig = CONFIG) -> Fetch:
        return self.c.begin(contents, sources or ("a",), config)

    def fetch(self, contents: Contents, *sources: str, config: ShippingConfig = CONFIG) -> Fetch:
        """Fetch and run to the end."""
        fetch = self.begin(contents, *sources, config=config)
        self.run(10_000)
        return fetch

    def run(self, milliseconds: int) -> None:
        self.world.run_until(self.world.now + milliseconds * MILLISECOND)
        assert not self.world.violations, self.world.violations

    def restart(self, *, power_cut: bool = False) -> None:
        (self.node.power_cut if power_cut else self.node.kill)()
        self.node.start()
        self.run(50)

    def on_disk(self) -> Files:
        handle = self.node.disk.open("shelf", Life(), None)
        return {name: handle.read(name, 0, handle.size(name)) for name in handle.list()}

    def damage(self, name: str, offset: int) -> None:
        """Change a byte of the shelf behind everybody's back."""
        handle = self.node.disk.open("shelf", Life(), None)
        byte = handle.read(name, offset, 1)
        handle.write_at(name, offset, bytes([byte[0] ^ 1]))
        assert handle.sync_now(name)

    def _core(self, name: str) -> Any:
        core = self.world.nodes[name].core
        assert core is not None
        return core
