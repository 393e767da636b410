"""Why a history has no order, for people: the smallest part of it that shows so.

A prefix of a good history is good, so there is a first answer with which the history turns bad. Everything
that returned before the last quiet moment before it (when nothing was under way) can be ordered, and only
through the state it leaves matters to what follows. So what is shown is that answer, what
overlaps it back to the quiet moment, and the states in which that answer could have been given.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Final

from holdfast.sim.checkers.history import NEVER, Operation, Outcome
from holdfast.sim.checkers.models import Model
from holdfast.sim.checkers.search import Search, Verdict, judge

LINES_MAX: Final = 12
STATES_MAX: Final = 4


def explain(key: str, operations: Sequence[Operation], model: Callable[[], Model], *, steps_max: int) -> str:
    """A few lines on why *operations*, known to have no order, have none."""
    moment = _first_bad_return(operations, model, steps_max)
    until_then = _truncated(operations, moment)
    culprit = next(operation for operation in until_then if operation.returned == moment)
    rules = model()
    search = Search(until_then, rules)
    search.watch(culprit)
    search.run(steps_max)
    return "\n".join(
        [
            f"{key}: no order explains this answer:",
            f"    {culprit}",
            *_state_lines(rules, list(search.refused_in)),
            *_window_lines(culprit, until_then),
        ]
    )


def _first_bad_return(operations: Sequence[Operation], model: Callable[[], Model], steps_max: int) -> int:
    """The moment of the first answer with which the history turns bad, by bisection."""
    moments = sorted(operation.returned for operation in operations if operation.outcome is Outcome.OK)
    good, bad = 0, len(moments) - 1
    while good < bad:
        middle = (good + bad) // 2
        # An undecided prefix counts as good: the answer found is then later than the first, but bad.
        if judge(_truncated(operations, moments[middle]), model(), steps_max=steps_max) is Verdict.IMPOSSIBLE:
            bad = middle
        else:
            good = middle + 1
    return moments[bad]


def _truncated(operations: Sequence[Operation], moment: int) -> list[Operation]:
    """The history as it stood at *moment*: what had not returned by then has an unknown outcome."""
    return [
        operation
        if operation.returned <= moment or operation.outcome is not Outcome.OK
        else replace(operation, outcome=Outcome.UNKNOWN, result=None, returned=NEVER)
        for operation in operations
        if operation.invoked <= moment and operation.outcome is not Outcome.FAILED
    ]


def _state_lines(model: Model, states: Sequence[Hashable]) -> list[str]:
    if not states:
        return ["  wherever it is placed, another answer below becomes impossible"]
    shown = " or ".join(model.show(state) for state in states[:STATES_MAX])
    more = f" or {len(states) - STATES_MAX} others" if len(states) > STATES_MAX else ""
    return [f"  wherever it might be placed, the state is {shown}{more}"]


def _window_lines(culprit: Operation, operations: Sequence[Operation]) -> list[str]:
    window = [operation for operation in _since_quiet(culprit, operations) if operation is not culprit]
    pending = [operation for operation in operations if operation.outcome is Outcome.UNKNOWN]
    return [
        *_listed("  overlapping it, back to a quiet moment:", window),
        *_listed("  without an answer by then, so they may have happened:", pending),
    ]


def _since_quiet(culprit: Operation, operations: Sequence[Operation]) -> list[Operation]:
    known = sorted(
        (operation for operation in operations if operation.outcome is Outcome.OK),
        key=lambda operation: operation.returned,
        reverse=True,
    )
    start = culprit.invoked
    window = []
    for operation in known:
        if operation.returned < start:
            break
        window.append(operation)
        start = min(start, operation.invoked)
    return sorted(window, key=lambda operation: operation.invoked)


def _listed(title: str, operations: Sequence[Operation]) -> list[str]:
    if not operations:
        return []
    shown = [f"    {operation}" for operation in operations[-LINES_MAX:]]
    hidden = len(operations) - len(shown)
    return [title, *([f"    ({hidden} earlier ones)"] if hidden else []), *shown]
