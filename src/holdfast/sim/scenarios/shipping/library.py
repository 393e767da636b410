"""The files that are shipped, version by version, and what an observer outside the hosts knows about them."""

import random
from typing import Final

from holdfast.model.ids import Epoch, Position
from holdfast.shipping.fetch import ShippingConfig
from holdfast.shipping.manifest import Contents, FileEntry, Manifest, ManifestId, describe, file_digest
from holdfast.shipping.messages import Ask, ChunkSent
from holdfast.shipping.shelf import PART, Shelf, file_name
from holdfast.sim.engine.node import Life, SimNode
from holdfast.sim.engine.options import MILLISECOND
from holdfast.sim.engine.world import World

CHUNK_BYTES: Final = 512
DATABASE: Final = "data.db"
DATABASE_BYTES: Final = 24_000
OFFERED: Final = 2
"""The versions that are offered at a time. A fetch of an older one is refused and gives up."""
PUBLISH_NS: Final = 700 * MILLISECOND
SHELF: Final = "shelf"
ROT: Final = ("bit_rot", "zero_sector")
RESENDS: Final = ("storm", "partition", "isolation", "one_way", "partial", "flapping", "swizzle", "garbled")
"""Faults after which bytes may rightly be sent again: answers are lost on the way, late, or damaged."""

Files = dict[str, bytes]


