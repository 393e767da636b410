"""Two hosts offer versions of a set of files; two others fetch them, on disks and a network that fail.

Rules: a manifest counts only when its files are whole and durable (W5). What is here and synced is not asked
for again, nothing is believed but by its hash, and windows and names stay within their bounds (W6). After
healing, every host gets the newest version.
"""

import random
from functools import partial
from typing import ClassVar

from holdfast.shipping.messages import decode_message, encode_message
from holdfast.sim.engine.options import SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import (
    DISK_KINDS,
    NETWORK_KINDS,
    POWER_KINDS,
    PROCESS_KINDS,
    FaultKind,
    Field,
    Parameters,
)
from holdfast.sim.runner.scenario import Bound, Scenario
from holdfast.sim.scenarios.shipping.hosts import CONFIG, SOURCES, Fetcher, Source
from holdfast.sim.scenarios.shipping.library import CHUNK_BYTES, PUBLISH_NS, ROT, Library

FETCHERS = ("c", "d")


class Codec:
    """The production codec."""

    encode = staticmethod(encode_message)
    decode = staticmethod(decode_message)


def _draw_garbled(rng: random.Random, field: Field) -> Parameters:
    return {"chunks": rng.randint(1, 8)}


def _garbled(world: World, event: FaultEvent) -> bool:
    """Damage the next chunks that a source sends."""
    source = world.nodes[event.target].core
    if not isinstance(source, Source):
        return False
    source.garbled += event.parameters["chunks"]
    return True


class ShippingScenario(Scenario):
    name = "shipping"
    nodes = (*SOURCES, *FETCHERS)
    kinds = (*PROCESS_KINDS, *POWER_KINDS, *NETWORK_KINDS, *DISK_KINDS, *ROT, "wipe")
    own_kinds = (FaultKind("garbled", _draw_garbled, _garbled),)
    bounds = (Bound(kinds=ROT, per_run=8),)
    fault_ns: ClassVar[int] = 4 * SECOND
    heal_ns: ClassVar[int] = 3 * SECOND

    def __init__(self) -> None:
        self._library: Library | None = None

    def build(self, world: World) -> None:
        world.network.codec = Codec()
        self._library = Library(world)
        for name in SOURCES:
            world.add_node(name, partial(Source, library=self._library))
        for name in FETCHERS:
            world.add_node(name, partial(Fetcher, library=self._library))
        world.after(PUBLISH_NS, self._publish, world)

    def _publish(self, world: World) -> None:
        """Publish until the world is healed, and then nothing more, so that everybody can arrive."""
        assert self._library is not None
        if not world.is_healed:
            self._library.publish()
            world.after(PUBLISH_NS, self._publish, world)

    def each_step(self, world: World) -> None:
        most = max(CONFIG.window_bytes, CHUNK_BYTES)
        for name in FETCHERS:
            fetcher: Fetcher | None = world.nodes[name].core
            if fetcher is not None and fetcher.fetch is not None and fetcher.fetch.held_up_bytes > most:
                world.violation("W6", f"{name}: {fetcher.fetch.held_up_bytes} bytes are held up")

    def finish(self, world: World) -> None:
        assert self._library is not None
        wanted = self._library.newest.manifest.position
        for name in FETCHERS:
            fetcher: Fetcher | None = world.nodes[name].core
            if fetcher is None or fetcher.done < wanted:
                got = None if fetcher is None else (fetcher.done, fetcher.fetch and fetcher.fetch.progress)
                world.violation(
                    "progress", f"{name} has no version {wanted}: {got}; {world.nodes[name].stops[-1:]}"
                )
                return
        self._library.check_sent(CONFIG.window_bytes)


SCENARIO = ShippingScenario
