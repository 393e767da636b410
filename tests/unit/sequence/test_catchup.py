"""A learner gets a complete state or none, whatever is lost, repeated or replaced on the way (M3, M4)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.model.errors import Unavailable
from holdfast.model.ids import Epoch, GroupId, HostId, Position
from holdfast.sequence.catchup import Learning, Offering
from holdfast.sequence.config import SequenceConfig
from holdfast.sequence.messages import Chunk, Fetch, Offer
from holdfast.sequence.ports import Captured, Kept, chunks_of
from holdfast.sequence.role import NEAR, Fitness, Rank
from holdfast.storage.record import ORIGIN, Point

GROUP, EPOCH = GroupId(1), Epoch(3)
PRIMARY, LEARNER = HostId("a"), HostId("b")
STATE = bytes(range(256)) * 5
CHUNK = 100
IN_FLIGHT = 4


class Side:
    """One member's surroundings, as far as a transfer needs them."""

    def __init__(self, state: bytes, position: int = 9) -> None:
        self.kept: Kept = Captured(Position(position), state, CHUNK)
        self.point = Point(Position(position), EPOCH, 77)
        self.sent: list[Any] = []
        self.written = b""
        self.abandoned = 0
        self.unsynced_bytes = 0
        self.installed: Kept | None = None
        self.kept_aside = Position(0)
        self.lacks = NEAR
        self.lacks_space = False
        self.size_max = 1 << 20
        self.held: tuple[Position | None, Position | None] = (None, None)
        self.dropped: list[Point] = []
        self.told: list[Position] = []
        self.log = {Position(0): ORIGIN}
        self.on: Any = SimpleNamespace(
            group=GROUP,
            epoch=EPOCH,
            committed=Position(0),
            now=0,
            config=SequenceConfig(chunks_in_flight=IN_FLIGHT),
            application=self,
            store=SimpleNamespace(
                floor=ORIGIN, live_bytes=lambda: 0, point_at=self.log.get, install=self.dropped.append
            ),
            standing=SimpleNamespace(own_entry=None),
            ports=SimpleNamespace(checkpoints=self, flush=lambda: None, lacks_space=lambda: self.lacks_space),
            send=lambda host, message: self.sent.append(message),
            note=lambda kind, **_: None,
        )

    def capture(self, at_least: Position = ORIGIN.position) -> Kept | None:
        return self.kept if self.kept.position >= at_least else None

    def fitness(self) -> Fitness:
        return self.lacks

    def install(self, kept: Kept) -> None:
        self.installed = kept
        self.lacks = NEAR
        self.lacks_space = False

    def keeps(self, kept: Kept) -> None:
        self.kept_aside = kept.position

    def on_committed(self, up_to: Position) -> None:
        self.told.append(up_to)

    def receive(self, group: GroupId, point: Point, size: int) -> "Side | None":
        if size > self.size_max:
            return None
        self.written = b""
        return self

    def hold(self, group: GroupId, log: Position | None, state: Position | None) -> None:
        self.held = (log, state)

    def when_synced(self, then: Callable[[], None]) -> None:
        self.on_synced = then

    def write(self, data: bytes) -> None:
        self.written += data

    def finish(self, then: Callable[[Kept], None], failed: Callable[[], None]) -> None:
        then(Captured(self.point.position, self.written))

    def abandon(self) -> None:
        self.abandoned += 1

    def take_sent(self) -> list[Any]:
        sent, self.sent = self.sent, []
        return sent


class Gone(Captured):
    """A state that newer checkpoints have replaced."""

    def chunk(self, number: int) -> bytes:
        raise Unavailable("replaced")

    def digest(self) -> bytes:
        return Captured(self.position, self.state, self.chunk_bytes).digest()


class Transfer:
    def __init__(self, state: bytes = STATE) -> None:
        self.primary, self.learner = Side(state), Side(b"")
        self.primary.log[self.primary.point.position] = self.primary.point
        self.offering = Offering(self.primary.on)
        self.installed: list[bool] = []
        self.learning = Learning(self.learner.on, lambda: self.installed.append(True))

    def offer(self) -> Offer:
        self.offering.offer(LEARNER)
        (offer,) = self.primary.take_sent()
        assert isinstance(offer, Offer)
        return offer

    def answers(self) -> list[Any]:
        """The primary's answers to everything that the learner has asked for."""
        for fetch in self.learner.take_sent():
            assert isinstance(fetch, Fetch)
            self.offering.on_fetch(LEARNER, fetch)
        return self.primary.take_sent()

    def run(self, rounds: int = 100) -> None:
        for _ in range(rounds):
            for chunk in self.answers():
                self.learning.on_chunk(chunk)


