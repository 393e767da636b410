"""Whose turn it is to claim when several members have the same ground to."""

from holdfast.authority.views import ViewMember
from holdfast.model.ids import GroupId, HostId, Incarnation, Opening, StoreId
from holdfast.sequence.claim import turn_of


def member(name: str) -> ViewMember:
    return ViewMember(
        host=HostId(name), store=StoreId(f"disk-{name}"), incarnation=Incarnation(1), opening=Opening(1)
    )


B, C, D = map(member, "bcd")


def turns(group: int, *candidates: ViewMember) -> list[int]:
    return [turn_of(each, candidates, GroupId(group)) for each in candidates]


def test_every_candidate_has_a_turn_of_its_own() -> None:
    """Or two would claim together, and whoever comes second holds up the first."""
    assert turns(1, B, C, D) == [0, 1, 2]
    assert turns(1, C) == [0]


def test_each_group_begins_with_another_candidate() -> None:
    """So the groups of a host that died are shared out among those that are left."""
    firsts = [turns(group, B, C).index(0) for group in range(1, 7)]
    assert firsts == [0, 1, 0, 1, 0, 1]
