"""One object that is tried out, executed as a member of a group executes its own."""

from dataclasses import dataclass
from typing import Any, Final

from holdfast.model.calls import Request
from holdfast.model.csn import Csn
from holdfast.model.ids import ClientId, Position, ReplicaId
from holdfast.model.outcome import Refused, Returned, encode_outcome
from holdfast.model.units import SECOND
from holdfast.styles.definition import Definition
from holdfast.styles.effects import Effects
from holdfast.styles.execution import Execution
from holdfast.styles.operation import (
    Call,
    Calls,
    NestedReply,
    Record,
    Sent,
    Stamp,
    TimerFired,
    encode_arguments,
    encode_calls,
)
from holdfast.styles.sameness import in_short

CLIENT: Final = ClientId("check")
BEGUN_S: Final = 1_767_225_600
STEP_S: Final = 7
"""Between two operations."""
NESTED_MAX: Final = 16
"""Calls to other groups that one operation makes here; then it is left waiting."""
TIMERS_MAX: Final = 4
"""That fire after one operation."""
LATER_S: Final = 3600
ANSWERS: Final = (
    encode_outcome(Refused("unavailable", "there are no other groups in a check")),
    encode_outcome(Returned(1)),
    encode_outcome(Returned("a")),
    encode_outcome(Returned(None)),
)
"""What calls to other groups come to, one after the other."""


@dataclass(frozen=True, slots=True)
class Done:
    """One operation or query, as it was made."""

    method: str
    arguments: dict[str, Any]
    is_query: bool = False

    def __str__(self) -> str:
        given = ", ".join(f"{name}={in_short(value)}" for name, value in self.arguments.items())
        return f"{self.method}({given})"


class Subject:
    """An object and what belongs to it."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.answered = 0
        """How many of its calls to other groups have been."""

    @classmethod
    def made(cls, definition: Definition) -> "Subject":
        return cls(Execution(definition))

    def restored(self, state: bytes) -> "Subject":
        """Another one, of a state that this one gave."""
        execution = Execution.load(self.execution.definition, state)
        execution.go_on()
        made = Subject(execution)
        made.answered = self.answered
        return made

    @property
    def is_at_rest(self) -> bool:
        return self.execution.is_at_rest

    def do(self, number: int, done: Done) -> list[bytes]:
        """What came of it, of what it set in motion, and of the timers that were due."""
        arguments = encode_arguments((), done.arguments)
        request = Request(CLIENT, number)
        if done.is_query:
            return [self.execution.query(done.method, arguments, request)] if self.is_at_rest else []
        expiration_s = BEGUN_S + number * STEP_S + LATER_S
        call = Call(number, done.method, arguments, expiration_s)
        sent = Sent(CLIENT, number, expiration_s, encode_calls([call]))
        outcomes = self._apply(Calls(_stamp(number), sent))
        return outcomes + self._answer(number) + self._fire(number)

    def _answer(self, number: int) -> list[bytes]:
        outcomes: list[bytes] = []
        for _ in range(NESTED_MAX):
            waits = self.execution.outgoing()
            if waits is None:
                break
            outcome = ANSWERS[self.answered % len(ANSWERS)]
            self.answered += 1
            outcomes += self._apply(NestedReply(_stamp(number), *waits.caller, waits.call, outcome))
        return outcomes

    def _fire(self, number: int) -> list[bytes]:
        time_ns = _stamp(number).time_ns
        outcomes: list[bytes] = []
        for timer in self.execution.timers.due(time_ns, TIMERS_MAX):
            outcomes += self._apply(TimerFired(_stamp(number), timer.number, timer.due_ns))
            outcomes += self._answer(number)
        return outcomes

    def _apply(self, record: Record) -> list[bytes]:
        effects: Effects = self.execution.apply(Position(self.execution.position + 1), record)
        ended = [outcome for outcome in effects.outcomes if outcome is not None]
        return ended + [reply.outcome for reply in effects.later]


def _stamp(number: int) -> Stamp:
    time_s = BEGUN_S + number * STEP_S
    return Stamp(Csn(time_s, 0, ReplicaId(1)), number % SECOND)
