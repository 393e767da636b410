"""What is said about a group that is not served: why, and what helps."""

import pytest

from holdfast.admin.explain import ADVICE, group_says, unkept_says, with_lacking
from holdfast.authority.recipe import Seen
from holdfast.authority.views import Cause, View, ViewMember, Why
from holdfast.model.admin.groups import GroupInfo, UnkeptInfo
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, Position, StoreId
from holdfast.sequence.messages import Held
from holdfast.sequence.recovery import Inspection
from holdfast.sequence.role import Rank
from holdfast.storage.record import ORIGIN

A, B, C = map(HostId, "abc")
GROUP, EPOCH = GroupId(7), Epoch(4)


def member(host: HostId) -> ViewMember:
    return ViewMember(host=host, store=StoreId(host), incarnation=Incarnation(1), opening=Opening(1))


def held(host: HostId, rank: Rank = Rank.NEAR, *, serves: bool = False) -> Held:
    return Held(
        GROUP,
        EPOCH,
        1,
        member(host),
        ORIGIN,
        Position(0),
        False,
        "backup",
        serves,
        int(rank),
        "why" if rank >= Rank.UNABLE else "",
        is_ready=serves,
    )


def said(
    *answers: Held,
    in_sync: tuple[HostId, ...] = (A, B, C),
    durability: str = "disk",
    never_lead: tuple[HostId, ...] = (),
) -> str:
    view = View(
        group=GROUP,
        epoch=EPOCH,
        primary=in_sync[0],
        members=tuple(map(member, in_sync)),
        nonce=Nonce("n"),
        cause=Cause(why=Why.CREATED),
    )
    silent = tuple(host for host in in_sync if host not in [each.member.host for each in answers])
    found = Inspection(Seen("view", view, 1), answers, silent)
    info = GroupInfo(
        name="jobs",
        group=GROUP,
        class_name="shop:Jobs",
        style="warm_passive",
        epoch=EPOCH,
        primary=in_sync[0],
        in_sync=in_sync,
        placed_on=in_sync,
        min_in_sync=min(2, len(in_sync)),
        durability=durability,
        never_lead=never_lead,
    )
    return "; ".join(group_says(with_lacking(info, found), found))


def test_nothing_is_said_of_one_that_is_served() -> None:
    assert said(held(A, serves=True), held(B)) == ""


@pytest.mark.parametrize("in_sync", [(A,), (A, B)])
def test_a_group_whose_hosts_have_just_died_waits_for_them_and_is_not_to_be_recovered(
    in_sync: tuple[HostId, ...],
) -> None:
    """No member reports a missing object, so nobody is advised to continue without one."""
    found = said(in_sync=in_sync)
    assert "are back, which hold all that was acknowledged" in found
    assert "recover" not in found
    assert "unless their processes have ended" in said(in_sync=in_sync, durability="memory")


def test_where_those_that_answer_have_no_object_the_silent_one_is_brought_back_first() -> None:
    found = said(held(B, Rank.UNABLE), held(C, Rank.UNFIT))
    assert (
        "a may have it: bring it back, or, if it is gone for good, see what `holdfast group recover" in found
    )


def test_objects_that_nobody_can_make_are_no_matter_of_recovery() -> None:
    """A recovery would build the object from the same records, and fail in the same way."""
    found = said(*(held(host, Rank.UNABLE) for host in (A, B, C)))
    assert "`holdfast group upgrade jobs`" in found
    assert "`holdfast group recover` would not help" in found


def test_members_of_which_none_may_lead_are_for_a_person_to_choose_from() -> None:
    assert "`holdfast group recover jobs`" in said(*(held(host, Rank.UNFIT) for host in (A, B, C)))


def test_one_reason_of_several_members_is_told_once_and_followed_by_what_to_do() -> None:
    failed = [UnkeptInfo(at_ns=10**18 + each, host=host, why="a set") for each, host in enumerate((B, A))]
    other = UnkeptInfo(at_ns=10**18, host=C, why="a float")
    assert list(unkept_says((*failed, other))) == [
        "the last checkpoint of b, a failed (2001-09-09 01:46:40 UTC): a set",
        "the last checkpoint of c failed (2001-09-09 01:46:40 UTC): a float",
        ADVICE,
    ]
    assert list(unkept_says(())) == []


def test_a_group_whose_last_members_never_lead_waits_for_one_that_may() -> None:
    """W3: nobody takes over, and it is said who is waited for and what a person can do."""
    found = said(held(B), held(C), never_lead=(B, C))
    assert "only b, c of its in-sync members answers, and never leads: it goes on when a is back" in found
    assert "go on from b with `holdfast group recover jobs`" in found
    assert "takes over as soon as it may" in said(held(B), held(C), never_lead=(B,))
    forced = said(held(A), held(B), never_lead=(A, B))
    assert "a is primary and takes no calls yet" in forced, "a person named it, and it is about to serve"
