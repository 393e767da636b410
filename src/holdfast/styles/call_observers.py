"""Who is told of the calls that one member executes for others: people, in lines, and whoever looks on."""

from collections.abc import Callable

from holdfast.execution.context import Scope
from holdfast.execution.effects import Outgoing
from holdfast.execution.records import Call, Reply
from holdfast.model.calls import Request
from holdfast.model.ids import MILLISECOND, ClientId
from holdfast.styles.poison import Poisonous
from holdfast.styles.ports import StylePorts


class CallObservers:
    """Of one member of the group of that name. Mostly nobody: then it costs a look."""

    def __init__(self, group: str, ports: StylePorts, slow_ns: int) -> None:
        self._group = group
        self._slow_ns = slow_ns
        self._lines = ports.lines
        self._onlooker = ports.onlooker
        self._trace = ports.trace
        self._fault = ports.fault
        self.run = ports.onlooker.run if ports.onlooker is not None else None
        """How calls are run (:meth:`holdfast.execution.execution.Execution.calls`)."""

    def is_slow(self, took_ns: int) -> bool:
        return took_ns >= self._slow_ns and self._lines is not None

    def took(self, took_ns: int, client: ClientId, calls: list[Call]) -> None:
        """These calls of one frame ran for so long, together."""
        if took_ns >= self._slow_ns and self._lines is not None:
            took_ms = took_ns // MILLISECOND
            self._lines.tell("a call was slow", self._group, client, calls, took_ms=took_ms, among=len(calls))

    def raised(self, scope: Scope, error: BaseException) -> None:
        if self._lines is not None:
            self._lines.tell_raised(scope, error)

    def given_up(self, found: Poisonous) -> None:
        """A call is not tried again (E4)."""
        if self._lines is not None:
            event, call, attempts = "a call was given up", found.call, found.attempts
            carried = found.traceparent
            self._lines.tell_one(event, self._group, found.request, carried, call=call, attempts=attempts)

    def poisoned(self, found: Poisonous) -> None:
        """The group has it in its sequence that a call is given up."""
        request, call, attempts = str(found.request), found.call, found.attempts
        self._trace.note("poisoned", group=self._group, request=request, call=call, attempts=attempts)
        self.given_up(found)
        self._fault("poisoned", found.fault)

    def asked(self, ask: Callable[..., bytes], each: Call, client: ClientId, *more: object) -> bytes:
        """What *ask* gives, which waits for nothing."""
        return ask(each, client, *more) if self.run is None else self.run(ask, each, client, *more) or b""

    def ended(self, reply: Reply) -> None:
        """A call that had to wait has ended."""
        if self._onlooker is not None:
            self._onlooker.ended(reply.request, reply.outcome)

    def calls_out(self, outgoing: Outgoing) -> Outgoing:
        """A call to another group, as it is to leave."""
        return outgoing if self._onlooker is None else self._onlooker.calls_out(outgoing)

    def came_back(self, caller: Request, outcome: bytes) -> None:
        """The call that *caller* waits for has an outcome."""
        if self._onlooker is not None:
            self._onlooker.came_back(caller, outcome)

    def forsake(self) -> None:
        """What waits is not executed here any more."""
        if self._onlooker is not None:
            self._onlooker.forsake()
