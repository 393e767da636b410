"""How callers are told: what became of their calls, once it is final (S4), or that somebody else must say.

Replies that wait: for their position to commit (S4), or for the call itself to end (X1).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from holdfast.execution.records import Reply
from holdfast.model.calls import Request
from holdfast.model.ids import Position
from holdfast.styles.call_observers import CallObservers
from holdfast.styles.ports import StylePorts, Token
from holdfast.styles.queries import PendingQueries


@dataclass(frozen=True, slots=True)
class Answer:
    """Outcomes for one client that are final with *position*."""

    position: Position
    token: Token
    numbers: list[int]
    outcomes: list[bytes]


class WaitingReplies:
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


class Replies:
    """At one member: those in *waiting*, and those whose *queries* ran. What is final is what is *committed*
    there."""

    def __init__(
        self,
        group: str,
        ports: StylePorts,
        audience: CallObservers,
        waiting: WaitingReplies,
        queries: PendingQueries,
        committed: Callable[[], Position],
    ) -> None:
        self._group = group
        self._ports = ports
        self._audience = audience
        self._waiting = waiting
        self._queries = queries
        self._committed = committed
        self._is_unheard = False
        """Nobody has been answered since calls are taken."""

    def take_up(self) -> None:
        """Calls are taken here from now on."""
        self._is_unheard = True

    def tell(self, position: Position, token: Token, numbers: list[int], outcomes: list[bytes]) -> None:
        """What rests on *position*: now, or as soon as that is committed."""
        if position <= self._committed():
            self._ports.answer(token, numbers, outcomes)
        else:
            self._waiting.until(position, token, numbers, outcomes)

    def ended(self, reply: Reply, position: Position) -> None:
        """A call that had to wait has ended; that is final with *position*."""
        self._waiting.ended(reply, position)
        self._audience.ended(reply)

    def on_committed(self, up_to: Position) -> None:
        """Tell what may now be told."""
        for answer in self._waiting.take(up_to):
            self._ports.answer(answer.token, answer.numbers, answer.outcomes)
            if self._is_unheard:
                self._is_unheard = False
                self._ports.trace.note("answered", group=self._group)

    def forsake_all(self) -> None:
        """Nobody who waits here is answered by this member."""
        for token in (*self._waiting.take_tokens(), *self._queries.take_tokens()):
            self._ports.forsake(token)
        self._audience.forsake()
