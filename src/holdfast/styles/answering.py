"""How callers are told: what became of their calls, once it is final (S4), or that somebody else must say."""

from collections.abc import Callable

from holdfast.model.ids import Position
from holdfast.styles.audience import Audience
from holdfast.styles.operation import Reply
from holdfast.styles.ports import StylePorts, Token
from holdfast.styles.queries import Queries
from holdfast.styles.waiting import Waiting


class Answering:
    """At one member: those in *waiting*, and those whose *queries* ran. What is final is what is *committed*
    there."""

    def __init__(
        self,
        group: str,
        ports: StylePorts,
        audience: Audience,
        waiting: Waiting,
        queries: Queries,
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
