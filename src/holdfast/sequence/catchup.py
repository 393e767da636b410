"""State for a learner whose log does not meet its primary's: offered, fetched in chunks, installed (M3, M4).

The learner pulls, a few chunks at a time: so the transfer is throttled by its receiver, goes on after a lost
message, and stops no call. The state is hashed as a whole; nothing of it counts before it is durable as a
checkpoint. What the learner's log held is dropped only then: until that moment it still has what it had.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Final

from holdfast.model.ids import HostId
from holdfast.sequence.footing import Footing
from holdfast.sequence.messages import Chunk, Fetch, Offer
from holdfast.storage.record import Point

STATE_BYTES_MAX: Final = 1 << 32
"""A learner refuses to gather more."""


def digest_of(state: bytes) -> bytes:
    return blake2b(state, digest_size=32).digest()


class Offering:
    """The primary's side: one captured state at a time, for as many learners as want it."""

    def __init__(self, footing: Footing) -> None:
        self._on = footing
        self._offered: tuple[Offer, bytes] | None = None

    def offer(self, host: HostId) -> None:
        """Offer the present state, or the one on offer if the log still reaches back to it."""
        on = self._on
        if self._offered is None or self._offered[0].point.position < on.store.floor.position:
            captured = on.application.capture()
            point = on.store.point_at(captured.position)
            if point is None:
                return
            state = captured.state
            offer = Offer(on.group, on.epoch, point, len(state), on.config.chunk_bytes, digest_of(state))
            self._offered = (offer, state)
        offer = self._offered[0]
        on.send(
            host,
            Offer(on.group, on.epoch, offer.point, offer.size, offer.chunk_bytes, offer.digest),
        )

    def on_fetch(self, host: HostId, fetch: Fetch) -> None:
        if self._offered is None or fetch.position != self._offered[0].point.position:
            return
        offer, state = self._offered
        start = fetch.number * offer.chunk_bytes
        data = state[start : start + offer.chunk_bytes]
        on = self._on
        on.send(host, Chunk(on.group, on.epoch, fetch.position, fetch.number, data))

    def withdraw(self) -> None:
        """Nobody needs it any more."""
        self._offered = None


@dataclass(slots=True)
class _Transfer:
    primary: HostId
    offer: Offer
    chunks: dict[int, bytes] = field(default_factory=dict)
    asked: int = 0

    @property
    def count(self) -> int:
        return -(-self.offer.size // self.offer.chunk_bytes)


class Learning:
    """The learner's side."""

    def __init__(self, footing: Footing, on_installed: Callable[[], None]) -> None:
        self._on = footing
        self._on_installed = on_installed
        self._transfer: _Transfer | None = None
        self._is_saving = False

    def on_offer(self, primary: HostId, offer: Offer) -> None:
        on = self._on
        if self._is_saving or offer.point.position <= on.committed or offer.size > STATE_BYTES_MAX:
            return
        known = self._transfer
        if known is not None and (known.offer.point, known.offer.digest) == (offer.point, offer.digest):
            known.primary, known.offer = primary, offer
        else:
            self._transfer = _Transfer(primary, offer)
            on.note("learning", point=offer.point.position, size=offer.size)
        self._fetch(anew=True)

    def on_chunk(self, chunk: Chunk) -> None:
        transfer = self._transfer
        if transfer is None or chunk.position != transfer.offer.point.position or self._is_saving:
            return
        if 0 <= chunk.number < transfer.count and len(chunk.data) <= transfer.offer.chunk_bytes:
            transfer.chunks[chunk.number] = chunk.data
        self._fetch(anew=False)

    def stop(self) -> None:
        """This member has won an epoch: whatever was on offer is of another's history, or of its own."""
        self._transfer = None
        self._is_saving = False

    def _fetch(self, *, anew: bool) -> None:
        on, transfer = self._on, self._transfer
        assert transfer is not None
        missing = [number for number in range(transfer.count) if number not in transfer.chunks]
        if not missing:
            self._finish(transfer)
            return
        window = missing[: on.config.chunks_in_flight]
        for number in window if anew else [each for each in window if each >= transfer.asked]:
            on.send(transfer.primary, Fetch(on.group, on.epoch, transfer.offer.point.position, number))
            transfer.asked = max(transfer.asked, number + 1)

    def _finish(self, transfer: _Transfer) -> None:
        on = self._on
        state = b"".join(transfer.chunks[number] for number in range(transfer.count))
        self._transfer = None
        if digest_of(state) != transfer.offer.digest or len(state) != transfer.offer.size:
            on.note("transfer_damaged", point=transfer.offer.point.position)
            return
        self._is_saving = True
        point = transfer.offer.point
        on.ports.checkpoints.save(on.group, point, state, partial(self._saved, point, state))

    def _saved(self, point: Point, state: bytes) -> None:
        on = self._on
        was_wanted, self._is_saving = self._is_saving, False
        if not was_wanted or point.position <= on.committed:
            return
        # Log and object change together: what is accepted next continues both.
        on.store.install(point)
        on.ports.flush()
        on.committed = point.position
        on.application.install(point.position, state)
        on.note("installed", position=point.position)
        self._on_installed()
