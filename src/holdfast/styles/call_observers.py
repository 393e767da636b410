"""Reports the calls that one member executes for its clients: as log lines, and to a
:class:`.ports.CallObserver`."""

from collections.abc import Callable
from typing import Final

from holdfast.execution.context import Scope
from holdfast.execution.effects import Outgoing
from holdfast.execution.records import Call, Reply
from holdfast.model.calls import Request
from holdfast.model.ids import MILLISECOND, ClientId
from holdfast.styles.poison import Poisonous
from holdfast.styles.ports import StylePorts

INSTEAD: Final = "a method marked with @holdfast.slow runs beside the loop"
"""What to do about a method that holds the loop: all other groups of the host wait meanwhile (E15)."""


class CallObservers:
    """Reports the calls of one member of *group*. Usually nobody observes them; then it costs only a
    check."""

    def __init__(self, group: str, ports: StylePorts, slow_ns: int) -> None:
        self._group = group
        self._slow_ns = slow_ns
        self._lines = ports.lines
        self._observer = ports.onlooker
        self._trace = ports.trace
        self._fault = ports.fault
        self.run = ports.onlooker.run if ports.onlooker is not None else None
        """Runs calls (:meth:`holdfast.execution.execution.Execution.calls`); None if nobody observes them."""

    def is_slow(self, took_ns: int) -> bool:
        return took_ns >= self._slow_ns and self._lines is not None

    def took(self, took_ns: int, client: ClientId, calls: list[Call]) -> None:
        """Report that these calls of one frame together held the loop for this long."""
        if took_ns >= self._slow_ns and self._lines is not None:
            took_ms = took_ns // MILLISECOND
            self._trace.note("held_loop", group=self._group, took_ms=took_ms)
            fields = {"took_ms": took_ms, "among": len(calls), "instead": INSTEAD}
            self._lines.tell("a call was slow", self._group, client, calls, **fields)

    def raised(self, scope: Scope, error: BaseException) -> None:
        if self._lines is not None:
            self._lines.tell_raised(scope, error)

    def given_up(self, found: Poisonous) -> None:
        """Report that a call will not be tried again (E4)."""
        if self._lines is not None:
            event, call, attempts = "a call was given up", found.call, found.attempts
            carried = found.traceparent
            self._lines.tell_one(event, self._group, found.request, carried, call=call, attempts=attempts)

    def poisoned(self, found: Poisonous) -> None:
        """Report that the group's sequence contains the record that gives up a call."""
        request, call, attempts = str(found.request), found.call, found.attempts
        self._trace.note("poisoned", group=self._group, request=request, call=call, attempts=attempts)
        self.given_up(found)
        self._fault("poisoned", found.fault)

    def asked(self, ask: Callable[..., bytes], each: Call, client: ClientId, *more: object) -> bytes:
        """Return what *ask* returns for a call that cannot wait."""
        return ask(each, client, *more) if self.run is None else self.run(ask, each, client, *more) or b""

    def ended(self, reply: Reply) -> None:
        """Report that a call which had to wait has ended."""
        if self._observer is not None:
            self._observer.ended(reply.request, reply.outcome)

    def calls_out(self, outgoing: Outgoing) -> Outgoing:
        """Return a call to another group as it is to be sent."""
        return outgoing if self._observer is None else self._observer.calls_out(outgoing)

    def came_back(self, caller: Request, outcome: bytes) -> None:
        """Report that the call which *caller* waits for has an outcome."""
        if self._observer is not None:
            self._observer.came_back(caller, outcome)

    def forsake(self) -> None:
        """Report that the waiting calls are no longer executed here."""
        if self._observer is not None:
            self._observer.forsake()
