"""The death of a host is told to all members, a few at a time, those that nobody serves first."""

from dataclasses import dataclass
from typing import Any

from holdfast.groups.other_hosts import AT_ONCE, SlicedBroadcast
from holdfast.model.ids import GroupId, HostId

A, B = HostId("a"), HostId("b")
MANY = 3 * AT_ONCE


@dataclass(eq=False)
class Viewed:
    primary: HostId


@dataclass(eq=False)
class Member:
    """As much of a housed member as is looked at."""

    group: GroupId
    view: Viewed | None


def housed_of(primaries: dict[int, HostId | None]) -> dict[GroupId, Any]:
    return {
        GroupId(group): Member(GroupId(group), None if primary is None else Viewed(primary))
        for group, primary in primaries.items()
    }


class Telling:
    def __init__(self, housed: dict[GroupId, Any]) -> None:
        self.told: list[int] = []
        self.later: list[Any] = []
        SlicedBroadcast(housed, self.later.append).tell(A, lambda each: self.told.append(each.group))

    def go_on(self) -> None:
        self.later.pop()()


def test_those_whose_primary_is_gone_are_told_first() -> None:
    telling = Telling(housed_of({1: B, 2: A, 3: None, 4: A}))
    assert telling.told == [2, 4, 1, 3]
    assert not telling.later


def test_a_few_are_told_at_a_time_and_in_the_end_all() -> None:
    """Between them the host does other work."""
    telling = Telling(housed_of(dict.fromkeys(range(MANY), A)))
    assert len(telling.told) == AT_ONCE
    while telling.later:
        before = len(telling.told)
        telling.go_on()
        assert len(telling.told) - before <= AT_ONCE
    assert telling.told == list(range(MANY))


def test_who_has_left_meanwhile_is_told_nothing() -> None:
    """Nor is another member of the same group, which has come in its place and knows it otherwise."""
    housed = housed_of(dict.fromkeys(range(MANY), A))
    telling = Telling(housed)
    last = GroupId(MANY - 1)
    del housed[GroupId(AT_ONCE)]
    housed[last] = Member(last, None)
    while telling.later:
        telling.go_on()
    assert set(range(MANY)) - set(telling.told) == {AT_ONCE, last}
