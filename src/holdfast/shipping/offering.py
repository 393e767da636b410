"""The sending end: it serves chunks of the manifests that this host offers, at a bounded rate.

Every chunk is read and hashed before it leaves. The receiver would notice a damaged one too, but only here
can it be said whose disk it is. Asks wait in a queue while the rate is used up; what finds the queue full is
dropped, and its sender asks again.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from holdfast.model.errors import Corruption, DiskFailed, Unavailable
from holdfast.model.ports import Clock, Network, Timers, Trace
from holdfast.shipping.manifest import Contents, ManifestId, digest_of
from holdfast.shipping.messages import Ask, ChunkSent, NotSent
from holdfast.shipping.rate import Rate
from holdfast.storage.segments import Readable

ASKS_MAX: Final = 1024
"""The most asks that wait, of all peers together."""


@dataclass(slots=True)
class Offer:
    """One manifest that this host offers."""

    contents: Contents
    source: Readable
    """The files, by the names that the manifest gives them."""
    last_asked_ns: int
    """When somebody last asked for a chunk. Whoever wants to remove the files looks here first."""
    was_asked: bool = False
    """Whether anybody has; otherwise it is when the files were offered."""


class Offering:
    """Everything that one host offers. *on_damage* is told of damage to this host's own files."""

    def __init__(
        self,
        clock: Clock,
        timers: Callable[[Callable[[object], None]], Timers],
        network: Network,
        trace: Trace,
        on_damage: Callable[[ManifestId, Corruption], None],
        *,
        bytes_per_s: int,
    ) -> None:
        self.offers: dict[ManifestId, Offer] = {}
        self.bytes_sent = 0
        self._clock = clock
        self._timers = timers(self._on_timer)
        self._network = network
        self._trace = trace
        self._on_damage = on_damage
        self._rate = Rate(clock, bytes_per_s)
        self._asks: deque[tuple[str, Ask]] = deque()
        self._is_waiting = False

    def offer(self, contents: Contents, source: Readable) -> None:
        """Serve this manifest from *source* until it is withdrawn. The files must not change meanwhile."""
        self.offers[contents.id] = Offer(contents, source, self._clock.now())

    def withdraw(self, manifest: ManifestId) -> None:
        """Serve it no longer. Whoever is fetching it looks elsewhere, and keeps what it has."""
        self.offers.pop(manifest, None)

    def on_ask(self, peer: str, ask: Ask) -> None:
        if len(self._asks) >= ASKS_MAX:
            self._trace.note("shipping-ask-dropped", peer=peer)
            return
        self._asks.append((peer, ask))
        self._answer()

    def on_lost(self, peer: str) -> None:
        """The connection to *peer* has ended: what it asked for would reach nobody."""
        self._asks = deque(each for each in self._asks if each[0] != peer)

    def _on_timer(self, tag: object) -> None:
        self._is_waiting = False
        self._answer()

    def _answer(self) -> None:
        while self._asks and not self._is_waiting:
            wait_ns = self._rate.wait_ns()
            if wait_ns:
                self._is_waiting = True
                self._timers.set(wait_ns, "rate")
                return
            peer, ask = self._asks.popleft()
            answer = self._look_up(ask)
            if isinstance(answer, ChunkSent):
                self._rate.spend(len(answer.data))
                self.bytes_sent += len(answer.data)
            self._network.send(peer, answer)

    def _look_up(self, ask: Ask) -> ChunkSent | NotSent:
        offer = self.offers.get(ManifestId(ask.manifest))
        if offer is None or ask.number >= offer.contents.count:
            return NotSent(ask.manifest, ask.number, "not offered here")
        offer.last_asked_ns, offer.was_asked = self._clock.now(), True
        chunk = offer.contents.chunk(ask.number)
        try:
            data = offer.source.read(chunk.file.name, chunk.offset, chunk.length)
        except (DiskFailed, Unavailable) as error:
            return NotSent(ask.manifest, ask.number, str(error)[:100])
        found = digest_of(data)
        if found != chunk.digest:
            damage = Corruption(
                "a chunk of an offered file",
                file=chunk.file.name,
                offset=chunk.offset,
                expected=chunk.digest.hex()[:12],
                found=found.hex()[:12],
            )
            self._on_damage(offer.contents.id, damage)
            return NotSent(ask.manifest, ask.number, f"damaged here, at byte {chunk.offset} of its file")
        return ChunkSent(ask.manifest, ask.number, data)
