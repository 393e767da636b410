"""Queries as they are run: on the primary's object for the newest state, on any member's for an older one."""

from collections.abc import Callable
from functools import partial

import msgspec

from holdfast.model.calls import Request
from holdfast.model.errors import Unavailable
from holdfast.model.ids import ClientId
from holdfast.model.outcome import Poisoned, encode_outcome
from holdfast.styles.audience import Audience
from holdfast.styles.definition import Definition
from holdfast.styles.execution import Execution
from holdfast.styles.interface import BadCall
from holdfast.styles.operation import Call
from holdfast.styles.ports import StylePorts, Token
from holdfast.styles.queries import Queries


class Asking:
    """Of one member. What ran for the newest state waits in *ran* until it may be answered."""

    def __init__(self, definition: Definition, ports: StylePorts, audience: Audience, ran: Queries) -> None:
        self._group = definition.group
        self._named = definition.interface.queries
        self._ports = ports
        self._audience = audience
        self._ran = ran

    def split(self, calls: list[Call]) -> tuple[list[Call], list[Call]]:
        """The queries among a frame's calls, and the operations. They may run in any order (X5)."""
        named = self._named
        queries = [each for each in calls if each.method in named]
        return queries, ([each for each in calls if each.method not in named] if queries else calls)

    def newest(
        self,
        execution: Execution,
        token: Token,
        client: ClientId,
        queries: list[Call],
        is_served: Callable[[], bool],
    ) -> None:
        """Run *queries* as soon as no method is half done, if the object is still served then. Each is
        answered once what it saw is committed (S4) and reading is allowed (R1, R2)."""

        def ask() -> None:
            if not is_served():
                self._ports.forsake(token)
                return
            began_ns = self._ports.clock.now()
            for each in queries:
                outcome = self._audience.asked(partial(self._one, execution), each, client)
                self._ran.add(execution.position, token, each.number, outcome)
            self._audience.took(self._ports.clock.now() - began_ns, client, queries)

        execution.when_at_rest(ask)

    def older(
        self,
        execution: Execution | None,
        request: Request,
        method: str,
        arguments: msgspec.Raw,
        carried: bytes,
    ) -> bytes:
        """The outcome of a query on what is held here. Raises ``Unavailable``, ``BadCall``."""
        if execution is None or not execution.is_at_rest:
            raise Unavailable(f"group {self._group} has no object at rest here")
        if method not in self._named:
            raise BadCall(f"{method} is not a query: it must be called as an operation")
        return self._given_up(request) or execution.query(method, arguments, request, carried)

    def each_older(self, execution: Execution | None, client: ClientId, calls: list[Call]) -> list[bytes]:
        """The same for *calls* of one client."""

        def ask(each: Call, client: ClientId) -> bytes:
            request = Request(client, each.number)
            return self.older(execution, request, each.method, each.arguments, each.traceparent)

        return [self._audience.asked(ask, each, client) for each in calls]

    def _one(self, execution: Execution, each: Call, client: ClientId) -> bytes:
        request = Request(client, each.number)
        known = self._given_up(request)
        return known or execution.query(each.method, each.arguments, request, each.traceparent)

    def _given_up(self, request: Request) -> bytes | None:
        """The outcome of a query that ended too many processes; it needs no record, as it changes nothing."""
        ended = self._ports.attempts.given_up(request)
        return encode_outcome(Poisoned(ended)) if ended else None
