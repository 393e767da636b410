"""Runs queries: on the primary's object for the newest state, or on any member's object for an older one.

:class:`QueryRunner` runs them. :class:`PendingQueries` holds the answers of queries that ran and may not be
answered yet (S4, R1, R2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final

import msgspec

from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.interface import BadCall
from holdfast.execution.records import Call
from holdfast.execution.sends import LIST_QUERY
from holdfast.model.calls import Request
from holdfast.model.errors import Overloaded, Unavailable
from holdfast.model.ids import SECOND, ClientId, Position
from holdfast.model.outcome import Poisoned, Refused, encode_outcome, encode_returned
from holdfast.styles.call_observers import CallObservers
from holdfast.styles.ports import Sequence, StylePorts, Token

_method: Final = attrgetter("method")


@dataclass(frozen=True, slots=True)
class _Ran:
    saw: Position
    token: Token
    number: int
    outcome: bytes


class PendingQueries:
    """The answers that one primary holds back."""

    def __init__(self, ports: StylePorts) -> None:
        self._ports = ports
        self.ran: list[_Ran] = []
        """The queries that ran, and whose answers wait."""

    def add(self, saw: Position, token: Token, number: int, outcome: bytes) -> None:
        """Add the answer of a query that ran on the state as of *saw*."""
        self.ran.append(_Ran(saw, token, number, outcome))

    def release(self, sequence: Sequence) -> None:
        """Answer the queries that saw nothing uncommitted, if this member may read; otherwise ask the
        authority. It is asked after the queries ran, so it confirms that they saw the newest state."""
        ripe = [each for each in self.ran if each.saw <= sequence.committed]
        if not ripe:
            return
        self.ran = [each for each in self.ran if each.saw > sequence.committed]
        if sequence.may_read():
            self._tell(ripe)
        else:
            sequence.confirm_read(self._when_confirmed(ripe))

    def take_tokens(self) -> list[Token]:
        """Return everyone who still waits, and forget them."""
        tokens = [each.token for each in self.ran]
        self.ran.clear()
        return list(dict.fromkeys(tokens))

    def _when_confirmed(self, ripe: list[_Ran]) -> Callable[[bool], None]:
        def then(is_confirmed: bool) -> None:
            if is_confirmed:
                self._tell(ripe)
            else:
                for token in dict.fromkeys(each.token for each in ripe):
                    self._ports.forsake(token)

        return then

    def _tell(self, ripe: list[_Ran]) -> None:
        by_token: dict[Token, list[_Ran]] = {}
        for each in ripe:
            by_token.setdefault(each.token, []).append(each)
        for token, ran in by_token.items():
            self._ports.answer(token, [each.number for each in ran], [each.outcome for each in ran])


@dataclass(frozen=True, slots=True)
class _PutOff:
    """Queries of one frame that would see an operation half done, and until when they wait for its end."""

    until_ns: int
    token: Token
    queries: list[Call]


class QueryRunner:
    """Runs the queries of one member. The answers on the newest state wait in *ran* until they may be
    sent."""

    def __init__(
        self,
        definition: Definition,
        ports: StylePorts,
        observers: CallObservers,
        ran: PendingQueries,
        wait_ns: int,
        time_ns: Callable[[], int],
    ) -> None:
        """*wait_ns*: how long a query waits for an operation that is half done. *time_ns*: the group's
        time."""
        self._group = definition.group
        self._named = definition.interface.queries | {LIST_QUERY}
        self._ports = ports
        self._observers = observers
        self._ran = ran
        self._wait_ns = wait_ns
        self._time_ns = time_ns
        self.put_off: dict[int, _PutOff] = {}
        """The queries that wait for an operation which is half done."""
        self._number = 0

    def split(self, calls: list[Call], *, is_ordered: bool) -> tuple[list[Call], list[Call]]:
        """Split a frame's calls into queries and operations. They may run in any order, unless the frame
        *is_ordered* (X5): queries of a lane must see what the calls before them did."""
        named = self._named
        if named.isdisjoint(map(_method, calls)):
            return [], calls
        queries = [each for each in calls if each.method in named]
        operations = [each for each in calls if each.method not in named]
        return ([], calls) if is_ordered and operations else (queries, operations)

    def newest(
        self,
        execution: Execution,
        token: Token,
        client: ClientId,
        queries: list[Call],
        is_served: Callable[[], bool],
    ) -> None:
        """Run *queries* on the newest state. A query that would see an operation half done runs once that has
        ended, if the object still serves then, or is refused if that takes too long. Each is answered once
        what it saw is committed (S4) and reading is allowed (R1, R2)."""
        blind = {name for name in {each.method for each in queries} if execution.sees(name) is None}
        half_done = [each for each in queries if each.method in blind]
        queries = [each for each in queries if each.method not in blind] if blind else queries
        if queries:
            self._run(execution, token, client, queries)
        if not half_done:
            return
        self._number = number = self._number + 1
        self.put_off[number] = _PutOff(self._until_ns(half_done), token, half_done)

        def ask() -> None:
            if self.put_off.pop(number, None) is None:
                return  # refused meanwhile
            if is_served():
                self._run(execution, token, client, half_done)
            else:
                self._ports.forsake(token)

        execution.when_at_rest(ask)

    @property
    def next_ns(self) -> int | None:
        """When, by the clock, :meth:`refuse_overdue` has something to do."""
        return min([each.until_ns for each in self.put_off.values()]) if self.put_off else None

    def refuse_overdue(self) -> None:
        """Refuse the queries that have waited too long; they were not executed."""
        now_ns = self._ports.clock.now()
        for number, each in list(self.put_off.items()):
            if each.until_ns <= now_ns:
                del self.put_off[number]
                text = f"group {self._group}: an operation waits for another group, and the query was not run"
                outcome = encode_outcome(Refused(Overloaded.code, text))
                self._ports.answer(
                    each.token, [query.number for query in each.queries], [outcome] * len(each.queries)
                )

    def _until_ns(self, queries: list[Call]) -> int:
        """Until when these queries wait: none waits longer than its own client does."""
        expires_s = min(each.expiration_s for each in queries)
        left_ns = max(expires_s * SECOND - self._time_ns(), 0)
        return self._ports.clock.now() + min(self._wait_ns, left_ns)

    def _run(self, execution: Execution, token: Token, client: ClientId, queries: list[Call]) -> None:
        began_ns = self._ports.clock.now()
        for each in queries:
            saw = execution.sees(each.method)
            outcome = self._observers.asked(partial(self._one, execution), each, client)
            self._ran.add(execution.position if saw is None else saw, token, each.number, outcome)
        self._observers.took(self._ports.clock.now() - began_ns, client, queries)

    def older(
        self,
        execution: Execution | None,
        request: Request,
        method: str,
        arguments: msgspec.Raw,
        carried: bytes,
    ) -> bytes:
        """Return the outcome of a query on the state held here. Raises ``Unavailable``, ``BadCall``."""
        if method not in self._named:
            raise BadCall(f"{method} is not a query: it must be called as an operation")
        if execution is None or execution.sees(method) is None:
            raise Unavailable(f"group {self._group} has no object at rest here")
        if method == LIST_QUERY:
            return encode_returned(execution.sends.listed())
        return self._given_up(request) or execution.query(method, arguments, request, carried)

    def each_older(self, execution: Execution | None, client: ClientId, calls: list[Call]) -> list[bytes]:
        """Return the outcomes of *calls* of one client on the state held here."""

        def ask(each: Call, client: ClientId) -> bytes:
            request = Request(client, each.number)
            return self.older(execution, request, each.method, each.arguments, each.traceparent)

        return [self._observers.asked(ask, each, client) for each in calls]

    def _one(self, execution: Execution, each: Call, client: ClientId) -> bytes:
        request = Request(client, each.number)
        if each.method == LIST_QUERY:
            return encode_returned(execution.sends.listed())
        known = self._given_up(request)
        return known or execution.query(each.method, each.arguments, request, each.traceparent)

    def _given_up(self, request: Request) -> bytes | None:
        """The outcome of a query that crashed too many processes. It needs no record, because a query changes
        nothing."""
        ended = self._ports.attempts.given_up(request)
        return encode_outcome(Poisoned(ended)) if ended else None
