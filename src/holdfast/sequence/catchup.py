"""State transfer from the primary to a member that cannot catch up from the log (M3, M4, E8).

Two kinds of members need it: a learner whose log shares no point with the primary's, and a member that has
the log but not the object. The primary offers a state, the member fetches it in chunks and installs it.

The learner pulls a few chunks at a time. So the receiver sets the pace, the transfer survives a lost message,
and no call has to stop for it. Neither side holds the whole state in memory: the primary reads each chunk
from where it is stored, and the learner writes it to its final place. Every chunk is hashed, and the hashes
are hashed together. No part of the state counts before all of it is durable as a checkpoint. Only then does
the learner drop its old log, so until that moment it keeps everything it had.

A listed member that lost its object takes the state and keeps its log, because it has acknowledged that log.
The state belongs to a point in the log, and the object continues from that point.
*Without it:* {A*,B} with ``min_in_sync`` 2; B differs, takes the state at 90 and drops its log, which ends
with 100; A burns; B claims with 90.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId, Position
from holdfast.sequence.log_hold import LogHold
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import Chunk, Fetch, Offer
from holdfast.sequence.ports import Kept, Received
from holdfast.storage.checkpoint import CHUNK_BYTES_MAX, Digest
from holdfast.storage.record import ORIGIN, Point

STATE_BYTES_MAX: Final = 1 << 36
"""The largest state that a learner accepts."""
UNSYNCED_BYTES_MAX: Final = 32 << 20
"""A learner stops asking for chunks while this much is waiting to be synced, and so in its memory."""


class Offering:
    """The primary's side: offers one state at a time, to any number of learners."""

    def __init__(self, state: MemberState) -> None:
        self._on = state
        self._offered: tuple[Offer, Kept] | None = None
        self.hold = LogHold(state)

    def offer(self, host: HostId, at_least: Position = ORIGIN.position, *, needs_log: bool = True) -> None:
        """Offer a state that covers *at_least* that position. Reuses the state on offer if the log still
        reaches back to it, or if the member, which has the log itself, is in the middle of it; offers nothing
        if no state covers that much."""
        on, offered = self._on, self._offered
        wanted = max(on.store.floor.position, at_least)
        if offered is not None and not needs_log and self.hold.is_fetching(host, offered[0].point.position):
            wanted = at_least
        if offered is None or offered[0].point.position < wanted:
            self._offered = self._chosen(at_least)
        if self._offered is not None:
            offer, _ = self._offered
            on.send(
                host,
                Offer(on.group, on.epoch, offer.point, offer.size, offer.chunk_bytes, offer.digest),
            )
            self.hold.offered(host, offer.point.position, needs_log=needs_log)

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
            # Newer checkpoints have replaced this one during the transfer: the learner starts over from a
            # newer one.
            self._offered = None
            self.offer(host)
            return
        self.hold.fetched(host, fetch.number)
        on.send(host, Chunk(on.group, on.epoch, fetch.position, fetch.number, chunk))

    def withdraw(self) -> None:
        """Stop offering the state, since nobody needs it any more."""
        self._offered = None
        self.hold.end()

    def _chosen(self, at_least: Position) -> tuple[Offer, Kept] | None:
        on = self._on
        kept = on.application.capture(at_least)
        point = on.store.point_at(kept.position) if kept is not None else None
        if kept is None or point is None:
            return None
        return Offer(on.group, on.epoch, point, kept.size, kept.chunk_bytes, kept.digest()), kept


