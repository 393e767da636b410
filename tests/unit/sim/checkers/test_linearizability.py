"""The search for an order: right on every small history, bounded on large ones, readable when it rejects."""

import random
from collections.abc import Callable
from itertools import count

import pytest
from random_histories import (
    INITIAL,
    Workload,
    append_list,
    counter,
    good,
    has_order,
    register,
    register_with_cas,
    spoilt,
)

from holdfast.sim.checkers.history import (
    NEVER,
    Add,
    Append,
    CompareAndSet,
    History,
    Operation,
    Outcome,
    Read,
    Request,
    Write,
)
from holdfast.sim.checkers.linearizability import Verdict, check, judge
from holdfast.sim.checkers.models import CounterModel, ListModel, Model, RegisterModel

MODELS: dict[Workload, Callable[[], Model]] = {
    register: RegisterModel,
    register_with_cas: RegisterModel,
    counter: CounterModel,
    append_list: ListModel,
}


def operation(
    request: Request, result: object, invoked: int, returned: int = NEVER, *, key: str = "x"
) -> Operation:
    outcome = Outcome.UNKNOWN if returned == NEVER else Outcome.OK
    return Operation("c", key, request, outcome, result, invoked, returned)


@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.__name__)
def test_agrees_with_brute_force(workload: Workload) -> None:
    """On 1,500 random histories per model, good and bad, the search gives the result of trying every
    order."""
    rng = random.Random(f"brute force {workload.__name__}")
    verdicts = {True: 0, False: 0}
    for _ in range(1500):
        operations = good(rng, workload, length=rng.randint(3, 8), clients=rng.randint(2, 5))
        for _ in range(rng.randrange(4)):
            operations = spoilt(rng, operations)
        expected = has_order(operations, INITIAL[workload])
        verdicts[expected] += 1
        verdict = judge(operations, MODELS[workload]())
        assert (verdict is Verdict.LINEARIZABLE) == expected, "\n".join(map(str, operations))
    assert min(verdicts.values()) > 150, f"the sample must hold good and bad histories: {verdicts}"


@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.__name__)
def test_accepts_long_good_histories(workload: Workload) -> None:
    """A long history that really happened, with unknown outcomes, has an order and the search finds it."""
    rng = random.Random(f"long {workload.__name__}")
    operations = good(rng, workload, length=2000, clients=4, unknown=0.01)
    assert check(operations, MODELS[workload]) == []


def test_a_stale_read_is_explained() -> None:
    """The message shows the answer, the possible states, and what overlapped; not the whole history."""
    operations = [
        *(operation(Write(number), None, 10 * number, 10 * number + 5) for number in range(1, 50)),
        operation(Write(70), None, 495, 520),
        operation(Read(), 48, 500, 510),
        operation(Read(), 70, 600, 605),
    ]
    (violation,) = check(operations, RegisterModel)
    assert violation.rule == "linearizable"
    assert "Read() -> 48" in violation.message
    assert "the state is 49" in violation.message
    assert "Write(value=70)" in violation.message
    assert len(violation.message.splitlines()) < 8


def test_the_first_bad_answer_is_named() -> None:
    """Of many bad answers the first to return is explained, with what ran at the same time and nothing
    later."""
    operations = []
    for start in range(0, 4000, 100):
        operations += [
            operation(Write(start), None, start, start + 10),
            operation(Read(), start - 100 if start >= 1700 else start, start + 20, start + 50),
            operation(Write(start + 1), None, start + 40, start + 60),
            operation(Write(start), None, start + 70, start + 80),
        ]
    (violation,) = check(operations, RegisterModel)
    assert violation.message.splitlines() == [
        "x: no order explains this answer:",
        "    c: Read() -> 1600  [1720 .. 1750]",
        "  wherever it might be placed, the state is 1700",
        "  without an answer by then, so they may have happened:",
        "    c: Write(value=1701) unknown  [1740 .. ...]",
    ]


def test_what_overlaps_a_bad_answer_is_shown() -> None:
    """The message goes back to a quiet moment, and has no more lines than a person reads."""
    chain = [operation(Write(number), None, 10 * number, 10 * number + 15) for number in range(20)]
    before = operation(Write(99), None, -20, -10)
    (violation,) = check([before, *chain, operation(Read(), 99, 190, 250)], RegisterModel)
    lines = violation.message.splitlines()
    # Neighbours overlap, so that 16 may come after 17, and 18 and 19 after the read.
    assert lines[2].endswith("the state is 19 or 18 or 17 or 16")
    assert lines[3:5] == ["  overlapping it, back to a quiet moment:", "    (8 earlier ones)"]
    assert len(lines) == 17
    assert "Write(value=99)" not in violation.message


def test_an_answer_that_spoils_another_is_explained() -> None:
    """Each answer could be right, but not both: there is no state to show, and the other answer is named."""
    operations = [
        operation(CompareAndSet(None, 1), True, 0, 20),
        operation(CompareAndSet(None, 2), True, 5, 30),
    ]
    (violation,) = check(operations, RegisterModel)
    assert "CompareAndSet(expected=None, new=1)" in violation.message
    assert "CompareAndSet(expected=None, new=2)" in violation.message


