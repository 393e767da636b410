"""Calls that crash processes while queued behind a call that waits for another group (E4)."""

from typing import Any

import pytest
from fake_group import FakeGroup
from group_classes import A, B, Counter, Spy, call, definition, sent

from holdfast.execution.crash_attempts import NO_GROUP, Attempt
from holdfast.execution.records import encode_arguments
from holdfast.model.calls import Request
from holdfast.model.outcome import Returned, decode_outcome, encode_outcome
from holdfast.styles.config import StyleConfig

ALL = ("cold", "warm", "active")


def with_one_in_line(style: str) -> FakeGroup:
    """Number 1 waits, and number 2, queued behind it, has crashed two processes; b has just taken over."""
    Spy.runs.clear()
    made = FakeGroup(style, definition(Spy), StyleConfig())
    made.clock.step_ns = 1000
    made.replicas["a"].on_calls("t", sent(call(1, "ask", "asked"), call(2, "write", "deadly")))
    made.settle()
    made.outgoing.clear()
    for name in "bc":
        made.attempts[name].ended(Attempt(NO_GROUP, A, 2, 2, 2))
    made.fail_over("b", is_crash=True)
    return made


def resume(made: FakeGroup) -> None:
    """Deliver the answer that number 1 waits for."""
    made.replicas["b"].on_nested_outcome(Request(A, 1), 1, encode_outcome(Returned("x")))
    made.outgoing.clear()
    made.settle()


def lines(made: FakeGroup, name: str) -> Any:
    outcome = decode_outcome(
        made.replicas[name].on_stale_query(Request(B, 1), "read", encode_arguments((), {}))
    )
    assert isinstance(outcome, Returned)
    return outcome.value


@pytest.mark.parametrize("style", ALL)
def test_it_does_not_run_when_the_line_moves_on(style: str) -> None:
    made = with_one_in_line(style)
    made.settle()
    resume(made)
    assert lines(made, "b") == ["asked"]
    assert "deadly" not in Spy.runs


@pytest.mark.parametrize("style", ["cold", "warm"])
def test_it_does_not_run_though_its_client_has_given_it_up(style: str) -> None:
    """The client's floor has passed the number: the table has forgotten the call, but the queue has not."""
    made = with_one_in_line(style)
    made.replicas["b"].on_calls("t", sent(call(4, "write", "later"), floor=4))
    made.settle()
    resume(made)
    assert lines(made, "b") == ["asked", "later"]
    assert "deadly" not in Spy.runs


@pytest.mark.parametrize("style", ["cold", "warm"])
def test_it_is_given_up_once(style: str) -> None:
    """It is given up once, however long it is queued."""
    made = with_one_in_line(style)
    for _ in range(5):
        made.outgoing.clear()
        made.settle()
    assert [kind for _, kind, _ in made.faults] == ["poisoned"]


@pytest.mark.parametrize("style", ALL)
def test_neither_runs_when_the_one_that_waits_is_given_up_as_well(style: str) -> None:
    """The end of the first lets the queue advance, so the second must be known as poisoned before."""
    made = with_one_in_line(style)
    for name in "bc":
        made.attempts[name].ended(Attempt(NO_GROUP, A, 1, 1, 2))
    made.settle()
    resume(made)
    made.settle()
    assert lines(made, "b") == []
    assert Spy.runs == []
    assert [kind for _, kind, _ in made.faults] == ["poisoned"] * 2


def test_a_call_given_up_after_it_waited_leaves_all_members_with_one_state() -> None:
    """One member had executed the calls before the last answer; another finds all of it in its log."""
    made = FakeGroup("active", definition(Counter), StyleConfig())
    made.clock.step_ns = 1000
    made.replicas["a"].on_calls("t", sent(call(1, "fetch", "other", "x", "y", "z")))
    made.settle()
    made.crash("c")
    for number in (1, 2):
        if number == 2:  # a dies with this answer; b learns of it before it gets that far
            for name in "bc":
                made.attempts[name].ended(Attempt(NO_GROUP, A, 1, 1, 2))
        made.outgoing.clear()
        made.replicas["a"].on_nested_outcome(Request(A, 1), number, encode_outcome(Returned(number)))
        made.replicas["a"].turn()
        made.replicate("b")
        if number == 1:
            made.commit()
            made.tell_commit("b", made.members["a"].committed)
            made.replicas["a"].turn()
    made.fail_over("b", is_crash=True)
    made.outgoing.clear()
    made.settle()
    made.restart("c")
    made.replicas["b"].on_calls("t", sent(call(2, "add", 10)))
    made.settle()
    for name in "bc":
        execution = made.replicas[name].execution
        assert execution is not None
        assert execution.is_idle
        assert execution.line.poisoned == {}
        assert execution.line.instance.total == 3 + 10  # type: ignore[attr-defined]  # a Counter
    assert [kind for _, kind, _ in made.faults] == ["poisoned"]
