"""Histories: who asked what, when, and what came back.

An operation *precedes* another when it returned before the other was invoked; all else is concurrent.
An operation without an answer may have happened at any moment after its invocation, also long after
the client gave up, or never (A1). One that was definitely refused never happened.

What a checker reports.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NewType

NEVER: Final = 1 << 200
"""The moment of a return that was not seen: after every other, and above any clock's nanoseconds."""

Handle = NewType("Handle", int)


# --- what is asked of a key; which of them a key understands is its model's business


@dataclass(frozen=True, slots=True)
class Read:
    """Answers the value: of a register, the number of a counter, the tuple of a list."""


@dataclass(frozen=True, slots=True)
class Write:
    """Sets a register; the answer carries nothing."""

    value: Hashable


@dataclass(frozen=True, slots=True)
class CompareAndSet:
    """Answers True and sets *new* if the register held *expected*, else answers False."""

    expected: Hashable
    new: Hashable


@dataclass(frozen=True, slots=True)
class Add:
    """Answers what a counter holds after *amount* was added."""

    amount: int


@dataclass(frozen=True, slots=True)
class Append:
    """Answers the position that *token* got in a list; the first is 1."""

    token: Hashable


Request = Read | Write | CompareAndSet | Add | Append


class Outcome(Enum):
    OK = "ok"
    UNKNOWN = "unknown"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Operation:
    client: str
    key: str
    request: Request
    outcome: Outcome
    result: Hashable
    invoked: int
    returned: int
    """``NEVER`` unless the outcome is OK or FAILED."""

    def precedes(self, other: "Operation") -> bool:
        return self.returned < other.invoked

    def __str__(self) -> str:
        answer = f"-> {self.result!r}" if self.outcome is Outcome.OK else self.outcome.value
        until = "..." if self.returned == NEVER else str(self.returned)
        return f"{self.client}: {self.request!r} {answer}  [{self.invoked} .. {until}]"


class History:
    """Records operations as they happen. Not for threads: events count in the order they are recorded.

    ``now`` is the world's clock, never a client's own. Two events of the same nanosecond are told apart
    by a nudge, because a checker that sees them as concurrent would excuse a stale answer.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._last = -1
        self._operations: list[Operation] = []

    def begin(self, client: str, key: str, request: Request) -> Handle:
        """*client* asks; until told otherwise the outcome is unknown."""
        self._operations.append(
            Operation(client, key, request, Outcome.UNKNOWN, None, self._moment(), NEVER),
        )
        return Handle(len(self._operations) - 1)

    def ok(self, handle: Handle, result: Hashable = None) -> None:
        """The answer came, with *result*."""
        self._end(handle, Outcome.OK, result)

    def failed(self, handle: Handle) -> None:
        """It was refused: it has not happened and never will."""
        self._end(handle, Outcome.FAILED, None)

    def unknown(self, handle: Handle) -> None:
        """The client gave up without an answer. Same as never ending the operation, but said aloud."""
        self._require_open(handle)

    def operations(self) -> tuple[Operation, ...]:
        """All so far, in the order of their invocations."""
        return tuple(self._operations)

    def _end(self, handle: Handle, outcome: Outcome, result: Hashable) -> None:
        asked = self._require_open(handle)
        self._operations[handle] = Operation(
            asked.client, asked.key, asked.request, outcome, result, asked.invoked, self._moment()
        )

    def _require_open(self, handle: Handle) -> Operation:
        operation = self._operations[handle]
        if operation.outcome is not Outcome.UNKNOWN:
            raise ValueError(f"this operation has ended before: {operation}")
        return operation

    def _moment(self) -> int:
        self._last = max(self._now(), self._last + 1)
        return self._last


def by_key(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    """Keys are independent objects, so each can be judged alone: a history is good if every key's is."""
    keys: dict[str, list[Operation]] = {}
    for operation in operations:
        keys.setdefault(operation.key, []).append(operation)
    return keys


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule. No violations means that the rule held, never that it could not be checked."""

    rule: str
    """Stable short name, such as ``linearizable`` or ``exactly-once.lost``; tests and counts rely on it."""
    message: str
    """For the person who debugs it: what was seen, who saw it, what would have been right."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"
