"""Which member claims first when several have the same reason to."""

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.authority.views import View, ViewMember, Why
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, StoreId
from holdfast.sequence.claim import ClaimOrder, in_order
from holdfast.sequence.messages import Waived
from holdfast.sequence.role import FAR, NEAR, Fitness, Rank

TURN_NS, CLOCK_WAIT_NS = 100, 900


def member(name: str) -> ViewMember:
    return ViewMember(
        host=HostId(name), store=StoreId(f"disk-{name}"), incarnation=Incarnation(1), opening=Opening(1)
    )


A, B, C = map(member, "abc")


class Backup:
    """One of three members of a group whose primary, a, is dead."""

    def __init__(
        self,
        me: ViewMember,
        *,
        group: int = 1,
        is_near: bool = True,
        is_clock_off: bool = False,
        fitness: Fitness | None = None,
        barred: tuple[ViewMember, ...] = (),
        primary: ViewMember = A,
    ) -> None:
        self.sent: list[tuple[HostId, object]] = []
        self.silent: list[HostId] = []
        view = View(
            group=GroupId(group), epoch=Epoch(3), primary=primary.host, members=(A, B, C), nonce=Nonce("n")
        )
        self.on: Any = SimpleNamespace(
            me=me,
            group=GroupId(group),
            epoch=view.epoch,
            now=1_000,
            config=SimpleNamespace(turn_ns=TURN_NS, clock_wait_ns=CLOCK_WAIT_NS),
            application=SimpleNamespace(fitness=lambda: fitness or (NEAR if is_near else FAR)),
            standing=SimpleNamespace(
                view=view,
                is_barred=me in barred,
                may_lead=lambda host: host not in [each.host for each in barred],
            ),
            is_dead=lambda each: each == A,
            send=lambda host, message: self.sent.append((host, message)),
            ports=SimpleNamespace(
                leases=SimpleNamespace(hears=lambda host: host not in self.silent, is_clock_off=is_clock_off),
                claims=SimpleNamespace(claimed_at=lambda *_: 0, note_claimed=lambda *_: None),
            ),
        )
        self.claim_order = ClaimOrder(self.on)

    def wait_ns(self, ground: Why = Why.DEAD) -> int:
        return self.claim_order.wait_ns(ground)


def test_each_group_begins_with_another_candidate() -> None:
    """So the groups of a host that died are shared among the remaining hosts."""
    assert [in_order((B, C), GroupId(group))[0] for group in range(1, 5)] == [B, C, B, C]
    assert in_order((C,), GroupId(7)) == (C,)


def test_the_claim_is_left_to_who_comes_first() -> None:
    """Two claimants hold each other up. The wait counts from the moment when there was a reason to claim."""
    assert [Backup(B).wait_ns(), Backup(C).wait_ns()] == [0, TURN_NS]
    assert [Backup(B, group=2).wait_ns(), Backup(C, group=2).wait_ns()] == [TURN_NS, 0]
    second = Backup(C)
    second.wait_ns()
    second.on.now += TURN_NS
    assert second.wait_ns() == 0, "who waited in vain claims"


def test_nobody_waits_for_one_that_is_not_heard() -> None:
    second = Backup(C)
    second.silent.append(B.host)
    assert second.wait_ns() == 0


@pytest.mark.parametrize("ground", [Why.RELEASED, Why.OWN])
def test_who_was_chosen_does_not_wait(ground: Why) -> None:
    assert Backup(C).wait_ns(ground) == 0


def test_who_has_much_to_load_comes_last_and_says_so_once() -> None:
    far, near = Backup(B, is_near=False), Backup(C)
    assert far.wait_ns() == TURN_NS
    far.wait_ns()
    assert far.sent == [(C.host, Waived(GroupId(1), Epoch(3)))]
    near.claim_order.on_waived(B.host)
    assert near.wait_ns() == 0


@pytest.mark.parametrize("ground", [each for each in Why if each is not Why.RELEASED])
def test_who_has_the_wrong_time_leaves_the_claim_to_the_others(ground: Why) -> None:
    """X4: this holds for any reason to claim that others have as well, and they are told not to wait."""
    wrong = Backup(B, is_clock_off=True)
    assert wrong.wait_ns(ground) == CLOCK_WAIT_NS
    assert wrong.sent == [(C.host, Waived(GroupId(1), Epoch(3)))]


def test_who_has_the_wrong_time_takes_what_is_handed_over_to_it() -> None:
    """Nobody else may claim it. If its primary had to take it back each time, no group could leave a host
    while the clocks of the others are off."""
    wrong = Backup(B, is_clock_off=True)
    assert wrong.wait_ns(Why.RELEASED) == 0
    assert not wrong.sent


def test_of_two_with_much_to_load_one_goes_first() -> None:
    first, second = Backup(B, is_near=False), Backup(C, is_near=False)
    for one, other in ((first, C), (second, B)):
        one.wait_ns()
        one.claim_order.on_waived(other.host)
    assert [first.wait_ns(), second.wait_ns()] == [0, TURN_NS]


def test_a_new_view_begins_anew() -> None:
    second = Backup(C)
    second.claim_order.on_waived(B.host)
    assert second.wait_ns() == 0
    second.claim_order.on_new_view()
    second.on.now += 1
    assert second.wait_ns() == TURN_NS


def test_whose_object_differs_never_leads_and_says_so_once() -> None:
    """E8: the others do not wait for this member."""
    unfit = Backup(B, fitness=Fitness(Rank.UNFIT, "it differs"))
    assert unfit.claim_order.must_not_lead()
    assert [(host, type(message)) for host, message in unfit.sent] == [(C.host, Waived)]
    assert unfit.claim_order.must_not_lead()
    assert len(unfit.sent) == 1
    second = Backup(C)
    second.claim_order.on_waived(B.host)
    assert second.wait_ns() == 0
    assert not Backup(B, fitness=Fitness(Rank.UNABLE, "no object")).claim_order.must_not_lead()


def test_who_has_no_object_comes_last() -> None:
    """O3: the member claims all the same if nobody else does."""
    unable = Backup(B, fitness=Fitness(Rank.UNABLE, "no object"))
    assert unable.wait_ns() == TURN_NS
    assert [type(message) for _, message in unable.sent] == [Waived]


def test_who_never_leads_claims_for_no_reason_and_nobody_waits_for_it() -> None:
    """W3: the others know it from the record, and are told as well."""
    barred = Backup(B, barred=(B,))
    assert barred.claim_order.must_not_lead()
    assert barred.claim_order.must_not_lead()
    assert Backup(C, barred=(B,)).wait_ns() == 0
    assert not Backup(C, barred=(B,)).claim_order.must_not_lead()


def test_who_never_leads_claims_where_the_view_names_it_as_primary() -> None:
    """W3: a person forced that, or the record was changed while it led. Nobody else would hold the
    sequence."""
    assert not Backup(B, barred=(B,), primary=B).claim_order.must_not_lead()


def test_who_never_leads_claims_where_it_alone_holds_everything() -> None:
    """V5, W3: those that may lead came back with less, and leave the claim to it."""
    needed = Backup(B, barred=(B,))
    needed.claim_order.on_waived(C.host)
    assert needed.claim_order.must_not_lead(), "that one comes last, for another reason"
    needed.claim_order.on_waived(C.host, is_behind=True)
    assert not needed.claim_order.must_not_lead()
    assert needed.claim_order.why_though_barred
    needed.claim_order.on_new_view()
    assert needed.claim_order.must_not_lead()