def count_of(offer: Offer) -> int:
    """The number of chunks in the offered state."""
    return -(-offer.size // offer.chunk_bytes)


@dataclass(slots=True)
class _Transfer:
    primary: HostId
    offer: Offer
    received: Received
    digest: Digest = field(default_factory=Digest)
    written: int = 0
    """How many chunks have been handed to the disk, in order."""
    early: dict[int, bytes] = field(default_factory=dict)
    """Chunks that arrived before a missing one; never more than are in flight."""
    asked: int = 0
    keeps_log: bool = False
    """The state is for a listed member whose log holds this point; it keeps its log (E8)."""

    def take(self, number: int, data: bytes, ahead_max: int) -> None:
        """Take in a chunk, which may be out of order or a duplicate."""
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
    """The learner's side: fetches an offered state and installs it."""

    def __init__(self, state: MemberState, on_installed: Callable[[], None]) -> None:
        self._on = state
        self._on_installed = on_installed
        self._transfer: _Transfer | None = None
        self._is_saving = False

    def on_offer(self, primary: HostId, offer: Offer) -> None:
        on = self._on
        keeps_log = self._lacks(offer.point)
        # A log that shares a point with the primary's is never given up for a state: others rely on it.
        is_ahead = offer.point.position > on.committed and not self._holds(offer.point)
        if self._is_saving or not (keeps_log or is_ahead) or not _is_sound(offer):
            return
        if on.ports.lacks_space():
            on.note("no_space")
            return
        known = self._transfer
        if known is not None and (known.offer.point, known.offer.digest) == (offer.point, offer.digest):
            known.primary, known.offer, known.keeps_log = primary, offer, keeps_log
        else:
            self._give_up()
            received = on.ports.checkpoints.receive(on.group, offer.point, offer.size)
            if received is None:
                on.note("no_space")
                return
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
        """Abandon the transfer, because this member has won an epoch. The offered state belongs to another
        member's history, or is already part of its own."""
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
            transfer.received.when_synced(lambda: self._on_synced(transfer))
            return
        until = min(transfer.written + on.config.chunks_in_flight, count_of(transfer.offer))
        for number in range(transfer.written, until):
            if number not in transfer.early and (anew or number >= transfer.asked):
                on.send(transfer.primary, Fetch(on.group, on.epoch, transfer.offer.point.position, number))
                transfer.asked = max(transfer.asked, number + 1)

    def _on_synced(self, transfer: _Transfer) -> None:
        if transfer is self._transfer:
            self._fetch(anew=False)

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
        transfer.received.finish(lambda kept: saved(point, kept), self._not_saved)

    def _not_saved(self) -> None:
        """Take the next offer: what the state stands on could not be had (W8)."""
        self._is_saving = False

    def _lacks(self, point: Point) -> bool:
        """Whether this member is listed, has its whole log, and wants a state as of *point* (E8)."""
        on = self._on
        fitness = on.application.fitness()
        is_listed = on.standing.own_entry is not None
        is_enough = point.position >= max(fitness.found_at, on.store.floor.position)
        return is_listed and fitness.wants_state and is_enough and self._holds(point)

    def _holds(self, point: Point) -> bool:
        return self._on.store.point_at(point.position) == point

    def _saved_beside_log(self, point: Point, kept: Kept) -> None:
        """Let the object continue from the state, which is durable now, using the log that this member
        kept."""
        on = self._on
        was_wanted, self._is_saving = self._is_saving, False
        if not was_wanted or not self._lacks(point):
            self._keep_unwanted(point, kept)  # the member got its object back by itself in the meantime
            return
        # The primary captured only committed state. So everything up to this point is committed, even if this
        # member has not been told yet.
        on.committed = max(on.committed, point.position)
        on.application.install(kept)
        on.note("state_taken", position=point.position)
        on.application.on_committed(on.committed)
        self._on_installed()

    def _saved(self, point: Point, kept: Kept) -> None:
        on = self._on
        was_wanted, self._is_saving = self._is_saving, False
        if not was_wanted or point.position <= on.committed or self._holds(point):
            self._keep_unwanted(point, kept)  # records that were sent meanwhile have closed the gap
            return
        # The log and the object change together, so that the next accepted record continues both.
        on.store.install(point)
        on.ports.flush()
        on.committed = point.position
        on.application.install(kept)
        on.note("installed", position=point.position)
        self._on_installed()

    def _keep_unwanted(self, point: Point, kept: Kept) -> None:
        """Let the object know of a checkpoint from which nothing needs to continue now. *Without this:* the
        next object is built from the newest checkpoint, which is this one, and then gets records that the
        checkpoint already covers."""
        if self._holds(point):
            self._on.application.keeps(kept)


def _is_sound(offer: Offer) -> bool:
    """Whether the offer's sizes are within the limits."""
    return 0 < offer.chunk_bytes <= CHUNK_BYTES_MAX and 0 <= offer.size <= STATE_BYTES_MAX
