"""A host that leaves a group, and what it hears of the group meanwhile (PROTOCOL M6)."""

from collections.abc import Callable, Hashable

import pytest

from holdfast.authority.contract import Request
from holdfast.authority.groups import read_group
from holdfast.authority.outcome import Seen
from holdfast.authority.placing import add_member, remove_member
from holdfast.authority.recipe import Recipes
from holdfast.housing.leaving import Leaving
from holdfast.model.ids import GroupId, HostId
from holdfast.model.ports import TimerId
from recipe_bench import Bench, Treatment

A, B, C = map(HostId, "abc")


class House:
    """Host c of a domain: it was told to leave a group which no view of lists it."""

    def __init__(self, bench: Bench, group: GroupId) -> None:
        self.bench = bench
        self.group = group
        self.treat: Treatment = bench.ask
        self.timers: list[Hashable] = []
        self.forgotten: list[Callable[[], None]] = []
        self.taken_in: list[int] = []
        """The stays in which the group was taken in."""
        self._on_timer: Callable[[Hashable], None] = lambda tag: None
        self._recipes = Recipes(self)
        self.leaving = Leaving(
            C,
            self._recipes,
            self._timers,
            bench.nonce,
            forget=lambda record, then: self.forgotten.append(then),
            look_again=lambda group: self.on_record(),
        )

    # --- its ports

    def request(self, request: Request, token: Hashable) -> None:
        self._recipes.on_authority(token, self.treat(request))

    def _timers(self, on_timer: Callable[[Hashable], None]) -> "House":
        self._on_timer = on_timer
        return self

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self.timers.append(tag)
        return TimerId(len(self.timers))

    def cancel(self, timer: TimerId) -> None:
        del self.timers[timer - 1]

    def close(self) -> None:
        self.timers.clear()

    def fire(self) -> None:
        due, self.timers = self.timers, []
        for tag in due:
            self._on_timer(tag)

    # --- what happens

    def on_record(self) -> None:
        """The watch tells the record that stands now, as to :class:`holdfast.housing.notices.Notices`."""
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
    """The answer to "I have left" is lost; the group is placed there anew, and of that the host hears before
    it has asked again. Nothing comes after it that would tell the record once more."""
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
