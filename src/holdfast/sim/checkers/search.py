"""The search for an order of one key's operations (see :mod:`.linearizability` for what it means)."""

from collections.abc import Hashable, Iterator, Sequence
from enum import Enum
from typing import Final

from holdfast.sim.checkers.history import Operation, Outcome
from holdfast.sim.checkers.models import IMPOSSIBLE, Compiled, Model

STEPS_MAX: Final = 2_000_000
"""Operations tried per key before the search gives up: a few seconds."""


class Verdict(Enum):
    LINEARIZABLE = "linearizable"
    IMPOSSIBLE = "impossible"
    UNDECIDED = "undecided"


def judge(operations: Sequence[Operation], model: Model, *, steps_max: int = STEPS_MAX) -> Verdict:
    """Whether the operations, all of one key, have an order that *model* allows."""
    return Search(operations, model).run(steps_max)


Situation = tuple[int, int, int, Hashable]
"""(operations placed without a gap, those placed beyond it, those of unknown outcome, state); the second
and third are bit sets."""

_HEAD: Final = 0


class Search:
    """One search. Operations of known outcome come first, by invocation; then those of unknown outcome."""

    def __init__(self, operations: Sequence[Operation], model: Model) -> None:
        compiled = model.compile(
            sorted(
                (operation for operation in operations if operation.outcome is not Outcome.FAILED),
                key=lambda operation: operation.invoked,
            )
        )
        known = [each for each in compiled if each.operation.outcome is Outcome.OK]
        unknown = [each for each in compiled if each.operation.outcome is Outcome.UNKNOWN]
        self._known_count = self._left = len(known)
        self._steps = [each.step for each in known + unknown]
        self._invoked = [each.operation.invoked for each in unknown]
        self._twin = _earlier_twins(unknown)
        self._link_events(known)
        self._situation: Situation = (0, 0, 0, model.initial)
        self._operations = [each.operation for each in known + unknown]
        self._watched: int | None = None
        self.refused_in: dict[Hashable, None] = {}
        """The states in which the watched operation was tried and impossible: what an explanation needs."""

    def watch(self, operation: Operation) -> None:
        """Gather ``refused_in`` for *operation*."""
        self._watched = self._operations.index(operation)

    def run(self, steps_max: int) -> Verdict:
        seen = {self._situation}
        path: list[tuple[int, Situation, Iterator[int]]] = []
        candidates = self._candidates()
        steps = 0
        while self._left:
            for number in candidates:
                steps += 1
                if steps > steps_max:
                    return Verdict.UNDECIDED
                after = self._steps[number](self._situation[3])
                if after is IMPOSSIBLE:
                    if number == self._watched:
                        self.refused_in[self._situation[3]] = None
                    continue
                situation = self._placed(number, after)
                if situation in seen:
                    continue
                seen.add(situation)
                path.append((number, self._situation, candidates))
                self._situation = situation
                self._lift(number)
                candidates = self._candidates()
                break
            else:
                if not path:
                    return Verdict.IMPOSSIBLE
                number, self._situation, candidates = path.pop()
                self._put_back(number)
        return Verdict.LINEARIZABLE

    def _candidates(self) -> Iterator[int]:
        """What may come next: all that was invoked before the first return of what is not yet placed.

        Stays valid across ``_lift`` and ``_put_back``, as long as they are paired.
        """
        entry = self._following[_HEAD]
        while not self._is_return[entry]:
            yield self._owner[entry]
            entry = self._following[entry]
        deadline = self._moment[entry]
        maybes = self._situation[2]
        for number, invoked in enumerate(self._invoked):
            if invoked > deadline:
                return
            twin = self._twin[number]
            if not maybes >> number & 1 and (twin is None or maybes >> twin & 1):
                yield self._known_count + number

    def _placed(self, number: int, state: Hashable) -> Situation:
        prefix, beyond, maybes, _ = self._situation
        if number >= self._known_count:
            return (prefix, beyond, maybes | 1 << (number - self._known_count), state)
        beyond |= 1 << (number - prefix)
        while beyond & 1:
            beyond >>= 1
            prefix += 1
        return (prefix, beyond, maybes, state)

    # --- the linked list of events

    def _link_events(self, known: Sequence[Compiled]) -> None:
        # At the same moment calls come before returns: such operations are concurrent.
        events = sorted(
            (moment, is_return, number)
            for number, each in enumerate(known)
            for is_return, moment in ((False, each.operation.invoked), (True, each.operation.returned))
        )
        self._moment = [0, *(moment for moment, _, _ in events)]
        self._is_return = [False, *(is_return for _, is_return, _ in events)]
        self._owner = [-1, *(number for _, _, number in events)]
        self._following = [*range(1, len(events) + 1), _HEAD]
        self._preceding = [len(events), *range(len(events))]
        self._call = [0] * len(known)
        self._return = [0] * len(known)
        for entry, (_, is_return, number) in enumerate(events, start=1):
            (self._return if is_return else self._call)[number] = entry

    def _lift(self, number: int) -> None:
        if number >= self._known_count:
            return
        for entry in (self._call[number], self._return[number]):
            before, after = self._preceding[entry], self._following[entry]
            self._following[before] = after
            self._preceding[after] = before
        self._left -= 1

    def _put_back(self, number: int) -> None:
        if number >= self._known_count:
            return
        # In the opposite order, since the two may have been neighbours.
        for entry in (self._return[number], self._call[number]):
            self._following[self._preceding[entry]] = entry
            self._preceding[self._following[entry]] = entry
        self._left += 1


def _earlier_twins(unknown: Sequence[Compiled]) -> list[int | None]:
    """For each, the one before it with the same effect: it must be placed first."""
    latest: dict[Hashable, int] = {}
    twins: list[int | None] = []
    for number, each in enumerate(unknown):
        twins.append(latest.get(each.effect))
        latest[each.effect] = number
    return twins
