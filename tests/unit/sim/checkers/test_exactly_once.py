"""Exactly once: each way to break it is found under its own rule, and correct histories pass."""

from collections.abc import Sequence
from itertools import count

import pytest

from holdfast.sim.checkers.exactly_once import check
from holdfast.sim.checkers.history import Append, History, Operation


@pytest.fixture
def history() -> History:
    """Return a history: a and b acknowledged one after the other, c without an answer, d refused."""
    history = History(now=count().__next__)
    for token in "ab":
        history.ok(history.begin("client", "list", Append(token)), token.upper())
    history.unknown(history.begin("client", "list", Append("c")))
    history.failed(history.begin("client", "list", Append("d")))
    return history


def rules(operations: Sequence[Operation], *lists: str) -> list[str]:
    found = check(operations, {f"r{number}": list(tokens) for number, tokens in enumerate(lists)})
    return [violation.rule.removeprefix("exactly-once.") for violation in found]


@pytest.mark.parametrize("content", ["ab", "abc"])
def test_what_is_right_passes(history: History, content: str) -> None:
    """Acknowledged tokens are there; one without an answer may be."""
    assert rules(history.operations(), content, content) == []


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("a", "lost"),
        ("abb", "repeated"),
        ("abcc", "repeated"),
        ("abz", "invented"),
        ("abd", "refused"),
        ("ba", "real-time"),
        ("acb", "real-time"),
    ],
)
def test_each_break_has_its_rule(history: History, content: str, rule: str) -> None:
    assert rules(history.operations(), content) == [rule]


def test_replicas_have_one_order() -> None:
    """Concurrent tokens may come in either order, but in the same one everywhere."""
    history = History(now=count().__next__)
    handles = [history.begin(token, "list", Append(token)) for token in "ab"]
    for handle in handles:
        history.ok(handle)
    assert rules(history.operations(), "ab", "ab") == []
    assert rules(history.operations(), "ba", "ba") == []
    assert rules(history.operations(), "ab", "ba") == ["order"]


def test_order_is_compared_with_all_that_stands_before() -> None:
    """c was requested after b was acknowledged; a, between them in the list, does not hide the wrong
    order."""
    history = History(now=count().__next__)
    first = history.begin("one", "list", Append("a"))
    history.ok(history.begin("two", "list", Append("b")))
    history.ok(history.begin("two", "list", Append("c")))
    history.ok(first)
    assert rules(history.operations(), "abc") == rules(history.operations(), "bca") == []
    (violation,) = check(history.operations(), {"r": ["c", "a", "b"]})
    assert violation.rule == "exactly-once.real-time"
    assert "'c' before 'b'" in violation.message


def test_a_retry_gets_the_first_reply(history: History) -> None:
    """A repeated request has the same token: its reply must be the first one's (X1)."""
    history.ok(history.begin("client", "list", Append("a")), "A")
    assert rules(history.operations(), "ab") == []
    history.ok(history.begin("client", "list", Append("a")), "other")
    assert rules(history.operations(), "ab") == ["reply"]


def test_a_refused_retry_does_not_take_back_the_first_attempt(history: History) -> None:
    """The second attempt was refused, the first has no answer: the token may be there."""
    history.failed(history.begin("client", "list", Append("c")))
    assert rules(history.operations(), "abc") == []


def test_a_retry_acknowledges_the_token(history: History) -> None:
    """Once a repetition is acknowledged the token must be there, and may be where the first attempt put
    it."""
    history.ok(history.begin("client", "list", Append("e")))
    history.ok(history.begin("client", "list", Append("c")))
    assert rules(history.operations(), "abce") == []
    assert rules(history.operations(), "abe") == ["lost"]
