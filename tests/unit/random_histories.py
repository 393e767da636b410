"""Random histories of one key, good and spoilt, and the plainest possible judge of them."""

import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import count

from holdfast.sim.checkers.history import (
    NEVER,
    Add,
    Append,
    CompareAndSet,
    Operation,
    Outcome,
    Read,
    Request,
    Write,
)

Values = Callable[[], int]
Workload = Callable[[random.Random, Values], Request]


def register(rng: random.Random, fresh: Values) -> Request:
    return rng.choice([Read(), Write(rng.randrange(3))])


def register_unique(rng: random.Random, fresh: Values) -> Request:
    return Read() if rng.random() < 0.5 else Write(fresh())


def register_with_cas(rng: random.Random, fresh: Values) -> Request:
    return rng.choice([Read(), Write(rng.randrange(3)), CompareAndSet(rng.randrange(3), rng.randrange(3))])


def counter(rng: random.Random, fresh: Values) -> Request:
    return Read() if rng.random() < 0.3 else Add(rng.choice([1, 1, 2]))


def append_list(rng: random.Random, fresh: Values) -> Request:
    return Read() if rng.random() < 0.4 else Append(fresh())


INITIAL: dict[Workload, Hashable] = {
    register: None,
    register_unique: None,
    register_with_cas: None,
    counter: 0,
    append_list: (),
}


def run(request: Request, state: Hashable) -> tuple[Hashable, Hashable]:
    """(state after, answer) of *request*, said as plainly as can be."""
    match request:
        case Read():
            return state, state
        case Write(value):
            return value, None
        case CompareAndSet(expected, new):
            return (new, True) if state == expected else (state, False)
        case Add(amount):
            return state + amount, state + amount
        case Append(token):
            return (*state, token), len(state) + 1


def good(
    rng: random.Random, workload: Workload, *, length: int, clients: int, unknown: float = 0.15
) -> list[Operation]:
    """A history that really happened: each operation took effect at one moment between call and return.

    Some clients never hear the answer; the operation took effect much later, or never.
    """
    calls: dict[int, tuple[int, int, Request]] = {}
    effects: list[tuple[int, int]] = []
    free_at = [rng.randrange(4) for _ in range(clients)]
    fresh = count(100).__next__
    for number in range(length):
        client = rng.randrange(clients)
        invoked = free_at[client] + rng.randrange(1, 6)
        returned = invoked + rng.randrange(1, 20)
        free_at[client] = returned
        is_unknown = rng.random() < unknown
        calls[number] = (invoked, NEVER if is_unknown else returned, workload(rng, fresh))
        latest = returned + 60 if is_unknown else returned
        if not is_unknown or rng.random() < 0.6:
            effects.append((rng.randint(invoked, latest), number))
    answers = _answers(calls, sorted(effects, key=lambda effect: (effect[0], rng.random())), workload)
    operations = [
        _operation(number, invoked, returned, request, answers.get(number))
        for number, (invoked, returned, request) in calls.items()
    ]
    return sorted(operations, key=lambda operation: operation.invoked)


def _answers(
    calls: dict[int, tuple[int, int, Request]], effects: Sequence[tuple[int, int]], workload: Workload
) -> dict[int, Hashable]:
    state, answers = INITIAL[workload], {}
    for _, number in effects:
        state, answers[number] = run(calls[number][2], state)
    return answers


def _operation(number: int, invoked: int, returned: int, request: Request, answer: Hashable) -> Operation:
    if returned == NEVER:
        return Operation(f"c{number}", "x", request, Outcome.UNKNOWN, None, invoked, NEVER)
    return Operation(f"c{number}", "x", request, Outcome.OK, answer, invoked, returned)


def spoilt(rng: random.Random, operations: Sequence[Operation]) -> list[Operation]:
    """The same with one answer swapped, made up, or shifted in time; it may still be good."""
    spoilt = list(operations)
    known = [index for index, each in enumerate(spoilt) if each.outcome is Outcome.OK]
    if not known:
        return spoilt
    victim = rng.choice(known)
    same_kind = [index for index in known if type(spoilt[index].request) is type(spoilt[victim].request)]
    donor = spoilt[rng.choice(same_kind)]
    match rng.randrange(3):
        case 0:
            spoilt[victim] = replace(spoilt[victim], result=donor.result)
        case 1:
            shift = rng.randrange(1, 40) * rng.choice([-1, 1])
            moved = max(0, spoilt[victim].invoked + shift)
            length = spoilt[victim].returned - spoilt[victim].invoked
            spoilt[victim] = replace(spoilt[victim], invoked=moved, returned=moved + length)
        case 2:
            spoilt[victim] = replace(spoilt[victim], result=_near(rng, spoilt[victim].result))
    return sorted(spoilt, key=lambda operation: operation.invoked)


def _near(rng: random.Random, result: Hashable) -> Hashable:
    match result:
        case bool():
            return not result
        case int():
            return max(0, result + rng.choice([-1, 1]))
        case tuple() if result:
            return rng.choice([result[:-1], result[1:], result[::-1]])
    return result


def has_order(operations: Sequence[Operation], initial: Hashable) -> bool:
    """Brute force: try every order that respects real time, with every choice of what happened."""
    happened = [operation for operation in operations if operation.outcome is not Outcome.FAILED]
    return _extends(happened, initial)


def _extends(left: list[Operation], state: Hashable) -> bool:
    if all(operation.outcome is Outcome.UNKNOWN for operation in left):
        return True
    for operation in left:
        if any(other.precedes(operation) for other in left):
            continue
        after, answer = run(operation.request, state)
        if operation.outcome is Outcome.OK and answer != operation.result:
            continue
        if _extends([other for other in left if other is not operation], after):
            return True
    return False
