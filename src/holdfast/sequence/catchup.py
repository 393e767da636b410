"""State for a learner whose log does not meet its primary's, and for a member that has the log and not the
object: offered, fetched in chunks, installed (M3, M4, E8).

The learner pulls, a few chunks at a time: so the transfer is throttled by its receiver, goes on after a lost
message, and stops no call. Neither side holds the state as a whole: the primary reads each chunk from where
it is kept, the learner writes it to where it will be. Chunks are hashed one by one, and their hashes
together; nothing of the state counts before it is durable as a checkpoint. What the learner's log held is
dropped only then: until that moment it still has what it had.

A listed member that lost its object takes the state and keeps its log, which it has acknowledged: the state
is of a point in that log, and the object goes on from there.
*Without that:* {A*,B} with ``min_in_sync`` 2; B differs, takes the state at 90 and drops its log, which ends
with 100; A burns; B claims with 90.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId, Position
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import Chunk, Fetch, Offer
from holdfast.sequence.ports import Kept, Received
from holdfast.storage.checkpoint import CHUNK_BYTES_MAX, Digest
from holdfast.storage.record import ORIGIN, Point

STATE_BYTES_MAX: Final = 1 << 36
"""A learner refuses to take more."""
UNSYNCED_BYTES_MAX: Final = 32 << 20
"""With so much on its way to the disk a learner asks for no more; the next offer finds it ready."""


class Offering:
    """The primary's side: one state at a time, for as many learners as want it."""

    def __init__(self, footing: MemberState) -> None:
        self._on = footing
        self._offered: tuple[Offer, Kept] | None = None

    def offer(self, host: HostId, at_least: Position = ORIGIN.position) -> None:
        """Offer the present state, or the one on offer if the log still reaches back to it; one that stands
        for *at_least* that much, or none."""
        on = self._on
        wanted = max(on.store.floor.position, at_least)
        if self._offered is None or self._offered[0].point.position < wanted:
            self._offered = self._chosen(at_least)
        if self._offered is not None:
            offer = self._offered[0]
            on.send(
                host,
                Offer(on.group, on.epoch, offer.point, offer.size, offer.chunk_bytes, offer.digest),
            )

    def on_fetch(self, host: HostId, fetch: Fetch) -> None:
        if self._offered is None or fetch.position != self._offered[0].point.position:
            return
        on = self._on
        offer, kept = self._offered
        if not 0 <= fetch.number < count_of(offer):
            return
        try:
            chunk = kept.chunk(fetch.number)
        except Unavailable:
            # Newer checkpoints took its place while it was fetched: the learner begins again from one.
            self._offered = None
            self.offer(host)
            return
        on.send(host, Chunk(on.group, on.epoch, fetch.position, fetch.number, chunk))

    def withdraw(self) -> None:
        """Nobody needs it any more."""
        self._offered = None

    def _chosen(self, at_least: Position) -> tuple[Offer, Kept] | None:
        on = self._on
        kept = on.application.capture(at_least)
        point = on.store.point_at(kept.position) if kept is not None else None
        if kept is None or point is None:
            return None
        return Offer(on.group, on.epoch, point, kept.size, kept.chunk_bytes, kept.digest()), kept


