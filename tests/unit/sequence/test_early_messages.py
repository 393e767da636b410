"""What counts of what reaches a member before it knows who won a claim (K1)."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from sequence_follower import GROUP, Follower, submission

from holdfast.authority.recipe import Seen
from holdfast.authority.views import View, ViewChange, ViewMember
from holdfast.model.ids import Epoch, HostId, Incarnation, Nonce, Opening, Position, Revision, StoreId
from holdfast.sequence.early_messages import AT_ONCE_MAX, BYTES_MAX, EarlyMessages
from holdfast.sequence.messages import Accepted, Hello, IfWon, Refused, Submit
from holdfast.sequence.submission import Submission

C, D = HostId("c"), HostId("d")


def member(host: HostId) -> ViewMember:
    return ViewMember(host=host, store=StoreId(host), incarnation=Incarnation(7), opening=Opening(1))


class AtHostB:
    """What host b, which follows epoch 1 and holds three records, keeps and sends."""

    def __init__(self, *, claims_waiting: int = 0, record: bytes = b"") -> None:
        self.follower = follower = Follower(3)
        if record:
            follower.store.append(Epoch(1), record, 1)
        follower.on.is_settled = True
        waiting = SimpleNamespace(waiting=claims_waiting)
        follower.on.ports = cast(Any, replace(follower.on.ports, claims=cast(Any, waiting)))
        self.submission = Submission(follower.on, lambda: None, lambda: None)
        self.early = EarlyMessages(follower.on, self.submission)

    def submit(self, records: int = 1) -> Submit:
        return submission(self.follower.store, after=3 - records, records=records)

    def sees(self, epoch: int, primary: HostId, nonce: str) -> None:
        on = self.follower.on
        members = (member(C), on.me, member(D))
        view = View(group=GROUP, epoch=Epoch(epoch), primary=primary, members=members, nonce=Nonce(nonce))
        on.standing.learn(Seen("views/1", view, Revision(epoch)))

    def claims(self) -> list[Any]:
        """What it sends with a claim of the epoch after the one that it sees."""
        on = self.follower.on
        assert on.standing.seen is not None
        seen = on.standing.seen
        view = View(
            group=GROUP,
            epoch=Epoch(seen.value.epoch + 1),
            primary=on.me.host,
            members=(member(C), on.me),
            nonce=Nonce("mine"),
        )
        on.standing.pending = wanted = ViewChange(seen, view)
        self.follower.around.sent.clear()
        self.early.on_claim(wanted, is_unproven=False)
        return self.follower.around.sent


def ahead(submit: Submit, nonce: str = "claimed") -> IfWon:
    return IfWon(GROUP, Epoch(1), Nonce(nonce), submit)


def test_what_was_sent_ahead_counts_once_when_its_view_stands() -> None:
    b = AtHostB()
    b.early.on_if_won(C, ahead(b.submit()))
    assert b.early.take_ahead() is None
    b.sees(2, C, "claimed")
    assert b.early.take_ahead() == (C, b.submit())
    assert b.early.take_ahead() is None


def test_another_view_ends_it() -> None:
    for epoch, primary, nonce in ((2, C, "another"), (2, D, "claimed"), (3, D, "another")):
        b = AtHostB()
        b.early.on_if_won(C, ahead(b.submit()))
        b.sees(epoch, primary, nonce)
        assert b.early.take_ahead() is None
        b.sees(4, C, "claimed")
        assert b.early.take_ahead() is None


def test_more_than_the_bound_is_not_kept() -> None:
    b = AtHostB()
    submit = b.submit()
    large = Submit(
        *(GROUP, submit.epoch, submit.incarnation, submit.previous, (b"x" * (BYTES_MAX + 1),)),
        *(submit.committed, submit.tail, False),
    )
    b.early.on_if_won(C, ahead(large))
    b.sees(2, C, "claimed")
    assert b.early.take_ahead() is None


def test_a_claimant_sends_all_that_it_does_not_know_to_be_committed() -> None:
    b = AtHostB()
    b.follower.on.committed = Position(1)
    b.sees(1, D, "n")
    (sent,) = b.claims()
    assert (sent.nonce, sent.submit.epoch, sent.submit.incarnation) == ("mine", 2, 7)
    assert sent.submit.previous.position == 1
    assert len(sent.submit.records) == 2
    assert sent.submit.tail == b.follower.store.tail


def test_too_much_of_it_or_too_many_groups_go_after_the_claim() -> None:
    for b in (AtHostB(record=b"x" * (BYTES_MAX + 1)), AtHostB(claims_waiting=AT_ONCE_MAX + 1)):
        b.sees(1, D, "n")
        assert b.claims() == []
    few = AtHostB(claims_waiting=AT_ONCE_MAX, record=b"x")
    few.sees(1, D, "n")
    assert len(few.claims()) == 1


def test_a_process_that_no_primary_has_seen_sends_nothing_ahead() -> None:
    b = AtHostB()
    b.follower.on.is_settled = False
    b.sees(1, D, "n")
    assert b.claims() == []


def test_answers_in_the_claimed_epoch_are_kept_the_last_of_each_kind() -> None:
    b = AtHostB()
    b.sees(1, D, "n")
    b.claims()
    first, last = (
        Accepted(GROUP, Epoch(2), StoreId("c"), Incarnation(7), Position(up_to), 1) for up_to in (2, 3)
    )
    hello = Hello(GROUP, Epoch(2), StoreId("c"), Incarnation(7), Opening(1), ())
    for message in (first, hello, last):
        b.early.keep(C, message)
    assert b.early.take_answers() == [(C, last), (C, hello)]
    assert b.early.take_answers() == []


def test_other_epochs_kinds_and_hosts_are_not_kept() -> None:
    b = AtHostB()
    b.sees(1, D, "n")
    b.claims()
    accepted = [
        Accepted(GROUP, Epoch(epoch), StoreId("c"), Incarnation(7), Position(3), 1) for epoch in (1, 2, 3)
    ]
    b.early.keep(C, accepted[0])
    b.early.keep(C, accepted[2])
    b.early.keep(D, accepted[1])
    b.early.keep(C, Refused(GROUP, Epoch(2)))
    assert b.early.take_answers() == []


def test_the_last_submit_of_another_waits_for_the_answer() -> None:
    b = AtHostB()
    b.sees(1, D, "n")
    b.claims()
    b.early.keep(C, b.submit(records=2))
    b.early.keep(C, b.submit(records=1))
    assert b.early.take_submit() == (C, b.submit(records=1))
    assert b.early.take_submit() is None


def test_a_new_claim_forgets_what_came_during_the_last() -> None:
    b = AtHostB()
    b.sees(1, D, "n")
    b.claims()
    b.early.keep(C, b.submit())
    b.early.keep(C, Accepted(GROUP, Epoch(2), StoreId("c"), Incarnation(7), Position(3), 1))
    b.claims()
    assert b.early.take_submit() is None
    assert b.early.take_answers() == []
