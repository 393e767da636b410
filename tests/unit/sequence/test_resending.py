"""What a primary sends again when it was lost (S5)."""

import dataclasses

from sequence_follower import E1, E2, GROUP, Follower, Surroundings

from holdfast.authority.recipe import Seen
from holdfast.authority.views import View, ViewMember
from holdfast.model.errors import Overloaded
from holdfast.model.ids import GroupId, HostId, Incarnation, Nonce, Opening, Position, Revision, StoreId
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.messages import Hello, Submit
from holdfast.sequence.ports import Durability
from holdfast.sequence.store import GroupStore
from holdfast.sequence.submission import Submission
from holdfast.storage.record import Record

A, B = HostId("a"), HostId("b")


class Passing(Surroundings):
    """Surroundings whose time passes."""

    time_ns = 0

    def now(self) -> int:
        return self.time_ns


class StandingLog(MemoryLog):
    """A log whose records may have to wait for a new file, and cannot be read until they are in it."""

    is_standing = False

    def read(self, group: GroupId, first: Position, last: Position) -> list[Record]:
        if self.is_standing:
            raise Overloaded("records wait for a new file of the log")
        return super().read(group, first, last)


def start_primary(on: MemberState, around: Passing) -> Submission:
    """A is primary; B is listed, and an earlier process of B was heard."""
    on.ports = dataclasses.replace(on.ports, clock=around, network=around)
    on.me = on.standing.me = ViewMember(
        host=A, store=StoreId("a"), incarnation=Incarnation(1), opening=Opening(1)
    )
    behind = ViewMember(host=B, store=StoreId("b"), incarnation=Incarnation(7), opening=Opening(1))
    view = View(group=GROUP, epoch=E2, primary=A, members=(on.me, behind), nonce=Nonce("m"))
    on.standing.seen, on.epoch = Seen("views/1", view, Revision(2)), E2
    submission = Submission(on, lambda: None, lambda: None)
    submission.begin(is_unproven=False)
    return submission


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
