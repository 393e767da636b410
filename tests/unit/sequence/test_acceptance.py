"""The rules for a follower: what it stores, drops, acknowledges and refuses (S2, M3, V3, V5)."""

import pytest
from sequence_follower import E1, E2, GROUP, C, Follower, submission

from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import (
    Epoch,
    Incarnation,
    Position,
    StoreId,
)
from holdfast.sequence.messages import Accepted, Hello, Knows, Submit
from holdfast.storage.record import ORIGIN


def test_beyond_the_claimed_tail_is_dropped_and_nothing_else() -> None:
    """B holds 1..7, C claims with 1..6 and sends 1..3 first: B must keep 4..6, since 5 may be committed
    (M3)."""
    b, c = Follower(7), Follower(6)
    answers = b.submit(submission(c.store, 0, 3))
    assert b.store.tail == c.store.tail
    assert [answer.up_to for answer in answers] == [3]


def test_an_acknowledgement_covers_what_was_compared_and_no_more() -> None:
    """Records in the log beyond what was compared may belong to another history (M3)."""
    b, c = Follower(6), Follower(3)
    for body in (b"x", b"y", b"z"):
        c.store.append(E1, body, 1)
    (answer,) = b.submit(submission(c.store, 0, 3))
    assert (answer.up_to, b.store.tail.position) == (3, 6)
    (answer,) = b.submit(submission(c.store, 3, 3))
    assert (answer.up_to, b.store.tail) == (6, c.store.tail)


@pytest.mark.covers("FTC-289")
def test_nothing_is_acknowledged_before_it_is_synced() -> None:
    b, c = Follower(2), Follower(4)
    b.acceptance.on_submit(C, submission(c.store, 2, 2))
    assert b.around.sent == []
    b.log.flush()
    assert b.around.sent == [
        Accepted(GROUP, E2, StoreId("b"), Incarnation(1), Position(4), 17, log_bytes=b.store.live_bytes()),
    ]


def test_the_epoch_is_followed_in_the_log() -> None:
    """The epoch becomes durable with the first acknowledgement in it (V3)."""
    b, c = Follower(3), Follower(3)
    b.submit(submission(c.store, 3, 0))
    assert b.store.followed() == E2


def test_a_gap_is_answered_with_what_is_held() -> None:
    b, c = Follower(2), Follower(9)
    (answer,) = b.submit(submission(c.store, 7, 2))
    assert isinstance(answer, Hello)
    assert [point.position for point in answer.points] == [2, 1, 0]


def test_another_history_at_the_same_position_is_a_gap() -> None:
    """The chain of checksums decides, not the position (S2)."""
    b, c = Follower(2), Follower(1)
    c.store.append(E1, b"other", 1)
    (answer,) = b.submit(submission(c.store, 2, 0))
    assert isinstance(answer, Hello)


def test_what_is_meant_for_an_earlier_process_is_not_accepted() -> None:
    """The primary must first hear what this process holds (V5)."""
    b, c = Follower(2), Follower(4)
    late = submission(c.store, 2, 2)
    other = Submit(GROUP, E2, Incarnation(9), late.previous, late.records, Position(0), late.tail, False)
    (answer,) = b.submit(other)
    assert isinstance(answer, Hello)
    assert b.store.tail.position == 2


def test_a_claimant_that_lacks_what_is_committed_is_not_followed() -> None:
    b, c = Follower(7), Follower(4)
    b.on.committed = Position(5)
    (answer,) = b.submit(submission(c.store, 4, 0))
    assert isinstance(answer, Knows)
    assert b.store.tail.position == 7


def test_an_unproven_claimant_is_not_followed_by_one_that_holds_more() -> None:
    """The disk of an unproven claimant may have reverted to an older state (V5). A claimant that was there
    all the time simply never got the rest."""
    b, c = Follower(7), Follower(4)
    (answer,) = b.submit(submission(c.store, 4, 0, is_unproven=True))
    assert isinstance(answer, Knows)
    (answer,) = b.submit(submission(c.store, 4, 0, epoch=Epoch(3)))
    assert isinstance(answer, Accepted)
    assert b.store.tail.position == 4


def test_what_is_committed_is_never_dropped() -> None:
    """The member stops rather than drop committed records."""
    b, c = Follower(3), Follower(1)
    c.store.append(E1, b"other", 1)
    b.on.committed = Position(2)
    with pytest.raises(BrokenInvariant):
        b.submit(submission(c.store, 0, 2))


def test_a_commit_is_believed_as_far_as_the_logs_are_equal() -> None:
    b, c = Follower(0), Follower(6)
    b.submit(submission(c.store, 0, 3, committed=5))
    assert b.on.committed == 3
    b.submit(submission(c.store, 3, 3, committed=5))
    assert b.around.committed == [3, 5]


def test_a_member_whose_claim_is_unanswered_acknowledges_nothing() -> None:
    """The primary that it wants to replace might rest reads on the acknowledgement (R1)."""
    b, c = Follower(2), Follower(4)
    b.acceptance.on_submit(C, submission(c.store, 2, 2))
    b.acceptance.is_stopped = True
    b.log.flush()
    assert b.around.sent == []


def test_a_new_follower_begins_at_the_origin() -> None:
    b, c = Follower(0), Follower(2)
    (answer,) = b.submit(submission(c.store, 0, 2))
    assert answer.up_to == 2
    assert b.store.points()[-1] == ORIGIN


def test_a_follower_is_settled_when_it_holds_durably_all_that_may_be_committed() -> None:
    """D2, V5: the primary has claimed with ten records, and does not know yet that they are committed. A
    follower that holds five of them and counts as settled would take the group without the others."""
    follower, claimant = Follower(2), Follower(10)
    follower.on.is_doubtful = True
    follower.submit(submission(claimant.store, 2, 3))
    assert (follower.on.is_settled, follower.on.is_doubtful) == (False, True)
    follower.acceptance.on_submit(C, submission(claimant.store, 5, 5))
    assert not follower.on.is_settled, "nothing is synced yet"
    follower.log.flush()
    assert (follower.on.is_settled, follower.on.is_doubtful) == (True, False)