def test_situations_are_remembered() -> None:
    """Nine concurrent writes have 362,880 orders but few situations, so an impossible read is found soon."""
    operations = [operation(Write(number), None, 0, 10) for number in range(9)]
    operations.append(operation(Read(), "other", 20, 30))
    assert judge(operations, RegisterModel(), steps_max=30_000) is Verdict.IMPOSSIBLE


def test_writes_that_nobody_saw_cost_nothing() -> None:
    """Each write without an answer that nobody read would otherwise double the search."""
    operations = [operation(Write(number), None, 0) for number in range(100)]
    operations.append(operation(Read(), "other", 20, 30))
    assert judge(operations, RegisterModel(), steps_max=10) is Verdict.IMPOSSIBLE


def test_keys_are_judged_alone() -> None:
    """The same values at two keys do not excuse each other."""
    operations = [
        operation(Write(1), None, 0, 1, key="a"),
        operation(Read(), 1, 2, 3, key="a"),
        operation(Read(), 1, 2, 3, key="b"),
    ]
    (violation,) = check(operations, RegisterModel)
    assert violation.message.startswith("b:")


def test_out_of_steps_is_undecided() -> None:
    """A search that gives up reports that under its own rule; it is never a pass."""
    rng = random.Random(5)
    operations = good(rng, register_with_cas, length=200, clients=4)
    (violation,) = check(operations, RegisterModel, steps_max=100)
    assert violation.rule == "linearizable.undecided"


def test_an_unknown_write_may_happen_late() -> None:
    """A write without an answer may take effect long after, once, and not before it was requested."""
    late = operation(Write(7), None, 10)
    reads = [operation(Read(), None, 20, 30), operation(Read(), 7, 1000, 1001)]
    assert judge([late, *reads], RegisterModel()) is Verdict.LINEARIZABLE
    early = operation(Read(), 7, 1, 2)
    assert judge([late, early], RegisterModel()) is Verdict.IMPOSSIBLE
    back = operation(Read(), None, 2000, 2001)
    assert judge([late, *reads, back], RegisterModel()) is Verdict.IMPOSSIBLE


def test_a_failed_operation_never_happened() -> None:
    """A value whose write was definitely refused must not be read."""
    refused = Operation("c", "x", Write(1), Outcome.FAILED, None, 0, 5)
    assert judge([refused, operation(Read(), None, 6, 7)], RegisterModel()) is Verdict.LINEARIZABLE
    assert judge([refused, operation(Read(), 1, 6, 7)], RegisterModel()) is Verdict.IMPOSSIBLE


def test_many_unknown_additions_are_interchangeable() -> None:
    """Twenty additions without an answer would be a million choices; equal ones are tried as one."""
    operations = [operation(Add(1), None, number) for number in range(20)]
    operations += [operation(Read(), 10, 100, 101), operation(Read(), 21, 102, 103)]
    assert judge(operations, CounterModel(), steps_max=1000) is Verdict.IMPOSSIBLE
    operations[-1] = operation(Read(), 20, 102, 103)
    assert judge(operations, CounterModel(), steps_max=1000) is Verdict.LINEARIZABLE


def test_a_failed_compare_and_set_sees_an_unread_write() -> None:
    """A write that nobody read may still be the reason why a comparison failed."""
    operations = [
        operation(Write(1), None, 0, 1),
        operation(Write(2), None, 2),
        operation(CompareAndSet(1, 3), False, 4, 5),
    ]
    assert judge(operations, RegisterModel()) is Verdict.LINEARIZABLE
    assert judge([operations[0], operations[2]], RegisterModel()) is Verdict.IMPOSSIBLE


def test_a_model_refuses_what_it_does_not_understand() -> None:
    with pytest.raises(ValueError, match="counter does not understand"):
        judge([operation(Append(1), 1, 0, 1)], CounterModel())
    with pytest.raises(ValueError, match="answered as a tuple"):
        judge([operation(Read(), [1], 0, 1)], ListModel())


def test_history_records_in_the_order_of_events() -> None:
    """Events of one nanosecond keep their order, so that a return still precedes the next call."""
    history = History(now=lambda: 7)
    first = history.begin("a", "x", Write(1))
    history.ok(first)
    second = history.begin("b", "x", Read())
    history.ok(second, None)
    third = history.begin("b", "x", Write(2))
    history.unknown(third)
    fourth = history.begin("b", "x", Write(3))
    history.failed(fourth)
    one, two, three, four = history.operations()
    assert one.precedes(two)
    assert three.outcome is Outcome.UNKNOWN
    assert three.returned == NEVER
    assert four.outcome is Outcome.FAILED
    assert [violation.rule for violation in check(history.operations(), RegisterModel)] == ["linearizable"]
    with pytest.raises(ValueError, match="ended before"):
        history.ok(first)


def test_history_follows_the_worlds_clock() -> None:
    moments = count(0, 100)
    history = History(now=lambda: next(moments))
    history.ok(history.begin("a", "x", Add(1)), 1)
    (only,) = history.operations()
    assert (only.invoked, only.returned) == (0, 100)
