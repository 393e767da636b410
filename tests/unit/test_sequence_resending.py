"""What a primary sends again when it was lost (S5)."""

import dataclasses

from sequence_follower import E2, GROUP, Follower, Surroundings

from holdfast.authority.outcome import Seen
from holdfast.authority.views import View, ViewMember
from holdfast.model.ids import HostId, Incarnation, Nonce, Opening, Revision, StoreId
from holdfast.sequence.messages import Hello, Submit
from holdfast.sequence.submission import Submission

A, B = HostId("a"), HostId("b")


class Passing(Surroundings):
    """Time passes there."""

    time_ns = 0

    def now(self) -> int:
        return self.time_ns


def test_a_window_that_was_lost_before_its_first_acknowledgement_is_sent_again() -> None:
    """A follower far behind says what it holds and is sent as much as its window takes; of none of it is
    anything heard. *Without it:* the window stays closed, and the follower behind, for good."""
    primary, around = Follower(20_000), Passing()
    on = primary.on
    on.ports = dataclasses.replace(on.ports, clock=around, network=around)
    on.me = on.standing.me = ViewMember(
        host=A, store=StoreId("a"), incarnation=Incarnation(1), opening=Opening(1)
    )
    behind = ViewMember(host=B, store=StoreId("b"), incarnation=Incarnation(7), opening=Opening(1))
    view = View(group=GROUP, epoch=E2, primary=A, members=(on.me, behind), nonce=Nonce("m"))
    on.standing.seen, on.epoch = Seen("views/1", view, Revision(2)), E2
    submission = Submission(on, lambda: None, lambda: None)
    submission.begin(is_unproven=False)
    around.sent.clear()
    held = Follower(5).store.points()
    submission.on_hello(B, Hello(GROUP, E2, StoreId("b"), Incarnation(8), Opening(2), held))
    lost = [each for each in around.sent if isinstance(each, Submit)]
    around.sent.clear()
    around.time_ns += on.config.resend_ns
    submission.sweep()
    assert [each.previous for each in around.sent] == [each.previous for each in lost]
    assert lost[0].previous.position == 5
