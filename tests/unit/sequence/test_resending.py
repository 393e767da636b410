"""What a primary sends again when it was lost (S5)."""

from sequence_follower import E1, E2, GROUP, B, Follower, Passing, start_primary

from holdfast.model.errors import Overloaded
from holdfast.model.ids import GroupId, Incarnation, Opening, Position, StoreId
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.messages import Hello, Submit
from holdfast.sequence.ports import Durability
from holdfast.sequence.store import GroupStore
from holdfast.storage.record import Record


class StandingLog(MemoryLog):
    """A log whose records may have to wait for a new file, and cannot be read until they are in it."""

    is_standing = False

    def read(self, group: GroupId, first: Position, last: Position) -> list[Record]:
        if self.is_standing:
            raise Overloaded("records wait for a new file of the log")
        return super().read(group, first, last)


def test_a_window_that_was_lost_before_its_first_acknowledgement_is_sent_again() -> None:
    """A follower that is far behind says what it holds and is sent a full window, all of which is lost.
    *Without it:* the window stays closed, and the follower stays behind for good."""
    primary, around = Follower(20_000), Passing()
    on = primary.on
    submission = start_primary(on, around)
    around.sent.clear()
    held = Follower(5).store.points()
    submission.on_hello(B, Hello(GROUP, E2, StoreId("b"), Incarnation(8), Opening(2), held))
    lost = [each for each in around.sent if isinstance(each, Submit)]
    around.sent.clear()
    around.time_ns += on.config.resend_ns
    submission.sweep()
    assert [each.previous for each in around.sent] == [each.previous for each in lost]
    assert lost[0].previous.position == 5


def test_what_cannot_be_read_now_is_sent_by_a_sweep_and_nobody_is_blamed_for_it() -> None:
    """Records that wait for a new file of the log cannot be read to be sent. *Without it:* the error escapes
    in the middle of a flush; other followers get nothing, and our own sync is not counted."""
    primary, around, durability = Follower(0), Passing(), Durability()
    on, log = primary.on, StandingLog(durability.on_durable)
    for number in range(10):
        log.append(GROUP, E1, b"%d" % number)
    on.store = GroupStore(GROUP, log, durability)  # with an empty cache
    submission = start_primary(on, around)
    held = Follower(0).store.points()
    log.is_standing = True
    submission.on_hello(B, Hello(GROUP, E2, StoreId("b"), Incarnation(8), Opening(2), held))
    around.sent.clear()
    submission.order(b"more", 1)
    around.time_ns += 3 * on.config.silence_ns
    submission.flush()
    assert around.sent == []
    assert submission.is_owed(), "so the sweep's alarm is set"
    assert not submission.is_owed(since_ns=on.config.silence_ns), "it has not been sent what it owes"
    log.is_standing = False
    around.time_ns += on.config.resend_ns
    submission.sweep()
    assert [(each.previous.position, len(each.records)) for each in around.sent] == [(0, 11)]
