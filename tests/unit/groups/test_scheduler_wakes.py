"""Tests the wakes of groups: each group is woken once, at the earliest time asked for, even if a later one is
asked for since."""

from collections.abc import Callable, Hashable

from holdfast.groups.scheduler import Wakes
from holdfast.model.ids import GroupId
from holdfast.model.ports import TimerId

ONE, OTHER = GroupId(1), GroupId(2)


class World:
    """A clock and timers driven by hand, and which groups were woken when."""

    def __init__(self) -> None:
        self.at = 1_000
        self.woken: list[tuple[int, GroupId]] = []
        self._timers: dict[TimerId, tuple[int, Hashable]] = {}
        self._last = 0
        self._is_closed = False
        self.wakes = Wakes(self._make, self, lambda group: self.woken.append((self.at, group)))

    def _make(self, on_timer: Callable[[Hashable], None]) -> "World":
        self._on_timer = on_timer
        return self

    def now(self) -> int:
        return self.at

    def wall(self) -> int:
        return self.at

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self._last += 1
        self._timers[TimerId(self._last)] = (self.at + delay_ns, tag)
        return TimerId(self._last)

    def cancel(self, timer: TimerId) -> None:
        self._timers.pop(timer, None)

    def close(self) -> None:
        self._timers.clear()

    def run_to(self, at: int) -> None:
        for timer, (due, tag) in sorted(self._timers.items(), key=lambda each: each[1][0]):
            if due <= at and self._timers.pop(timer, None):
                self.at = due
                self._on_timer(tag)
        self.at = at


def test_an_earlier_wake_stands_when_a_later_one_is_asked_for() -> None:
    """A group asks during its turn to be woken in a moment. Its next timer, due in an hour, must not delay
    that."""
    world = World()
    world.wakes.by(ONE, 1_010)
    world.wakes.by(ONE, 9_000)
    world.run_to(5_000)
    assert world.woken == [(1_010, ONE)]


def test_an_earlier_wake_takes_the_place_of_a_later_one() -> None:
    world = World()
    world.wakes.by(ONE, 9_000)
    world.wakes.by(ONE, 1_010)
    world.run_to(10_000)
    assert world.woken == [(1_010, ONE)]


def test_a_group_that_had_its_turn_is_not_woken_for_it() -> None:
    """Other groups are woken, and the group may ask again."""
    world = World()
    world.wakes.by(ONE, 1_010)
    world.wakes.by(OTHER, 1_020)
    world.wakes.forget(ONE)
    world.run_to(1_500)
    assert world.woken == [(1_020, OTHER)]
    world.wakes.by(ONE, 900)  # already due, so at once
    world.run_to(1_600)
    assert world.woken[1:] == [(1_500, ONE)]


def test_nobody_is_woken_after_the_end() -> None:
    world = World()
    world.wakes.by(ONE, 1_010)
    world.wakes.close()
    world.run_to(2_000)
    assert world.woken == []
