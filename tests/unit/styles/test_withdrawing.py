"""Calls that are removed from the queue before they start, in every style (E10, X3)."""

from typing import Any

import pytest
from fake_group import FakeGroup
from group_classes import LATER_S, A, Spy, call, definition, sent
from style_groups import ALL, lines, told

from holdfast.model.calls import Request
from holdfast.model.outcome import Outcome, Refused, Returned, decode_outcome, encode_outcome
from holdfast.styles.config import StyleConfig
from holdfast.styles.outgoing import held_up

REFUSED = Refused("call_cycle", "a -> b -> a")


def with_two_in_line(style: str) -> FakeGroup:
    """Number 1 waits for another group; 2 and 3 are queued behind it."""
    Spy.runs.clear()
    made = FakeGroup(style, definition(Spy), StyleConfig())
    made.clock.step_ns = 1000
    numbers = [call(1, "ask", "asked"), call(2, "write", "second"), call(3, "write", "third")]
    made.replicas["a"].on_calls("t", sent(*numbers))
    made.settle()
    made.outgoing.clear()
    return made


def withdraw(made: FakeGroup, number: int) -> None:
    made.replicas[made.primary].withdraw(Request(A, number), LATER_S, encode_outcome(REFUSED))
    made.settle()


def resume(made: FakeGroup) -> None:
    """Deliver the answer that number 1 waits for."""
    primary = made.replicas[made.primary]
    made.settle()
    primary.on_nested_outcome(Request(A, 1), 1, encode_outcome(Returned("x")))
    made.outgoing.clear()
    made.settle()


def outcomes(made: FakeGroup) -> dict[int, Outcome]:
    return {
        number: outcome
        for _, numbers, found in told(made)
        for number, outcome in zip(numbers, found, strict=True)
    }


def held(made: FakeGroup, number: int, *, has_room: bool = True) -> Any:
    execution = made.replicas[made.primary].execution
    assert execution is not None
    committed = made.replicas[made.primary].sequence.committed
    return held_up(execution, committed, Request(A, number), has_room=has_room)


@pytest.mark.parametrize("style", ALL)
def test_a_call_that_finds_no_room_waits_for_all_that_must_end_before_there_is_some(style: str) -> None:
    """E10: otherwise nobody detects the cycle."""
    made = with_two_in_line(style)
    assert held(made, 9) is None
    found = held(made, 9, has_room=False)
    assert found.is_unbegun
    assert found.by == held(made, 2).by
    resume(made)
    assert held(made, 9, has_room=False) is None
    assert held(made, 1, has_room=False) is None  # it has ended


@pytest.mark.parametrize("style", ALL)
def test_it_ends_at_once_and_those_behind_it_run_when_the_line_moves_on(style: str) -> None:
    made = with_two_in_line(style)
    withdraw(made, 2)
    assert outcomes(made) == {2: REFUSED}
    resume(made)
    assert set(outcomes(made)) == {1, 3}
    assert lines(made, "a") == ["asked", "third"]
    assert "second" not in Spy.runs


@pytest.mark.parametrize("style", ALL)
@pytest.mark.parametrize("is_crash", [True, False])
def test_it_never_runs_on_any_other_member_either(style: str, is_crash: bool) -> None:
    """The record is in the sequence: a new primary replays it, and a copy of the call gets the same
    outcome."""
    made = with_two_in_line(style)
    withdraw(made, 2)
    made.fail_over("b", is_crash=is_crash)
    made.settle()
    told(made)
    made.replicas["b"].on_calls("again", sent(call(2, "write", "second")))
    made.settle()
    assert outcomes(made) == {2: REFUSED}
    resume(made)
    assert lines(made, "b") == ["asked", "third"]
    assert "second" not in Spy.runs
    assert made.faults == []


@pytest.mark.parametrize("style", ALL)
def test_what_has_begun_goes_on(style: str) -> None:
    """News of a cycle may come late: the call may have started meanwhile, or ended."""
    made = with_two_in_line(style)
    withdraw(made, 1)
    resume(made)
    withdraw(made, 2)
    assert {number: type(each) for number, each in outcomes(made).items()} == dict.fromkeys(
        (1, 2, 3), Returned
    )
    assert lines(made, "a") == ["asked", "second", "third"]


@pytest.mark.parametrize("style", ALL)
def test_what_a_call_waits_for_is_known_while_it_does(style: str) -> None:
    made = with_two_in_line(style)
    assert held(made, 1).is_unbegun is False
    assert held(made, 2).is_unbegun is True
    assert [each.caller for each in held(made, 2).by] == [Request(A, 1)]
    assert held(made, 4) is None
    withdraw(made, 2)
    assert held(made, 2) is None
    resume(made)
    assert held(made, 3) is None
    assert held(made, 1) is None


@pytest.mark.parametrize("style", ALL)
def test_an_end_that_comes_after_the_call_has_begun_changes_nothing(style: str) -> None:
    """An active primary orders the end of a queued call; before that is committed, the queue advances."""
    made = with_two_in_line(style)
    primary = made.replicas["a"]
    primary.on_nested_outcome(Request(A, 1), 1, encode_outcome(Returned("x")))
    if style == "active":
        primary.withdraw(Request(A, 2), LATER_S, encode_outcome(REFUSED))  # where it is still queued
    made.settle()
    assert lines(made, "a") == ["asked", "second", "third"]
    assert made.faults == []
    assert decode_outcome(encode_outcome(REFUSED)) not in outcomes(made).values()
