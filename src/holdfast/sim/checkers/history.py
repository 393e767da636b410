"""Histories: who requested what, when, and what was answered; and :class:`Violation`, what a checker reports.

An operation *precedes* another when it returned before the other was invoked; otherwise the two are
concurrent. An operation without an answer may have happened at any moment after its invocation, even long
after the client gave up, or never (A1). An operation that was definitely refused never happened.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NewType

NEVER: Final = 1 << 200
"""The time of a return that was not seen: after every other time, and above any clock's nanoseconds."""

Handle = NewType("Handle", int)


# --- requests on a key; the key's model decides which of them it understands


@dataclass(frozen=True, slots=True)
class Read:
    """Answers the value: that of a register, the number of a counter, the tuple of a list."""


@dataclass(frozen=True, slots=True)
class Write:
    """Sets a register; the answer carries no value."""

    value: Hashable


@dataclass(frozen=True, slots=True)
class CompareAndSet:
    """Sets *new* and answers True if the register held *expected*; otherwise answers False."""

    expected: Hashable
    new: Hashable


@dataclass(frozen=True, slots=True)
class Add:
    """Adds *amount* to a counter and answers the new total."""

    amount: int


@dataclass(frozen=True, slots=True)
class Append:
    """Appends *token* to a list and answers its position; the first is 1."""

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
    """Records operations as they happen. It is not thread-safe: events count in the order they are recorded.

    ``now`` is the world's clock, never a client's own. Two events of the same nanosecond get different times,
    because a checker that took them as concurrent would excuse a stale answer.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._last = -1
        self._operations: list[Operation] = []

    def begin(self, client: str, key: str, request: Request) -> Handle:
        """Record that *client* makes a request; its outcome is unknown until recorded."""
        self._operations.append(
            Operation(client, key, request, Outcome.UNKNOWN, None, self._moment(), NEVER),
        )
        return Handle(len(self._operations) - 1)

    def ok(self, handle: Handle, result: Hashable = None) -> None:
        """Record that the answer came, with *result*."""
        self._end(handle, Outcome.OK, result)

    def failed(self, handle: Handle) -> None:
        """Record that the request was refused: it has not happened and never will."""
        self._end(handle, Outcome.FAILED, None)

    def unknown(self, handle: Handle) -> None:
        """Record that the client gave up without an answer.

        This equals never ending the operation, but is explicit.
        """
        self._require_open(handle)

    def operations(self) -> tuple[Operation, ...]:
        """Return all operations so far, in the order of their invocations."""
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
    """Group operations by key. Keys are independent, so a history is correct if every key's history is."""
    keys: dict[str, list[Operation]] = {}
    for operation in operations:
        keys.setdefault(operation.key, []).append(operation)
    return keys


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule. No violations means that the rule held, never that it could not be checked."""

    rule: str
    """A stable short name, such as ``linearizable`` or ``exactly-once.lost``; tests and counts rely on it."""
    message: str
    """What was seen, who saw it and what would have been right, for the person who debugs it."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"