class InMemory:
    """The reading part of the Disk port on files in memory."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def list(self) -> list[str]:
        return sorted(self._files)

    def size(self, name: str) -> int:
        return len(self._files[name])

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self._files[name][offset : offset + length]


class Library:
    """Every version there was, with its files as they must arrive; and the checks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._rng = world.rng("library")
        # With a small window every chunk waits for a sync of its own.
        is_quick = world.options.disk.sync_mean_ns <= MILLISECOND
        self.config = ShippingConfig(
            window_bytes=self._rng.choice((1, 700, 4096, 4096) if is_quick else (4096,)),
            bytes_per_s=300_000,
            silence_ns=150 * MILLISECOND,
            attempts_max=6,
            pause_first_ns=10 * MILLISECOND,
            pause_most_ns=100 * MILLISECOND,
        )
        self.versions: list[tuple[Contents, Files]] = []
        self._by_id: dict[ManifestId, tuple[Contents, Files]] = {}
        self._counted: dict[str, ManifestId] = {}
        """What counted last on each host, which keeps nothing else."""
        self._sent: dict[tuple[str, bytes], int] = {}
        self.publish()

    # --- versions

    @property
    def newest(self) -> Contents:
        return self.versions[-1][0]

    def offered(self) -> list[tuple[Contents, Files]]:
        return self.versions[-OFFERED:]

    def publish(self) -> None:
        """Make the next version: a database changed in places, and a new segment beside the older ones."""
        number = len(self.versions) + 1
        files = dict(self.versions[-1][1]) if self.versions else _first(self._rng)
        database = bytearray(files[DATABASE])
        for _ in range(self._rng.randint(1, 6)):
            at = self._rng.randrange(len(database))
            database[at : at + 40] = self._rng.randbytes(min(40, len(database) - at))
        files[DATABASE] = bytes(database) + self._rng.randbytes(self._rng.randrange(700))
        files[f"segments/{number:04}"] = self._rng.randbytes(self._rng.randrange(3000))
        for old in sorted(name for name in files if name.startswith("segments/"))[:-4]:
            del files[old]
        contents = describe(
            InMemory(files),
            sorted(files),
            subject="a set of files",
            epoch=Epoch(1),
            position=Position(number),
            chunk_bytes=CHUNK_BYTES,
        )
        self.versions.append((contents, files))
        self._by_id[contents.id] = self.versions[-1]

    def hostile(self) -> Manifest:
        """A manifest with a name that leads out of the directory it is put into."""
        name = self._rng.choice(("../stolen", "segments/../../x", "/etc/x", "a//b", "."))
        return Manifest(
            subject="a trap",
            epoch=Epoch(1),
            position=Position(1),
            files=(FileEntry(name, 0, file_digest(0, b""), b""),),
        )

    # --- what must hold

    def asked(self, node: SimNode, ask: Ask) -> None:
        """Require that nobody asks for a chunk that is at its place on its disk, synced (W6)."""
        contents, files = self._by_id[ManifestId(ask.manifest)]
        chunk = contents.chunk(ask.number)
        right = files[chunk.file.name][chunk.offset : chunk.offset + chunk.length]
        if not right.strip(b"\0"):
            return  # reserved space looks the same
        part = node.disk.durable(SHELF, file_name(chunk.file) + PART)
        if part[chunk.offset : chunk.offset + chunk.length] == right:
            what = f"{chunk.file.name} at {chunk.offset} of version {contents.manifest.position}"
            self.world.violation("W6", f"{node.name}: asked again for {what}, which is here and synced")

    def sent(self, to: str, message: ChunkSent) -> None:
        self._sent[to, message.manifest] = self._sent.get((to, message.manifest), 0) + len(message.data)

    def check_shelf(self, node: SimNode, shelf: Shelf) -> None:
        """Require after a restart that what counted still does, with whole files, but for rot (W5)."""
        counted = self._counted.get(node.name)
        if counted is not None and not shelf.holds(counted) and not self._may_lack(node):
            self.world.violation("W5", f"{node.name}: {self._by_id[counted][0]!r} counts no longer")
        for manifest in shelf.complete():
            self.counts(node, manifest, rot_before=0)

    def _may_lack(self, node: SimNode) -> bool:
        return bool(node.disk.rot) or self.world.faults["wipe"] > 0

    def counts(self, node: SimNode, manifest: ManifestId, rot_before: int) -> None:
        """Note that a manifest counts, and look."""
        self._counted[node.name] = manifest
        self.check_manifest(node, manifest, rot_before)

    def given_up(self, node: SimNode) -> None:
        """Note that the files of the version that counted there become those of the next one in place."""
        self._counted.pop(node.name, None)

    def check_manifest(self, node: SimNode, manifest: ManifestId, rot_before: int) -> None:
        """Require that a manifest's files are whole, but for rot from *rot_before* on, in the disk's list."""
        contents, files = self._by_id[manifest]
        rotten = [name.partition(".")[0] for name, _ in node.disk.rot[rot_before:]]
        disk = node.disk.open(SHELF, Life(), None)
        for file in contents.files:
            name, right = file_name(file), files[file.name]
            with node.disk.untroubled():
                held = disk.read(name, 0, file.size + 1)
            if held != right and name not in rotten:
                at = next((at for at in range(len(right)) if held[at : at + 1] != right[at : at + 1]), 0)
                what = f"version {contents.manifest.position} counts, and {file.name} is wrong at byte {at}"
                self.world.violation("W5", f"{node.name}: {what}")
                return

    def check_sent(self) -> None:
        """Require that little was sent twice: nothing but what was on its way when a process ended (W6)."""
        world = self.world
        if any(world.faults[kind] for kind in (*RESENDS, *ROT, "wipe")) or world.options.network.loss:
            return
        if world.options.network.duplicate or world.options.network.late:
            return
        window = max(self.config.window_bytes, CHUNK_BYTES)
        ended = sum(node.incarnation for node in world.nodes.values()) + world.faults["pause"]
        for (to, manifest), count in self._sent.items():
            allowed = self._by_id[ManifestId(manifest)][0].bytes * 11 // 10 + window * ended
            if count > allowed:
                world.violation("W6", f"{to}: {count} bytes were sent of a manifest of {allowed}")


def _first(rng: random.Random) -> Files:
    twice = rng.randbytes(1300)
    return {
        DATABASE: rng.randbytes(DATABASE_BYTES),
        "empty": b"",
        "twice/a": twice,
        "twice/b": twice,
        "zeros": bytes(5 * CHUNK_BYTES) + b"end",
    }
