"""The simulated network: delay, loss, duplication, reordering, and cuts of every shape."""

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from holdfast.sim.engine.options import NetworkOptions
from holdfast.sim.engine.trace import describe

if TYPE_CHECKING:
    from holdfast.sim.engine.node import Life
    from holdfast.sim.engine.world import World


Link = tuple[str, str]
"""The direction from one node to another; the way back is a separate link."""


class Codec(Protocol):
    """The encoding that production uses between a core and the network."""

    def encode(self, message: object) -> bytes: ...

    def decode(self, data: bytes) -> object: ...


class SimNetwork:
    """Carries messages between the nodes of a world.

    Loss, duplication and delay are drawn when a message is sent. The message is dropped when its link is cut
    at the time of sending or of delivery. It is delivered to whichever incarnation of the receiver is then
    alive.
    """

    def __init__(self, world: "World", rng: random.Random, options: NetworkOptions) -> None:
        self._world = world
        self._rng = rng
        self._calm = options
        self._now = options
        self._cuts: dict[Link, int] = {}
        self.codec: Codec | None = None
        """Set by a scenario so that messages go through its production codec."""

    def send(self, source: str, target: str, message: object) -> None:
        link = (source, target)
        if link in self._cuts or target not in self._world.nodes:
            return
        options = self._now
        draw = self._rng.random
        if source == target:
            self._deliver_after(options.delay_min_ns, source, target, self._encoded(message))
            return
        if options.loss and draw() < options.loss:
            return
        payload = self._encoded(message)
        self._deliver_after(self._delay(options), source, target, payload)
        if options.duplicate and draw() < options.duplicate:
            self._deliver_after(self._delay(options), source, target, payload)

    # --- faults

    def cut(self, links: Iterable[Link]) -> None:
        """Block *links*. A link opens again once it has been mended as often as it was cut."""
        for link in links:
            self._cuts[link] = self._cuts.get(link, 0) + 1

    def mend(self, links: Iterable[Link]) -> None:
        for link in links:
            left = self._cuts.get(link, 0) - 1
            if left > 0:
                self._cuts[link] = left
            else:
                self._cuts.pop(link, None)

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def weather(self, options: NetworkOptions) -> None:
        """Carry messages under these conditions from now on."""
        self._now = options

    def calm(self) -> None:
        """Return to the conditions with which the run began."""
        self._now = self._calm

    def heal(self) -> None:
        self._cuts.clear()
        self.calm()

    # --- carrying

    def _encoded(self, message: object) -> object:
        return message if self.codec is None else self.codec.encode(message)

    def _delay(self, options: NetworkOptions) -> int:
        rng = self._rng
        if options.late and rng.random() < options.late:
            return rng.randrange(options.late_max_ns)
        return options.delay_min_ns + int(rng.expovariate(1.0) * options.delay_mean_ns)

    def _deliver_after(self, delay_ns: int, source: str, target: str, payload: object) -> None:
        self._world.after(delay_ns, self._deliver, source, target, payload)

    def _deliver(self, source: str, target: str, payload: object) -> None:
        node = self._world.nodes[target]
        if not node.alive or (self._cuts and (source, target) in self._cuts):
            return
        message = payload if self.codec is None else self.codec.decode(payload)  # type: ignore[arg-type]  # encoded by send
        self._world.trace.add(f"{self._world.now} {source}>{target} {describe(message)}")
        node.receive(source, message)


class NetworkHandle:
    """The Network port of one process."""

    __slots__ = ("_life", "_name", "_network")

    def __init__(self, network: SimNetwork, name: str, life: "Life") -> None:
        self._network = network
        self._name = name
        self._life = life

    def send(self, peer: str, message: object) -> None:
        if not self._life.over:
            self._network.send(self._name, peer, message)
