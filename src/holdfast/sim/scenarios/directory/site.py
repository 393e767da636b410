"""What stands outside the masters: their disks' content, the authority that numbers stores and replicas, and
how the masters are linked."""

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from holdfast.clock.vector import Vector
from holdfast.directory.memory_store import StoreImage
from holdfast.directory.replica.changelog import vector_in
from holdfast.directory.replica.maps import KEPT, MAPS
from holdfast.directory.replication.ports import ReplicationConfig
from holdfast.directory.replication.roster import SELF, Own, decoded_own
from holdfast.directory.replication.taking import HALF_COPIED
from holdfast.directory.schema.schema import Schema
from holdfast.model.errors import invariant
from holdfast.model.ids import HostId, Nonce, Opening, ReplicaId, StoreId
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.engine.world import World
from holdfast.storage.identity import Store

SUFFIX: Final = "dc=example,dc=com"
GENERATION: Final = "g1"
NAMES: Final = ("a", "b", "c", "d", "e")


AUDIT: Final = "audit"
"""A map that only the observer reads: the keys of all updates whose effects the store has."""
ALL_MAPS: Final = (*MAPS, AUDIT)


class Registry:
    """What the authority knows: how often each store was opened, and which ids each host's stores had. It is
    always reachable here: the scenario is about masters."""

    def __init__(self) -> None:
        self._openings: dict[StoreId, tuple[Opening, Nonce]] = {}
        self._ids: dict[str, list[ReplicaId]] = {}
        self._last = 0
        self._stores = 0

    def recorded(self, store: Store | None) -> tuple[Opening, Nonce] | None:
        return None if store is None else self._openings.get(store.store)

    def raise_opening(self, store: Store) -> None:
        assert store.intent is not None
        known = self._openings.get(store.store, (Opening(0), Nonce("")))
        if known != (store.opening + 1, store.intent):
            invariant(known == (store.opening, store.nonce), "the plan has looked at the same record")
        self._openings[store.store] = (Opening(store.opening + 1), store.intent)

    def new_store(self) -> StoreId:
        self._stores += 1
        return StoreId(f"store-{self._stores}")

    def allot(self, host: str) -> ReplicaId:
        self._last += 1
        self._ids.setdefault(host, []).append(ReplicaId(self._last))
        return ReplicaId(self._last)

    def ids(self, host: str) -> list[ReplicaId]:
        return list(self._ids.get(host, []))

    def present(self) -> list[ReplicaId]:
        """The ids that the hosts' stores have now."""
        return [ids[-1] for ids in self._ids.values()]


@dataclass(frozen=True, slots=True)
class HostIds:
    """The ids of one host (:class:`holdfast.directory.replication.identity.ReplicaIds`)."""

    registry: Registry
    host: HostId

    def allot(self) -> ReplicaId:
        return self.registry.allot(self.host)

    def former(self) -> list[ReplicaId]:
        return self.registry.ids(self.host)


class Site:
    """The domain of one run."""

    def __init__(self, world: World, schema: Schema) -> None:
        self.world = world
        self.schema = schema
        self.registry = Registry()
        rng = world.rng("site")
        self.names = NAMES[: rng.choice((3, 3, 4, 5))]
        self.images = {name: StoreImage(ALL_MAPS) for name in self.names}
        self.peers = _topology(rng, self.names)
        self.called_over: dict[ReplicaId, None] = {}
        """Replicas that an operator has retired by force."""
        self.sources: dict[str, str] = {}
        """From whom an operator wants a host to be initialised."""
        self.is_founded = False
        """Whether the first of the masters has made the data that all others get copies of."""
        self.is_quiet = False
        """Whether clients write no more."""
        self.config = _config(rng, world=world)
        self.read_only = self.names[-1] if len(self.names) > 3 and rng.random() < 0.3 else None
        """A host whose replica takes no writes."""

    # --- what is on the disks

    def own(self, name: str) -> Own | None:
        row = self.images[name].maps[KEPT].rows.get(SELF)
        return None if row is None else decoded_own(row)

    def vector(self, name: str) -> Vector | None:
        """What is committed at a host, whether its process runs or not."""
        return image_vector(self.images[name])

    def is_whole(self, name: str) -> bool:
        """Whether a host has all its data, and an id that nobody has called over."""
        own = self.own(name)
        is_half = HALF_COPIED in self.images[name].maps[KEPT].rows
        return own is not None and own.is_ready and not is_half and own.replica not in self.called_over

    def others_are_whole(self, name: str) -> bool:
        """Whether somebody else can bring this host's next replica up to date."""
        return any(self.is_whole(each) for each in self.names if each != name and each != self.read_only)


class _ImageReader:
    def __init__(self, image: StoreImage) -> None:
        self._image = image

    def get(self, name: str, key: bytes) -> bytes | None:
        return self._image.maps[name].rows.get(key)


def image_vector(image: StoreImage) -> Vector | None:
    return vector_in(_ImageReader(image))  # type: ignore[arg-type]  # it only gets


def _topology(rng: random.Random, names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Mesh, ring, chain or star."""
    pairs = {
        "mesh": [(a, b) for a in names for b in names if a < b],
        "ring": [*pairwise(names), (names[0], names[-1])],
        "chain": list(pairwise(names)),
        "star": [(names[0], each) for each in names[1:]],
    }[rng.choice(("mesh", "mesh", "ring", "chain", "star"))]
    return {each: tuple(b if a == each else a for a, b in pairs if each in (a, b)) for each in names}


def _is_slow(world: World) -> bool:
    """Whether many small messages would not arrive in time: what is lost is not sent again on a simulated
    connection, and each waits for the disk."""
    network, disk = world.options.network, world.options.disk
    return bool(network.loss or network.late) or disk.sync_mean_ns > 2 * MILLISECOND


def _is_put_back(world: World) -> bool:
    """Whether a store is put back in this run. One that nobody tells of it in time cannot know (G3); runs
    stay within that limit."""
    return any(event.kind in ("store_put_back", "store_copied") for event in world.options.faults)


def _config(rng: random.Random, *, world: World) -> ReplicationConfig:
    window_updates, window_bytes = rng.choice((1, 3, 50)), rng.choice((200, 4_000, 100_000))
    batch_updates, batch_bytes = rng.choice((1, 4, 20)), rng.choice((500, 5_000))
    piece_bytes = rng.choice((300, 2_000, 20_000))
    if _is_slow(world):
        window_updates, window_bytes, batch_updates, batch_bytes = 50, 100_000, 20, 50_000
        piece_bytes = 100_000
    return ReplicationConfig(
        window_updates=window_updates,
        window_bytes=window_bytes,
        batch_updates=batch_updates,
        batch_bytes=batch_bytes,
        relay_ns=rng.choice((1, 10, 60)) * MILLISECOND,
        have_ns=3 * MILLISECOND,
        tick_ns=80 * MILLISECOND,
        silence_ns=400 * MILLISECOND,
        statement_ns=rng.choice((80, 150, 300)) * MILLISECOND,
        purge_ns=rng.choice((100, 300, 800)) * MILLISECOND,
        hear_first_ns=60 * SECOND if _is_put_back(world) else 100 * MILLISECOND,
        log_age_s=3_000_000,
        log_updates=rng.choice((12, 40, 1_000, 1_000)),
        acknowledge_ns=200 * MILLISECOND,
        copies_max=4,
        piece_bytes=piece_bytes,
        copy_window=rng.choice((1, 3)),
    )