@pytest.mark.parametrize("state", [STATE, STATE[:CHUNK], STATE[:1], b""])
def test_a_state_arrives_whole(state: bytes) -> None:
    transfer = Transfer(state)
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    transfer.run()
    assert transfer.learner.installed is not None
    assert b"".join(chunks_of(transfer.learner.installed)) == state
    assert transfer.installed == [True]


def test_the_log_is_held_from_the_state_on_offer_until_it_is_withdrawn() -> None:
    """M4: the learner needs the records that follow the state."""
    transfer = Transfer()
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    assert transfer.primary.held == (9, 9)
    transfer.run()
    assert transfer.primary.held == (9, 9)
    transfer.offering.withdraw()
    assert transfer.primary.held == (None, None)


def test_chunks_in_any_order_and_repeated_are_written_in_theirs() -> None:
    """The learner never holds more chunks than are in flight."""
    transfer = Transfer()
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    for _ in range(100):
        answers = transfer.answers()
        assert len(answers) <= IN_FLIGHT
        for chunk in (*reversed(answers), *answers):
            transfer.learning.on_chunk(chunk)
    assert transfer.learner.written == STATE


def test_a_lost_chunk_is_asked_for_again_with_the_next_offer() -> None:
    """Chunks that were written stay: the transfer continues where it was."""
    transfer = Transfer()
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    first, *_ = transfer.answers()
    transfer.learning.on_chunk(first)
    transfer.answers()  # all of these are lost
    assert transfer.learner.sent == []
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    assert [fetch.number for fetch in transfer.learner.sent] == [1, 2, 3, 4]
    transfer.run()
    assert transfer.learner.written == STATE
    assert transfer.learner.abandoned == 0


def test_a_chunk_that_is_not_what_was_offered_spoils_the_whole() -> None:
    """The learner installs nothing of it; the next offer starts over."""
    transfer = Transfer()
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    for _ in range(100):
        for chunk in transfer.answers():
            data = bytes(CHUNK) if chunk.number == 5 else chunk.data
            transfer.learning.on_chunk(Chunk(GROUP, EPOCH, chunk.position, chunk.number, data))
    assert transfer.learner.installed is None
    assert transfer.learner.abandoned == 1
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    transfer.run()
    assert transfer.learner.installed is not None


def test_a_checkpoint_that_was_replaced_while_it_was_fetched_is_offered_anew() -> None:
    transfer = Transfer()
    side = transfer.primary
    side.kept = Gone(Position(9), STATE, CHUNK)
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    side.kept, side.point = Captured(Position(12), STATE, CHUNK), Point(Position(12), EPOCH, 78)
    side.log[side.point.position] = side.point
    offers = transfer.answers()
    assert [(type(each), each.point.position) for each in offers[:1]] == [(Offer, 12)]
    transfer.learning.on_offer(PRIMARY, offers[0])
    assert transfer.learner.abandoned == 1
    transfer.run()
    assert transfer.learner.written == STATE


def test_a_learner_with_much_on_its_way_to_the_disk_asks_for_no_more() -> None:
    transfer = Transfer()
    transfer.learner.unsynced_bytes = 1 << 30
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    assert transfer.learner.sent == []
    transfer.learner.unsynced_bytes = 0
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    transfer.run()
    assert transfer.learner.installed is not None


def test_it_goes_on_as_soon_as_some_of_it_is_synced() -> None:
    """*Without it:* a state that comes faster than the disk takes it waits for an offer, every 32 MB."""
    transfer = Transfer()
    transfer.learner.unsynced_bytes = 1 << 30
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    transfer.learner.unsynced_bytes = 0
    transfer.learner.on_synced()
    transfer.run()
    assert transfer.learner.installed is not None
    transfer.learner.on_synced()  # of a transfer that is over


def test_a_state_for_which_there_is_no_space_is_not_asked_for() -> None:
    """D5. The next offer finds space."""
    transfer = Transfer()
    transfer.learner.size_max = len(STATE) - 1
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    assert transfer.learner.sent == []
    transfer.learner.size_max = len(STATE)
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    transfer.run()
    assert transfer.learner.installed is not None


