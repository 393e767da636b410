"""Answers callers: with the outcome of their calls once it is final (S4), or by sending them elsewhere.

:class:`WaitingReplies` holds the replies that wait for their position to commit (S4) or for the call itself
to end (X1). :class:`Replies` sends them.
"""

from collections import deque
from collections.abc import Callable
from itertools import chain

import msgspec

from holdfast.execution.records import Reply
from holdfast.model.calls import Request
from holdfast.model.ids import Position
from holdfast.styles.call_observers import CallObservers
from holdfast.styles.ports import StylePorts, Token
from holdfast.styles.queries import PendingQueries


class Answer(msgspec.Struct, frozen=True):
    """Outcomes for one client that are final once *position* is committed."""

    position: Position
    token: Token
    numbers: list[int]
    outcomes: list[bytes]


class WaitingReplies:
    """The clients that wait at one member."""

    def __init__(self) -> None:
        self._answers: deque[Answer] = deque()
        self._by_request: dict[Request, list[Token]] = {}

    def __len__(self) -> int:
        return len(self._answers) + len(self._by_request)

    def until(self, position: Position, token: Token, numbers: list[int], outcomes: list[bytes]) -> None:
        """Answer once *position* is committed, but never before an answer added earlier: a later moment is as
        good, and so the earliest answers are always in front."""
        if self._answers:
            position = max(position, self._answers[-1].position)
        self._answers.append(Answer(position, token, numbers, outcomes))

    def for_call(self, request: Request, token: Token) -> None:
        """Answer when the call that was ordered as *request* has ended."""
        self._by_request.setdefault(request, []).append(token)

    def ended(self, reply: Reply, position: Position) -> None:
        """Record that the call has ended; its outcome is final once *position* is committed."""
        for token in self._by_request.pop(reply.request, ()):
            self.until(position, token, [reply.number], [reply.outcome])

    def take(self, committed: Position) -> list[Answer]:
        """Return what may be told now."""
        ready = []
        while self._answers and self._answers[0].position <= committed:
            ready.append(self._answers.popleft())
        return ready

    def take_tokens(self) -> list[Token]:
        """Return everyone who still waits, and forget them."""
        tokens = [*(each.token for each in self._answers), *chain.from_iterable(self._by_request.values())]
        self._answers.clear()
        self._by_request.clear()
        return list(dict.fromkeys(tokens))


class Replies:
    """Answers the callers of one member: those in *waiting*, and those whose *queries* ran. *committed*
    returns the position up to which everything is final."""

    def __init__(
        self,
        group: str,
        ports: StylePorts,
        observers: CallObservers,
        waiting: WaitingReplies,
        queries: PendingQueries,
        committed: Callable[[], Position],
    ) -> None:
        self._group = group
        self._ports = ports
        self._observers = observers
        self._waiting = waiting
        self._queries = queries
        self._committed = committed
        self._is_first_answer = False
        """Whether nobody has been answered since this member started to take calls."""

    def take_up(self) -> None:
        """Start to take calls."""
        self._is_first_answer = True

    def tell(self, position: Position, token: Token, numbers: list[int], outcomes: list[bytes]) -> None:
        """Answer with what depends on *position*: now, or as soon as that is committed."""
        if position <= self._committed():
            self._ports.answer(token, numbers, outcomes)
        else:
            self._waiting.until(position, token, numbers, outcomes)

    def ended(self, reply: Reply, position: Position) -> None:
        """Record that a call which had to wait has ended; that is final once *position* is committed."""
        self._waiting.ended(reply, position)
        self._observers.ended(reply)

    def on_committed(self, up_to: Position) -> None:
        """Send the answers that are final now."""
        for answer in self._waiting.take(up_to):
            self._ports.answer(answer.token, answer.numbers, answer.outcomes)
            if self._is_first_answer:
                self._is_first_answer = False
                self._ports.trace.note("answered", group=self._group)

    def forsake_all(self) -> None:
        """Tell everyone who waits here that this member will not answer."""
        for token in (*self._waiting.take_tokens(), *self._queries.take_tokens()):
            self._ports.forsake(token)
        self._observers.forsake()
