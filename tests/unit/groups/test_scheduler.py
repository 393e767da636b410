"""Tests the turns of all groups on a host: those asked for together run together (S5)."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.groups.scheduler import Scheduler
from holdfast.model.ids import GroupId
from holdfast.model.ports import TimerId


@dataclass(frozen=True)
class FakeHosted:
    group: GroupId
    turn: Callable[[], None]


class World:
    """A host's loop driven by hand, and groups of which one may fail."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.fails: set[int] = set()
        self.hosted: dict[GroupId, Any] = {}
        self.ends: dict[int, int] = {}
        """Which group leaves in whose turn."""
        self._soon: list[Callable[[], None]] = []
        self.turns = Scheduler(
            self.hosted,
            self,
            lambda _: self,
            self._soon.append,
            lambda work: work,
            after=self._nothing,
        )

    def now(self) -> int:
        return 0

    def wall(self) -> int:
        return 0

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        raise AssertionError("nobody asks to be woken")

    def cancel(self, timer: TimerId) -> None:
        raise AssertionError("nobody asks to be woken")

    def close(self) -> None:
        return

    def _nothing(self, hosted: object) -> None:
        return

    def ask(self, number: int) -> None:
        """Give a group a turn that stands for all that a real turn does."""
        hosted: Any = FakeHosted(GroupId(number), lambda: self._take(number))
        self.hosted[hosted.group] = hosted
        self.turns.later(hosted)

    def _take(self, number: int) -> None:
        if number in self.fails:
            raise RuntimeError(f"group {number}")
        self.taken.append(number)
        self.hosted.pop(GroupId(self.ends.get(number, 0)), None)

    def run(self) -> None:
        """Run everything that was asked for."""
        work, self._soon[:] = list(self._soon), []
        for each in work:
            each()


def test_groups_behind_one_whose_turn_fails_have_theirs_all_the_same() -> None:
    """What the groups have ordered leaves in their turns. Without a turn it would wait for the next call."""
    world = World()
    world.fails = {2}
    for number in (1, 2, 3, 4):
        world.ask(number)
    with pytest.raises(RuntimeError, match="group 2"):
        world.run()
    world.run()
    assert world.taken == [1, 3, 4]


def test_who_asks_in_a_turn_that_fails_is_not_forgotten_either() -> None:
    world = World()
    world.fails = {1}
    world.ask(1)
    world.ask(2)
    with pytest.raises(RuntimeError):
        world.run()
    world.ask(5)
    world.run()
    assert world.taken == [2, 5]


def test_a_group_that_left_in_the_turn_of_another_has_none() -> None:
    """M6: its log is gone; what its object would read is not there."""
    world = World()
    world.ends = {1: 2}
    for number in (1, 2, 3):
        world.ask(number)
    world.run()
    assert world.taken == [1, 3]
