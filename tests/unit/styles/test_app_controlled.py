"""Groups whose application keeps its members consistent (CONS_APP_CTRL)."""

import pytest
from fake_group import FakeGroup
from group_classes import call, definition, sent

from holdfast.model.errors import Unavailable
from holdfast.model.ids import Epoch
from holdfast.model.outcome import Returned, decode_outcome
from holdfast.styles.app_controlled import AppControlled
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import StylePorts


class Till:
    """Keeps its sum outside Holdfast."""

    kept = 0
    is_broken = False

    def __init__(self) -> None:
        self.sum = 0

    def add(self, amount: int) -> int:
        self.sum += amount
        type(self).kept = self.sum
        return self.sum

    def recover(self) -> None:
        if self.is_broken:
            raise OSError("the shelf is gone")
        self.sum = type(self).kept


class Ports:
    """Collects what a member reports."""

    def __init__(self) -> None:
        self.faults: list[tuple[str, str]] = []
        self.passed_on: list[str] = []
        clock = FakeGroup("warm", definition(Till), StyleConfig()).clock

        def unused(*_: object) -> None:
            raise AssertionError("a group that keeps itself needs none of this")

        self.style = StylePorts(
            clock=clock,
            trace=unused,  # type: ignore[arg-type]  # it notes nothing
            stamp=unused,  # type: ignore[arg-type]  # it stamps nothing
            time=unused,  # type: ignore[arg-type]  # and asks for no time
            answer=unused,
            forsake=unused,
            wake=unused,
            again=unused,
            call_out=unused,
            checkpoint=unused,
            save_checkpoint=unused,
            pass_on=lambda why, *, log_below=None, is_trial=False: self.passed_on.append(why),
            fault=lambda kind, what: self.faults.append((kind, what)),
        )


@pytest.fixture(autouse=True)
def _empty_shelf() -> None:
    Till.kept, Till.is_broken = 0, False


def added(member: AppControlled, amount: int) -> object:
    _, (outcome,) = member.execute(sent(call(1, "add", amount)))
    found = decode_outcome(outcome)
    assert isinstance(found, Returned)
    return found.value


@pytest.mark.covers("FTC-13", "FTC-137")
def test_the_new_primary_recovers_its_own_state_before_it_takes_calls() -> None:
    """Holdfast transfers nothing: the new primary finds its state itself."""
    old, new = (AppControlled(definition(Till), Ports().style) for _ in range(2))
    old.on_serving(Epoch(1))
    old.turn()
    assert added(old, 5) == 5
    new.on_serving(Epoch(2))
    assert not new.is_ready
    with pytest.raises(Unavailable):
        added(new, 1)
    new.turn()
    assert new.is_ready
    assert added(new, 1) == 6


def test_a_member_that_is_no_primary_takes_no_calls() -> None:
    member = AppControlled(definition(Till), Ports().style)
    member.turn()
    with pytest.raises(Unavailable):
        added(member, 1)
    member.on_serving(Epoch(1))
    member.turn()
    member.on_following()
    with pytest.raises(Unavailable):
        added(member, 1)


def test_one_that_cannot_recover_hands_the_group_on_and_tries_again_when_it_must() -> None:
    ports = Ports()
    member = AppControlled(definition(Till), ports.style)
    Till.is_broken = True
    member.on_serving(Epoch(1))
    member.turn()
    assert not member.is_ready
    assert [kind for kind, _ in ports.faults] == ["object_failed"]
    assert "the shelf is gone" in ports.passed_on[0]
    Till.is_broken = False
    member.turn()
    assert member.is_ready