def count_of(offer: Offer) -> int:
    """How many chunks it has."""
    return -(-offer.size // offer.chunk_bytes)


@dataclass(slots=True)
class _Transfer:
    primary: HostId
    offer: Offer
    received: Received
    digest: Digest = field(default_factory=Digest)
    written: int = 0
    """So many chunks are on their way to the disk, in their order."""
    early: dict[int, bytes] = field(default_factory=dict)
    """Chunks that came before one that is missing; never more than are in flight."""
    asked: int = 0
    keeps_log: bool = False
    """It is for a listed member, whose log holds this point and stays (E8)."""

    def take(self, number: int, data: bytes, ahead_max: int) -> None:
        """A chunk has come; perhaps not the next one, perhaps again."""
        if self.written <= number < self.written + ahead_max and len(data) == self._length(number):
            self.early[number] = data
        while self.written in self.early:
            chunk = self.early.pop(self.written)
            self.digest.add(chunk)
            self.received.write(chunk)
            self.written += 1

    @property
    def is_whole(self) -> bool:
        return self.written == count_of(self.offer)

    def _length(self, number: int) -> int:
        offer = self.offer
        return min(offer.chunk_bytes, offer.size - number * offer.chunk_bytes)


class Learning:
    """The learner's side."""

    def __init__(self, footing: MemberState, on_installed: Callable[[], None]) -> None:
        self._on = footing
        self._on_installed = on_installed
        self._transfer: _Transfer | None = None
        self._is_saving = False

    def on_offer(self, primary: HostId, offer: Offer) -> None:
        on = self._on
        keeps_log = self._lacks(offer.point)
        # A log that meets the primary's is never given up for a state: others count on it.
        is_ahead = offer.point.position > on.committed and not self._holds(offer.point)
        if self._is_saving or not (keeps_log or is_ahead) or not _is_sound(offer):
            return
        known = self._transfer
        if known is not None and (known.offer.point, known.offer.digest) == (offer.point, offer.digest):
            known.primary, known.offer, known.keeps_log = primary, offer, keeps_log
        else:
            self._give_up()
            received = on.ports.checkpoints.receive(on.group, offer.point)
            self._transfer = _Transfer(primary, offer, received, keeps_log=keeps_log)
            on.note("learning", point=offer.point.position, size=offer.size)
        self._fetch(anew=True)

    def on_chunk(self, chunk: Chunk) -> None:
        transfer = self._transfer
        if transfer is None or chunk.position != transfer.offer.point.position or self._is_saving:
            return
        transfer.take(chunk.number, chunk.data, self._on.config.chunks_in_flight)
        self._fetch(anew=False)

    def stop(self) -> None:
        """This member has won an epoch: whatever was on offer is of another's history, or of its own."""
        if not self._is_saving:
            self._give_up()
        self._is_saving = False

    def _give_up(self) -> None:
        if self._transfer is not None:
            self._transfer.received.abandon()
            self._transfer = None

    def _fetch(self, *, anew: bool) -> None:
        on, transfer = self._on, self._transfer
        assert transfer is not None
        if transfer.is_whole:
            self._finish(transfer)
            return
        if transfer.received.unsynced_bytes > UNSYNCED_BYTES_MAX:
            return
        until = min(transfer.written + on.config.chunks_in_flight, count_of(transfer.offer))
        for number in range(transfer.written, until):
            if number not in transfer.early and (anew or number >= transfer.asked):
                on.send(transfer.primary, Fetch(on.group, on.epoch, transfer.offer.point.position, number))
                transfer.asked = max(transfer.asked, number + 1)

    def _finish(self, transfer: _Transfer) -> None:
        on = self._on
        if transfer.digest.value() != transfer.offer.digest:
            self._give_up()
            on.note("transfer_damaged", point=transfer.offer.point.position)
            return
        self._transfer = None
        self._is_saving = True
        point = transfer.offer.point
        saved = self._saved_beside_log if transfer.keeps_log else self._saved
        transfer.received.finish(lambda kept: saved(point, kept))

    def _lacks(self, point: Point) -> bool:
        """Whether this member, listed and with its whole log, wants a state as of *point* (E8)."""
        on = self._on
        fitness = on.application.fitness()
        is_listed = on.standing.own_entry is not None
        is_enough = point.position >= max(fitness.found_at, on.store.floor.position)
        return is_listed and fitness.wants_state and is_enough and self._holds(point)

    def _holds(self, point: Point) -> bool:
        return self._on.store.point_at(point.position) == point

    def _saved_beside_log(self, point: Point, kept: Kept) -> None:
        """The state is durable; the object goes on from it, by the log that this member has."""
        on = self._on
        was_wanted, self._is_saving = self._is_saving, False
        if not was_wanted or not self._lacks(point):
            # It came to an object by itself meanwhile. *Without this:* the object is made of the newest
            # checkpoint there is, this one, and then given records that it stands for.
            if self._holds(point):
                on.application.keeps(kept)
            return
        # The primary captured what is committed: so it is, up to there, though this member was not told yet.
        on.committed = max(on.committed, point.position)
        on.application.install(kept)
        on.note("state_taken", position=point.position)
        on.application.on_committed(on.committed)
        self._on_installed()

    def _saved(self, point: Point, kept: Kept) -> None:
        on = self._on
        was_wanted, self._is_saving = self._is_saving, False
        if not was_wanted or point.position <= on.committed or self._holds(point):
            return
        # Log and object change together: what is accepted next continues both.
        on.store.install(point)
        on.ports.flush()
        on.committed = point.position
        on.application.install(kept)
        on.note("installed", position=point.position)
        self._on_installed()


def _is_sound(offer: Offer) -> bool:
    """Whether it can be taken at all."""
    return 0 < offer.chunk_bytes <= CHUNK_BYTES_MAX and 0 <= offer.size <= STATE_BYTES_MAX
