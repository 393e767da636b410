"""Tests a host that leaves a group, and what it hears of the group in the meantime (M6)."""

from collections.abc import Callable

import pytest

from holdfast.authority.groups import read_group
from holdfast.authority.placement import add_member, remove_member
from holdfast.authority.recipe import Seen
from holdfast.groups.leaving import LeavingGroups
from holdfast.model.ids import GroupId, HostId
from recipe_bench import Bench, BenchHost

A, B, C = map(HostId, "abc")


class House(BenchHost):
    """Host c of a domain. It was told to leave a group, and no view of the group lists it."""

    def __init__(self, bench: Bench, group: GroupId) -> None:
        super().__init__(bench)
        self.group = group
        self.forgotten: list[Callable[[], None]] = []
        self.taken_in: list[int] = []
        """The stays in which the group was hosted."""
        self.leaving = LeavingGroups(
            C,
            self.recipes,
            self.timers,
            bench.nonce,
            forget=lambda record, then: self.forgotten.append(then),
            look_again=lambda group: self.on_record(),
        )

    def on_record(self) -> None:
        """Deliver the current record, as the watch does to
        :class:`holdfast.groups.authority_events.AuthorityEvents`."""
        found = self.bench.run(read_group(self.group))
        assert isinstance(found, Seen)
        self.leaving.on_record(found.value)
        entry = found.value.placement(C)
        if entry is not None and not self.leaving.is_forgetting(self.group):
            self.taken_in.append(entry.number)


@pytest.fixture
def house(bench: Bench) -> House:
    group = bench.group_on((A, B, C), listed=(A,))
    assert isinstance(bench.run(remove_member(group, C, nonce=bench.nonce())), Seen)
    return House(bench, group)


def test_the_entry_goes_when_all_is_forgotten_and_not_before(house: House) -> None:
    house.on_record()
    assert house.leaving.is_forgetting(house.group)
    assert placed(house)
    house.forgotten.pop()()
    assert not placed(house)


def test_a_group_that_is_placed_anew_before_the_host_knows_that_it_left_is_taken_in(house: House) -> None:
    """The answer to "I have left" is lost. The group is placed on the host again, and the host hears of that
    before it has asked again. No later event would deliver the record once more."""
    house.on_record()
    house.treat = house.bench.lose_answer
    house.forgotten.pop()()
    house.treat = house.bench.ask
    assert isinstance(house.bench.run(add_member(house.group, C, nonce=house.bench.nonce())), Seen)
    house.on_record()
    house.taken_in.clear()
    house.fire()
    assert house.taken_in == [1]
    assert placed(house)


def placed(house: House) -> bool:
    found = house.bench.run(read_group(house.group))
    assert isinstance(found, Seen)
    return found.value.placement(C) is not None
