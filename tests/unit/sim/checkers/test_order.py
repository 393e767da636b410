"""Delivered sequences and final states: each promise is checked, and the first violation is named."""

from holdfast.sim.checkers import order as order_module
from holdfast.sim.checkers.order import no_gap, no_repetition, prefix_agreement, strictly_increasing


def test_strictly_increasing() -> None:
    assert strictly_increasing("watch", []) == []
    assert strictly_increasing("watch", [1, 5, 9]) == []
    (violation,) = strictly_increasing("watch", [1, 5, 5, 4])
    assert str(violation) == "order.increasing: watch: 5 at index 2 follows 5"


def test_no_gap() -> None:
    assert no_gap("log", []) == []
    assert no_gap("log", [4, 5, 6]) == []
    assert no_gap("log", [4, 5, 6], first=4) == []
    (violation,) = no_gap("log", [4, 5, 7, 9])
    assert str(violation) == "order.gap: log: 7 at index 2, where 6 was due"
    assert no_gap("log", [2, 3], first=1) != []
    assert no_gap("log", [1, 1]) != []


def test_no_repetition() -> None:
    assert no_repetition("stream", ["b", "a"]) == []
    (violation,) = no_repetition("stream", ["b", "a", "b"])
    assert str(violation) == "order.repetition: stream: 'b' at index 2 was at index 0 before"


def test_prefix_agreement() -> None:
    """Some replicas may have seen more than others, but none something else."""
    assert prefix_agreement({}) == []
    assert prefix_agreement({"a": [], "b": [1, 2], "c": [1], "d": [1, 2]}) == []
    (violation,) = prefix_agreement({"a": [1, 2, 3], "b": [1, 9], "c": [1, 2]})
    assert str(violation) == "order.prefix: at index 1, b has 9 and a has 2"


def test_equal_states_have_converged() -> None:
    state = {"entry": {"mail": ("p", "q"), "members": frozenset({1, 2})}}
    assert order_module.check({}) == []
    assert order_module.check({"a": state, "b": {**state}, "c": {**state}}) == []


def test_the_first_difference_is_named() -> None:
    """It is named with its path, and is the same whatever the order of the keys or the hash seed."""
    one = {"y": 1, "entry": {"mail": ["p", "q"]}}
    (violation,) = order_module.check({"a": one, "b": {"entry": {"mail": ["p", "z"]}, "y": 2}})
    assert str(violation) == "converged: at ['entry']['mail'][1], a has 'q' and b has 'z'"
    (violation,) = order_module.check({"a": one, "b": {"y": 1}})
    assert violation.message == "at ['entry'], a has {'mail': ['p', 'q']} and b has nothing"
    (violation,) = order_module.check({"a": {"y": 1}, "b": {"y": 1, "z": 5}})
    assert violation.message == "at ['z'], a has nothing and b has 5"
    (violation,) = order_module.check({"a": [1, 2], "b": [1]})
    assert violation.message == "at the top, a has 2 items and b has 1 items"
    (violation,) = order_module.check({"a": frozenset({1, 2}), "b": frozenset({1})})
    assert violation.message == "at the top, a has 2 and b has no 2"


def test_values_of_different_kinds_differ() -> None:
    for one, other in [({"x": 1}, ["x"]), (["x"], frozenset({"x"})), ("x", ["x"]), (None, {})]:
        (violation,) = order_module.check({"a": one, "b": other})
        assert violation.message == f"at the top, a has {one!r} and b has {other!r}"


def test_every_replica_is_compared() -> None:
    assert len(order_module.check({"a": 1, "b": 1, "c": 2, "d": 3})) == 2
