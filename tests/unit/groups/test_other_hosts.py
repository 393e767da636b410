"""Tests that all members learn of a host's death, a few at a time, those without a primary first."""

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
    """The parts of a hosted group that the broadcast uses."""

    group: GroupId
    view: Viewed | None


def hosted_of(primaries: dict[int, HostId | None]) -> dict[GroupId, Any]:
    return {
        GroupId(group): Member(GroupId(group), None if primary is None else Viewed(primary))
        for group, primary in primaries.items()
    }


class Telling:
    def __init__(self, hosted: dict[GroupId, Any]) -> None:
        self.told: list[int] = []
        self.later: list[Any] = []
        SlicedBroadcast(hosted, self.later.append).tell(A, lambda each: self.told.append(each.group))

    def go_on(self) -> None:
        self.later.pop()()


def test_those_whose_primary_is_gone_are_told_first() -> None:
    telling = Telling(hosted_of({1: B, 2: A, 3: None, 4: A}))
    assert telling.told == [2, 4, 1, 3]
    assert not telling.later


def test_a_few_are_told_at_a_time_and_in_the_end_all() -> None:
    """The host does other work in between."""
    telling = Telling(hosted_of(dict.fromkeys(range(MANY), A)))
    assert len(telling.told) == AT_ONCE
    while telling.later:
        before = len(telling.told)
        telling.go_on()
        assert len(telling.told) - before <= AT_ONCE
    assert telling.told == list(range(MANY))


def test_the_first_are_told_before_all_have_been_looked_at() -> None:
    """A host may have thousands of members, and the groups of a dead host are served by nobody meanwhile."""
    looked_at: list[int] = []

    class Seen(Member):
        @property
        def view(self) -> Viewed | None:  # type: ignore[override]  # the field of the others
            looked_at.append(self.group)
            return Viewed(A)

        @view.setter
        def view(self, view: Viewed | None) -> None:
            pass

    telling = Telling({GroupId(group): Seen(GroupId(group), None) for group in range(MANY)})
    assert len(telling.told) == AT_ONCE
    assert set(looked_at) == set(range(AT_ONCE))


def test_who_has_left_meanwhile_is_told_nothing() -> None:
    """Another member of the same group, created in its place, is skipped too; it learns of the death
    otherwise."""
    hosted = hosted_of(dict.fromkeys(range(MANY), A))
    telling = Telling(hosted)
    last = GroupId(MANY - 1)
    del hosted[GroupId(AT_ONCE)]
    hosted[last] = Member(last, None)
    while telling.later:
        telling.go_on()
    assert set(range(MANY)) - set(telling.told) == {AT_ONCE, last}
