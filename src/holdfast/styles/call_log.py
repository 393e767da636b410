"""What people read of single calls: one line each, with the trace id of the call, and no more than they can
read.

Most calls leave no line. Those do that are sent again, turned away or lost, that run for long or raise; when
a host dies these may be thousands in a moment. So lines are bounded, and the next one says how many were left
out.
"""

from collections.abc import Callable, Iterable
from typing import Final

from holdfast.execution.context import Scope
from holdfast.execution.records import Call
from holdfast.model.calls import Request
from holdfast.model.ids import MILLISECOND, ClientId
from holdfast.model.outcome import text_of
from holdfast.model.ports import Clock
from holdfast.model.traceparent import Traceparent

LINES_MAX: Final = 64
"""So many lines may follow each other at once, as when a host dies that had calls in flight."""
LINE_EVERY_NS: Final = 500 * MILLISECOND
"""And then one in so long: a method that always raises fills no disk."""
TEXT_MAX: Final = 300

Say = Callable[..., object]
"""Writes one line of a structured log: an event, and fields by name."""


class CallLog:
    """The lines of one host, or of one client of one group."""

    def __init__(self, say: Say, clock: Clock) -> None:
        self._say = say
        self._clock = clock
        self._room = LINES_MAX
        self._since_ns = clock.now()
        self._left_out = 0

    def has_room(self) -> bool:
        """Whether a line would be written now. Worth asking before a line is made ready at some cost."""
        now = self._clock.now()
        grown = (now - self._since_ns) // LINE_EVERY_NS
        if grown > 0:
            self._room = min(LINES_MAX, self._room + grown)
            self._since_ns += grown * LINE_EVERY_NS
        return self._room > 0

    def leave_out(self, lines: int) -> None:
        """So many were not made ready."""
        self._left_out += lines

    def tell(self, event: str, group: str, client: ClientId, calls: Iterable[Call], **fields: object) -> None:
        """*event* has befallen these calls of *client* to the group of that name."""
        for each in calls:
            request = Request(client, each.number)
            self.tell_one(event, group, request, each.traceparent, method=each.method, **fields)

    def tell_one(self, event: str, group: str, request: Request, carried: bytes, **fields: object) -> None:
        """The same of one request, which carries that trace."""
        if self.has_room():
            trace = Traceparent.of(carried, group, *request)
            self._write(event, trace, group=group, request=str(request), **fields)
        else:
            self._left_out += 1

    def tell_raised(self, scope: Scope, error: BaseException) -> None:
        """A method has raised that. It is its caller's to deal with; where it was raised, only this host
        knows."""
        if not self.has_room():
            self._left_out += 1  # and what it says was not asked for: it is the class's own code
            return
        self.tell_one(
            "a method raised",
            scope.group,
            Request(scope.client, scope.number),
            scope.carried,
            error=type(error).__name__,
            text=text_of(error)[:TEXT_MAX],
            at=_where(error),
        )

    def _write(self, event: str, trace: Traceparent, **fields: object) -> None:
        self._room -= 1
        if self._left_out:
            fields["left_out"], self._left_out = self._left_out, 0
        self._say(event, trace_id=trace.trace_id, **fields)


def _where(error: BaseException) -> str:
    """The innermost place, as ``module:line function``; no path, which differs from host to host."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    code, module = trace.tb_frame.f_code, trace.tb_frame.f_globals.get("__name__", "")
    return f"{module}:{trace.tb_lineno} {code.co_name}"
