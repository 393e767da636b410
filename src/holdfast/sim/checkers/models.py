"""Models: what the operations on a key do when they run one at a time.

A model turns an operation into a *step*: a function from the state before to the state after, or
``IMPOSSIBLE`` when the operation could not have answered as it did. States are small hashable values, because
the search remembers those it has seen. This is why a list is represented by a number (:class:`ListModel`).
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.sim.checkers.history import (
    Add,
    Append,
    CompareAndSet,
    Operation,
    Outcome,
    Read,
    Request,
    Write,
)

IMPOSSIBLE: Final = ("impossible",)
Step = Callable[[Hashable], Hashable]


@dataclass(frozen=True, slots=True)
class Compiled:
    """An operation prepared for the search."""

    operation: Operation
    step: Step
    effect: Hashable
    """Two operations of unknown outcome with equal effects are interchangeable."""


class Model(Protocol):
    initial: Hashable

    def compile(self, operations: Sequence[Operation]) -> list[Compiled]:
        """Prepare the operations that matter, in the same order; none has failed, and all are of one key.

        Operations of unknown outcome may be left out when no answer can depend on them.
        """
        ...

    def show(self, state: Hashable) -> str:
        """Return the state as text for people."""
        ...


class RegisterModel:
    """A register: ``Read``, ``Write`` and ``CompareAndSet``."""

    def __init__(self, initial: Hashable = None) -> None:
        self.initial = initial

    def compile(self, operations: Sequence[Operation]) -> list[Compiled]:
        return [
            Compiled(operation, self._step(operation), operation.request)
            for operation in _without_unseen_writes(operations)
        ]

    def show(self, state: Hashable) -> str:
        return repr(state)

    def _step(self, operation: Operation) -> Step:
        request, result = operation.request, operation.result
        match request:
            case Read():
                return lambda state: state if state == result else IMPOSSIBLE
            case Write(value):
                return lambda state: value
            case CompareAndSet(expected, new):
                if operation.outcome is Outcome.UNKNOWN or result:
                    # Of unknown outcome: a step that sets nothing is the same as none at all.
                    return lambda state: new if state == expected else IMPOSSIBLE
                return lambda state: IMPOSSIBLE if state == expected else state
        raise _misplaced(request, "register")


def _without_unseen_writes(operations: Sequence[Operation]) -> list[Operation]:
    """Leave out writes of unknown outcome whose value nobody saw.

    If such a write was placed, no answer would fall between it and the next write, so it may as well be
    absent. A failed compare-and-set sees every value but one, so all writes stay if there is one.
    """
    known = [operation for operation in operations if operation.outcome is Outcome.OK]
    unknown = [
        operation
        for operation in operations
        if operation.outcome is Outcome.UNKNOWN and not isinstance(operation.request, Read)
    ]
    if any(isinstance(operation.request, CompareAndSet) and not operation.result for operation in known):
        kept = unknown
    else:
        seen = {_needed(operation) for operation in known}
        kept = []
        while more := [operation for operation in unknown if _set(operation) in seen]:
            unknown = [operation for operation in unknown if _set(operation) not in seen]
            kept += more
            # A compare-and-set that is kept needs the value it expected.
            seen |= {_needed(operation) for operation in more}
    return sorted([*known, *kept], key=lambda operation: operation.invoked)


_NOTHING: Final = ("no value",)


def _needed(operation: Operation) -> Hashable:
    """Return the value that must have been in the register for this operation to end as it did."""
    match operation.request:
        case Read():
            return operation.result
        case CompareAndSet(expected, _):
            return expected
    return _NOTHING


def _set(operation: Operation) -> Hashable:
    request = operation.request
    return request.new if isinstance(request, CompareAndSet) else getattr(request, "value", _NOTHING)


class CounterModel:
    """A counter: ``Add`` and ``Read`` both answer the total."""

    def __init__(self, initial: int = 0) -> None:
        self.initial: Hashable = initial

    def compile(self, operations: Sequence[Operation]) -> list[Compiled]:
        return [
            Compiled(operation, self._step(operation), operation.request)
            for operation in _without_unknown_reads(operations)
        ]

    def show(self, state: Hashable) -> str:
        return repr(state)

    def _step(self, operation: Operation) -> Step:
        request, result = operation.request, operation.result
        match request:
            case Read():
                return lambda state: state if state == result else IMPOSSIBLE
            case Add(amount):
                if operation.outcome is Outcome.UNKNOWN:
                    return lambda state: state + amount  # type: ignore[operator]  # states here are ints
                before = result - amount  # type: ignore[operator]  # an Add answers an int
                return lambda state: result if state == before else IMPOSSIBLE
        raise _misplaced(request, "counter")


class ListModel:
    """A list: ``Append`` answers the position, ``Read`` the whole list as a tuple.

    Each distinct list gets a number when it first occurs, so that a step costs the same however long the list
    is. All tokens that no answer shows are treated as one token, since nothing distinguishes them.
    """

    UNSEEN: Final = ("unseen token",)

    def __init__(self) -> None:
        self.initial: Hashable = 0
        self._longer: dict[tuple[int, Hashable], int] = {}
        self._shorter: list[tuple[int, Hashable]] = [(0, None)]
        self._length: list[int] = [0]

    def compile(self, operations: Sequence[Operation]) -> list[Compiled]:
        kept = _without_unknown_reads(operations)
        seen = frozenset(token for operation in kept for token in _shown(operation))
        return [self._compile(operation, seen) for operation in kept]

    def show(self, state: Hashable) -> str:
        tokens = []
        number = state if isinstance(state, int) else 0
        while number:
            number, token = self._shorter[number]
            tokens.append(token)
        return repr(list(reversed(tokens)))

    def _compile(self, operation: Operation, seen: frozenset[Hashable]) -> Compiled:
        request, result = operation.request, operation.result
        match request:
            case Read():
                shown = self._number(_shown(operation))
                return Compiled(operation, lambda state: state if state == shown else IMPOSSIBLE, request)
            case Append(token):
                token = token if token in seen else self.UNSEEN
                position = result if operation.outcome is Outcome.OK else None
                return Compiled(operation, self._append(token, position), token)
        raise _misplaced(request, "list")

    def _append(self, token: Hashable, position: Hashable) -> Step:
        def step(state: Hashable) -> Hashable:
            assert isinstance(state, int)
            if position is not None and self._length[state] + 1 != position:
                return IMPOSSIBLE
            return self._with(state, token)

        return step

    def _number(self, tokens: tuple[Hashable, ...]) -> int:
        number = 0
        for token in tokens:
            number = self._with(number, token)
        return number

    def _with(self, number: int, token: Hashable) -> int:
        known = self._longer.get((number, token))
        if known is not None:
            return known
        longer = self._longer[number, token] = len(self._length)
        self._length.append(self._length[number] + 1)
        self._shorter.append((number, token))
        return longer


def _shown(operation: Operation) -> tuple[Hashable, ...]:
    """Return the tokens that the answer shows."""
    if not isinstance(operation.request, Read):
        return ()
    if not isinstance(operation.result, tuple):
        raise ValueError(f"a list is answered as a tuple: {operation}")
    return operation.result


def _without_unknown_reads(operations: Sequence[Operation]) -> list[Operation]:
    return [
        operation
        for operation in operations
        if operation.outcome is Outcome.OK or not isinstance(operation.request, Read)
    ]


def _misplaced(request: Request, kind: str) -> ValueError:
    return ValueError(f"a {kind} does not understand {request!r}")
