"""A primary whose object cannot be made lets another member try, and reports why."""

from collections.abc import Iterator
from typing import ClassVar

import pytest
from fake_group import FakeGroup
from group_classes import call, definition, sent

from holdfast.model.errors import Unavailable
from holdfast.model.ids import Position
from holdfast.model.outcome import Returned, decode_outcome
from holdfast.sequence.ports import Captured
from holdfast.styles.config import StyleConfig

CONFIG = StyleConfig()
PASSIVE = ["cold", "warm"]


def group(style: str, cls: type) -> FakeGroup:
    made = FakeGroup(style, definition(cls), CONFIG)
    made.clock.step_ns = 1000
    return made


class Unmakeable:
    """Its constructor fails on some members, at some times."""

    fails: ClassVar[bool] = False

    def __init__(self) -> None:
        if self.fails:
            raise OSError("the licence server does not answer")
        self.value = 0

    def add(self) -> int:
        self.value += 1
        return self.value


@pytest.fixture
def _unmakeable() -> Iterator[None]:
    yield
    Unmakeable.fails = False


@pytest.mark.usefixtures("_unmakeable")
@pytest.mark.parametrize("style", PASSIVE)
def test_a_primary_whose_object_cannot_be_made_passes_its_group_on_and_says_why(style: str) -> None:
    """The first time it hands over at once. If it gets the group back, it tries first, and waits before it
    hands over again: if no member can serve, the group is not handed around endlessly."""
    made = group(style, Unmakeable)
    made.replicas["a"].on_calls("t", sent(call(1, "add")))
    made.settle()
    Unmakeable.fails = True
    made.members["b"].checkpoint = None
    made.restart("b")
    made.fail_over("b", is_crash=True)
    made.settle()
    why = "no object could be made: Unmakeable cannot be made: OSError: the licence server does not answer"
    assert made.passed_on == [("b", why)]
    with pytest.raises(Unavailable, match="licence server"):
        made.replicas["b"].on_calls("t", sent(call(2, "add")))
    made.fail_over("c", is_crash=False)
    made.settle()
    made.fail_over("b", is_crash=False)
    made.settle()
    assert [name for name, _ in made.passed_on] == ["b", "c"], "b has passed it on just before"
    due_ns = made.replicas["b"].next_wake_ns()
    assert due_ns is not None
    made.clock.time_ns += due_ns - made.clock.wall()
    made.settle()
    assert [name for name, _ in made.passed_on] == ["b", "c", "b"]
    assert made.replicas["b"].next_wake_ns() > due_ns + CONFIG.object_retry_ns, "it waits longer"


@pytest.mark.usefixtures("_unmakeable")
@pytest.mark.parametrize("style", PASSIVE)
def test_an_object_that_could_not_be_made_is_made_when_it_can_be(style: str) -> None:
    """There may be no other member to serve."""
    made = FakeGroup(style, definition(Unmakeable), CONFIG, names="a")
    made.clock.step_ns = 1000
    made.replicas["a"].on_calls("t", sent(call(1, "add")))
    made.settle()
    Unmakeable.fails = True
    made.start("a")
    made.members["a"].committed = made.members["a"].tail
    made.members["a"].is_serving = True
    made.replicas["a"].on_serving(made.epoch)
    made.settle()
    assert not made.replicas["a"].is_ready
    Unmakeable.fails = False
    made.clock.time_ns += CONFIG.object_retry_ns
    made.settle()
    made.replicas["a"].on_calls("t", sent(call(2, "add")))
    made.settle()
    token, numbers, outcomes = made.answers[-1]
    assert (token, numbers, [decode_outcome(each) for each in outcomes]) == ("t", [2], [Returned(2)])


class Untakeable:
    """Returns a state that it no longer accepts; if it never did, the group could not be created."""

    is_failing = False

    def __init__(self) -> None:
        self.value = 0

    def add(self) -> int:
        self.value += 1
        return self.value

    def get_state(self) -> bytes:
        return b"0"

    def set_state(self, state: bytes) -> None:
        if self.is_failing:
            raise KeyError("set")


class Unspeakable(Untakeable):
    """Neither the object nor its exceptions can be shown: its ``__repr__`` needs something that is gone."""

    def set_state(self, state: bytes) -> None:
        if self.is_failing:
            del self.value
            raise ValueError(self)

    def __repr__(self) -> str:
        return f"Unspeakable({self.value})"


@pytest.mark.parametrize(("cls", "error"), [(Untakeable, "KeyError"), (Unspeakable, "ValueError")])
@pytest.mark.parametrize("style", [*PASSIVE, "active"])
def test_a_member_that_cannot_load_its_state_passes_the_group_on(
    style: str, cls: type, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the error cannot be shown: showing it runs the class's own code, which just
    failed."""
    made = group(style, cls)
    made.members["b"].checkpoint = Captured(Position(0), made.replicas["a"].capture().chunk(0))
    made.start("b")
    monkeypatch.setattr(cls, "is_failing", True)
    made.fail_over("b", is_crash=True)
    made.settle()
    assert [name for name, _ in made.passed_on] == ["b"]
    assert error in made.passed_on[0][1]
