"""The fast checks agree with the full search where values are unique, and never reject a correct history."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import pytest
from random_histories import (
    INITIAL,
    Workload,
    append_list,
    counter,
    good,
    has_order,
    register_unique,
    spoilt,
)

from holdfast.sim.checkers.history import (
    NEVER,
    Add,
    Append,
    Operation,
    Outcome,
    Read,
    Request,
    Violation,
    Write,
)
from holdfast.sim.checkers.unique import check_counter, check_list, check_register

CHECKS: dict[Workload, Callable[[Sequence[Operation]], list[Violation]]] = {
    register_unique: check_register,
    append_list: check_list,
    counter: check_counter,
}


def operation(request: Request, result: object, invoked: int, returned: int = NEVER) -> Operation:
    outcome = Outcome.UNKNOWN if returned == NEVER else Outcome.OK
    return Operation("c", "x", request, outcome, result, invoked, returned)


@pytest.mark.parametrize("workload", CHECKS, ids=lambda workload: workload.__name__)
def test_agrees_with_brute_force(workload: Workload) -> None:
    """No correct history is rejected; of the bad ones, register and list miss none and the counter few."""
    rng = random.Random(f"unique {workload.__name__}")
    bad = missed = 0
    for _ in range(4000):
        operations = good(rng, workload, length=rng.randint(3, 8), clients=rng.randint(2, 5))
        for _ in range(rng.randrange(3)):
            operations = spoilt(rng, operations)
        found = CHECKS[workload](operations)
        if has_order(operations, INITIAL[workload]):
            assert found == [], "\n".join(map(str, [*operations, *found]))
        else:
            bad += 1
            missed += not found
    assert bad > 300
    assert missed <= (bad // 20 if workload is counter else 0)


@pytest.mark.parametrize("workload", CHECKS, ids=lambda workload: workload.__name__)
def test_many_clients(workload: Workload) -> None:
    """Long correct histories of a hundred clients pass, where no search would end."""
    operations = good(random.Random(3), workload, length=1500, clients=100, unknown=0.05)
    assert CHECKS[workload](operations) == []


def test_a_stale_read_is_named() -> None:
    """A value read after another had certainly overwritten it is reported with both."""
    operations = [
        operation(Write(1), None, 0, 10),
        operation(Write(2), None, 20, 30),
        operation(Read(), 2, 40, 50),
        operation(Read(), 1, 60, 70),
    ]
    (violation,) = check_register(operations)
    assert violation.rule == "linearizable.register"
    assert "Read() -> 1" in violation.message
    assert "Write(value=2)" in violation.message


def test_the_initial_value_after_a_write_is_stale() -> None:
    operations = [operation(Write(1), None, 0, 10), operation(Read(), None, 20, 30)]
    (violation,) = check_register(operations)
    assert "None was surely held from the beginning to 20; 1 has no place" in violation.message


def test_unwritten_and_future_values() -> None:
    assert "nobody wrote" in check_register([operation(Read(), 9, 0, 1)])[0].message
    operations = [operation(Read(), 9, 0, 1), operation(Write(9), None, 5, 6)]
    assert "future" in check_register(operations)[0].message


def test_two_appends_at_one_position() -> None:
    operations = [operation(Append("a"), 1, 0, 10), operation(Append("b"), 1, 5, 15)]
    assert check_list(operations)[0].rule == "linearizable.list"


def test_lists_that_contradict_each_other() -> None:
    appends = [operation(Append(token), None, 0) for token in "ab"]
    assert "never appended" in check_list([*appends, operation(Read(), ("z",), 5, 6)])[0].message
    assert "twice" in check_list([*appends, operation(Read(), ("a", "a"), 5, 6)])[0].message
    reads = [operation(Read(), ("a",), 5, 6), operation(Read(), ("b", "a"), 7, 8)]
    assert "beginning" in check_list([*appends, *reads])[0].message


def test_a_gap_needs_an_unknown_append_in_time() -> None:
    """A position that nobody was given must belong to a client without an answer who had asked by then."""
    answered = operation(Append("a"), 2, 20, 30)
    assert check_list([answered, operation(Append("b"), None, 10)]) == []
    assert "by nobody" in check_list([answered, operation(Append("b"), None, 31)])[0].message
    assert "by nobody" in check_list([answered])[0].message


def test_refused_operations_do_not_fill_a_gap() -> None:
    refused = replace(operation(Add(1), None, 0, 5), outcome=Outcome.FAILED)
    assert check_counter([refused, operation(Add(1), 2, 10, 11)]) != []


def test_workloads_that_are_not_unique_are_refused() -> None:
    """The checks would mean nothing, so they raise instead of passing."""
    times = count()
    for request, fast in [(Write(1), check_register), (Append(1), check_list)]:
        twice = [operation(request, None, next(times)) for _ in range(2)]
        with pytest.raises(ValueError, match="twice"):
            fast(twice)
    with pytest.raises(ValueError, match="positive"):
        check_counter([operation(Add(0), 0, 0, 1)])
