"""Who waits for its turn to claim follows the progress of those before it (K1, K4)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from holdfast.authority.recipe import Recipes, Seen
from holdfast.authority.views import View, ViewMember, Why
from holdfast.model.ids import (
    MILLISECOND,
    Epoch,
    GroupId,
    HostId,
    Incarnation,
    Nonce,
    Opening,
    Revision,
    StoreId,
)
from holdfast.model.ports import NoTrace
from holdfast.sequence.claim import TURNS_MAX, ClaimOrder
from holdfast.sequence.claim_batches import ClaimBatches
from holdfast.sequence.config import SequenceConfig
from holdfast.sequence.role import Fitness, Rank
from holdfast.sequence.view_state import ViewState

A, B, C = HostId("a"), HostId("b"), HostId("c")
TURN_NS = SequenceConfig().turn_ns


def member(host: HostId) -> ViewMember:
    return ViewMember(host=host, store=StoreId(host), incarnation=Incarnation(1), opening=Opening(1))


def view(group: int, epoch: int, primary: HostId) -> Seen[View]:
    members = (member(A), member(B), member(C))
    nonce = Nonce(f"n{epoch}")
    made = View(group=GroupId(group), epoch=Epoch(epoch), primary=primary, members=members, nonce=nonce)
    return Seen(f"views/{group}", made, Revision(epoch))


@dataclass
class Host:
    """Host c, which hears host b, and what all its members share."""

    now: int = TURN_NS
    claims: ClaimBatches = field(init=False)
    is_clock_off: bool = False

    def __post_init__(self) -> None:
        nothing = cast(Callable[..., Any], lambda *_: None)
        self.claims = ClaimBatches(Recipes(cast(Any, self)), nothing, nothing, NoTrace())

    @property
    def leases(self) -> "Host":
        return self

    def hears(self, host: HostId) -> bool:
        return host == B


class Member:
    """The member of host c in one group, whose primary on host a is dead."""

    def __init__(self, host: Host, group: int) -> None:
        self.ports = host
        self.config = SequenceConfig()
        self.group = GroupId(group)
        self.me = member(C)
        self.standing = ViewState(self.me, view(group, 1, A))
        self.application = self
        self.order = ClaimOrder(cast(Any, self))

    @property
    def now(self) -> int:
        return self.ports.now

    def fitness(self) -> Fitness:
        return Fitness(Rank.NEAR)

    def is_dead(self, one: ViewMember) -> bool:
        return one.host == A

    def wait_ns(self) -> int:
        return self.order.wait_ns(Why.DEAD)

    def learn(self, epoch: int, primary: HostId) -> None:
        self.standing.learn(view(self.group, epoch, primary))
        self.order.on_new_view()


MINE, YOURS, THEIRS = 2, 1, 3
"""Groups that this host claims first, and two that host b claims first."""


def test_the_first_in_the_order_waits_for_nobody() -> None:
    assert Member(Host(), MINE).wait_ns() == 0


def test_a_turn_begins_anew_with_each_claim_of_the_host_before() -> None:
    """With a thousand groups to claim it is still at it when a fixed time is over, and each would be claimed
    twice."""
    host = Host()
    one, other = Member(host, YOURS), Member(host, THEIRS)
    assert one.wait_ns() == other.wait_ns() == TURN_NS
    host.now += TURN_NS - MILLISECOND
    one.learn(2, B)
    host.now += MILLISECOND
    assert other.wait_ns() == TURN_NS - MILLISECOND
    host.now += TURN_NS - MILLISECOND
    assert other.wait_ns() == 0  # it has done no more since


def test_however_busy_the_host_before_is_the_wait_has_an_end() -> None:
    """It may be unable to claim exactly this group."""
    host = Host()
    waits, began_at = Member(host, THEIRS), host.now
    assert waits.wait_ns() > 0
    for group in range(YOURS, 8 * TURNS_MAX, 2):
        busy = Member(host, group)
        if waits.wait_ns() <= 0:
            break
        assert busy.wait_ns() > 0
        host.now += TURN_NS // 2
        busy.learn(2, B)
    assert host.now == began_at + TURNS_MAX * TURN_NS


@pytest.mark.parametrize("epoch_of", ["another host", "the same host", "a claim of its own"])
def test_only_claims_of_the_dead_hosts_groups_count(epoch_of: str) -> None:
    host = Host()
    one, other = Member(host, YOURS), Member(host, THEIRS)
    one.wait_ns()
    other.wait_ns()
    host.now += TURN_NS // 2
    if epoch_of == "another host":
        unmoved = Member(host, 5)
        unmoved.learn(2, B)  # nobody waited: it was handed over
    elif epoch_of == "the same host":
        one.learn(2, A)
    else:
        one.order.on_claiming()
        one.learn(3, B)
    assert other.wait_ns() == TURN_NS - TURN_NS // 2
