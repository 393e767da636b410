"""To whom a primary hands over when its host should no longer have the group (M6)."""

from types import SimpleNamespace
from typing import Any

from holdfast.authority.views import ViewMember
from holdfast.model.ids import HostId, Incarnation, Opening, StoreId
from holdfast.sequence.primary import DOUBLINGS_MAX, WAIT_NS, PrimaryDeparture
from holdfast.sequence.role import Rank


def member(name: str) -> ViewMember:
    return ViewMember(
        host=HostId(name), store=StoreId(f"disk-{name}"), incarnation=Incarnation(1), opening=Opening(1)
    )


A, B, C = map(member, "abc")
LONG_NS = WAIT_NS << DOUBLINGS_MAX


class Leaving:
    """A, the primary of a group of three, which should no longer be a member."""

    def __init__(self) -> None:
        self.unwanted = [A]
        self.barred: list[ViewMember] = []
        self.silent: list[ViewMember] = []
        self.stopping: list[ViewMember] = []
        self.acknowledged = {B: 7, C: 9}
        self.ranks: dict[ViewMember, Rank] = {}
        self.on: Any = SimpleNamespace(
            me=A,
            now=1,
            standing=SimpleNamespace(
                listed=(A, B, C),
                pending=None,
                joining=None,
                is_wanted=lambda each: each not in self.unwanted,
                may_lead=lambda host: host not in [each.host for each in self.barred],
                is_barred=False,
            ),
        )
        submission: Any = SimpleNamespace(
            is_answering=lambda each: each not in self.silent,
            acknowledged_by=self.acknowledged.get,
            rank_of=lambda each: self.ranks.get(each, Rank.NEAR),
            is_stopping=lambda each: each in self.stopping,
        )
        self.departure = PrimaryDeparture(self.on, submission)

    def choose(self, after_ns: int = LONG_NS) -> HostId | None:
        self.on.now += after_ns
        return self.departure.take_successor()


def test_who_holds_most_comes_first_and_then_they_are_chosen_in_turn() -> None:
    """C answers but does not claim, because its clock is off. The group must not be offered to C forever,
    however much C holds by then."""
    leaving = Leaving()
    assert leaving.choose() == "c"
    leaving.acknowledged[C] += 5
    assert leaving.choose() == "b"
    assert [leaving.choose(), leaving.choose()] == ["c", "b"]


def test_one_that_falls_silent_is_passed_over_and_a_single_one_is_tried_again() -> None:
    leaving = Leaving()
    leaving.silent = [B]
    assert [leaving.choose(), leaving.choose()] == ["c", "c"]
    leaving.silent = [B, C]
    assert leaving.choose() is None
    leaving.silent = []
    assert [leaving.choose(), leaving.choose(), leaving.choose()] == ["b", "c", "b"]


def test_attempts_come_seldomer_each_time() -> None:
    """The group takes no calls during an attempt."""
    leaving = Leaving()
    assert leaving.choose() is not None
    assert leaving.choose(WAIT_NS - 1) is None
    assert leaving.choose(1) is not None
    assert leaving.choose(2 * WAIT_NS - 1) is None
    assert leaving.choose(1) is not None


def test_one_that_may_stay_hands_over_to_nobody_and_begins_afresh_when_it_may_not() -> None:
    leaving = Leaving()
    assert leaving.choose() == "c"
    leaving.unwanted = []
    assert leaving.choose() is None
    leaving.unwanted = [A]
    assert leaving.choose() == "c"


def test_who_has_no_object_is_chosen_last_and_whose_differs_never() -> None:
    """A member without an object comes last (O3), and one whose object differs is never chosen (E8)."""
    leaving = Leaving()
    leaving.ranks = {B: Rank.UNABLE}
    assert leaving.choose() == C.host
    leaving.ranks = {B: Rank.UNABLE, C: Rank.UNFIT}
    assert [leaving.choose(), leaving.choose()] == [B.host, B.host]
    leaving.ranks = {B: Rank.UNFIT, C: Rank.UNFIT}
    assert leaving.choose() is None


def test_a_host_that_is_about_to_end_is_never_chosen() -> None:
    """It would hand the group over again at once, or take it with it (K5)."""
    leaving = Leaving()
    leaving.stopping = [C]
    assert [leaving.choose(), leaving.choose()] == ["b", "b"]
    leaving.stopping = [B, C]
    assert leaving.choose() is None


def test_who_never_leads_is_never_chosen() -> None:
    """W3: if nobody else is there, the group stays where it is."""
    leaving = Leaving()
    leaving.barred = [C]
    assert [leaving.choose(), leaving.choose()] == ["b", "b"]
    leaving.barred = [B, C]
    assert leaving.choose() is None


def test_a_primary_that_never_leads_hands_over_though_it_stays_a_member() -> None:
    """W3: a person named it in a forced recovery, or the record was changed while it led."""
    leaving = Leaving()
    leaving.unwanted, leaving.barred, leaving.on.standing.is_barred = [], [A], True
    assert leaving.choose() == "c"
    assert leaving.departure.why == "it never leads"