def lacking(transfer: Transfer, *, found_at: int = 5, holds: bool = True) -> Side:
    """The learning side is listed, has everything committed, and has no object."""
    side = transfer.learner
    side.lacks = Fitness(Rank.UNFIT, "it differs", Position(found_at), wants_state=True)
    side.on.standing.own_entry = LEARNER
    side.on.committed = Position(12)
    if holds:
        side.log[transfer.primary.point.position] = transfer.primary.point
    return side


def test_a_listed_member_takes_a_state_and_keeps_its_log() -> None:
    """E8: the member keeps what it has acknowledged, and its object continues from there."""
    transfer = Transfer()
    side = lacking(transfer)
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    transfer.run()
    assert side.installed is not None
    assert b"".join(chunks_of(side.installed)) == STATE
    assert side.dropped == []
    assert side.on.committed == 12
    assert side.told == [12]
    assert transfer.installed == [True]


def test_a_member_in_the_middle_of_a_state_is_offered_that_one_again() -> None:
    """The log of the primary has gone on, but the member has its own. *Without it:* it is sent one state
    after the other, each from its beginning, while calls are many."""
    transfer = Transfer()
    lacking(transfer)
    transfer.offering.offer(LEARNER, Position(5), needs_log=False)
    (first,) = transfer.primary.take_sent()
    transfer.learning.on_offer(PRIMARY, first)
    transfer.learning.on_chunk(transfer.answers()[0])
    side = transfer.primary
    side.on.store.floor = Point(Position(11), EPOCH, 11)
    side.kept, side.point = Captured(Position(12), STATE[::-1], CHUNK), Point(Position(12), EPOCH, 78)
    side.log[side.point.position] = side.point
    transfer.offering.offer(LEARNER, Position(5), needs_log=False)
    (again,) = [each for each in side.take_sent() if isinstance(each, Offer)]
    assert again == first
    assert side.held == (None, 9)
    side.on.now += side.on.config.hold_ns + 1
    transfer.offering.offer(LEARNER, Position(5), needs_log=False)
    (newer,) = [each for each in side.take_sent() if isinstance(each, Offer)]
    assert newer.point.position == 12, "it has not asked for any for long"


def test_a_state_that_does_not_help_is_not_taken() -> None:
    """Such a state is from before the difference, or of another log, or the member already has an object."""
    for found_at, holds, lacks in ((10, True, True), (5, False, True), (5, True, False)):
        transfer = Transfer()
        side = lacking(transfer, found_at=found_at, holds=holds)
        side.lacks = side.lacks if lacks else NEAR
        transfer.learning.on_offer(PRIMARY, transfer.offer())
        transfer.run()
        assert side.installed is None
        assert side.dropped == []


def test_a_state_that_came_too_late_is_known_to_be_kept() -> None:
    """E8: its file is the newest checkpoint of this host, and the next object is built from it."""
    transfer = Transfer()
    side = lacking(transfer)
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    side.lacks = NEAR
    transfer.run()
    assert side.installed is None
    assert side.kept_aside == transfer.primary.point.position


def test_a_state_is_known_to_be_kept_if_records_closed_the_gap_meanwhile() -> None:
    """The simulator's detect, seed 75: a cold backup made its object from it and replayed an older record."""
    transfer = Transfer()
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    point = transfer.primary.point
    transfer.learner.log[point.position] = point
    transfer.run()
    assert transfer.learner.installed is None
    assert transfer.learner.kept_aside == point.position


def test_a_log_that_meets_the_primarys_is_not_given_up_for_a_state() -> None:
    """An offer may be late: the member has acknowledged what it was sent since."""
    transfer = Transfer()
    side = lacking(transfer, found_at=10)
    side.on.committed = Position(3)
    transfer.learning.on_offer(PRIMARY, transfer.offer())
    transfer.run()
    assert side.dropped == []
    assert side.installed is None


def test_a_state_is_offered_only_if_it_stands_for_enough() -> None:
    transfer = Transfer()
    transfer.offering.offer(LEARNER, Position(10))
    assert transfer.primary.take_sent() == []
    transfer.offering.offer(LEARNER, Position(9))
    assert [offer.point.position for offer in transfer.primary.take_sent()] == [9]
