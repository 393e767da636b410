"""Replies that wait: for their position to commit (S4), or for the call itself to end (X1)."""

from collections import deque
from dataclasses import dataclass
from itertools import chain

from holdfast.model.calls import Request
from holdfast.model.ids import Position
from holdfast.styles.operation import Reply
from holdfast.styles.ports import Token


@dataclass(frozen=True, slots=True)
class Answer:
    """Outcomes for one client that are final with *position*."""

    position: Position
    token: Token
    numbers: list[int]
    outcomes: list[bytes]


class Waiting:
    """Who waits at one member."""

    def __init__(self) -> None:
        self._answers: deque[Answer] = deque()
        self._by_request: dict[Request, list[Token]] = {}

    def __len__(self) -> int:
        return len(self._answers) + len(self._by_request)

    def until(self, position: Position, token: Token, numbers: list[int], outcomes: list[bytes]) -> None:
        """Answer once *position* is committed. Never before what was put here earlier: a later moment is as
        good, and so the earliest are always in front."""
        if self._answers:
            position = max(position, self._answers[-1].position)
        self._answers.append(Answer(position, token, numbers, outcomes))

    def for_call(self, request: Request, token: Token) -> None:
        """Answer when the call that was ordered as *request* has ended."""
        self._by_request.setdefault(request, []).append(token)

    def ended(self, reply: Reply, position: Position) -> None:
        """The call has ended; its outcome is final with *position*."""
        for token in self._by_request.pop(reply.request, ()):
            self.until(position, token, [reply.number], [reply.outcome])

    def take(self, committed: Position) -> list[Answer]:
        """What may be told now."""
        ready = []
        while self._answers and self._answers[0].position <= committed:
            ready.append(self._answers.popleft())
        return ready

    def take_tokens(self) -> list[Token]:
        """Everybody who still waits; nobody does any more."""
        tokens = [*(each.token for each in self._answers), *chain.from_iterable(self._by_request.values())]
        self._answers.clear()
        self._by_request.clear()
        return list(dict.fromkeys(tokens))
