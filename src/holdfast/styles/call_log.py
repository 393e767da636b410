"""Writes log lines about individual calls: one line each, with the call's trace id, at a limited rate.

Most calls leave no line. A call does if it is sent again, refused or lost, runs for long, or raises. When a
host dies, these may be thousands at once. So the number of lines is limited, and the next line says how many
were left out.
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
"""The most lines written in one burst, for example when a host dies that had calls in flight."""
LINE_EVERY_NS: Final = 500 * MILLISECOND
"""After a burst, one line is allowed per this time: a method that always raises must not fill a disk."""
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
        """Whether a line would be written now. Ask this before preparing a line that is costly to prepare."""
        now = self._clock.now()
        grown = (now - self._since_ns) // LINE_EVERY_NS
        if grown > 0:
            self._room = min(LINES_MAX, self._room + grown)
            self._since_ns += grown * LINE_EVERY_NS
        return self._room > 0

    def leave_out(self, lines: int) -> None:
        """Count lines that were not prepared."""
        self._left_out += lines

    def tell(self, event: str, group: str, client: ClientId, calls: Iterable[Call], **fields: object) -> None:
        """Log *event* for each of these calls of *client* to *group*."""
        for each in calls:
            request = Request(client, each.number)
            self.tell_one(event, group, request, each.traceparent, method=each.method, **fields)

    def tell_one(self, event: str, group: str, request: Request, carried: bytes, **fields: object) -> None:
        """Log *event* for one request; *carried* is its trace."""
        if self.has_room():
            trace = Traceparent.of(carried, group, *request)
            self._write(event, trace, group=group, request=str(request), **fields)
        else:
            self._left_out += 1

    def tell_raised(self, scope: Scope, error: BaseException) -> None:
        """Log what a method raised. The caller gets the error, but only this host knows where it was
        raised."""
        if not self.has_room():
            self._left_out += 1  # the text was not asked for, because it runs the class's own code
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
    """The innermost place as ``module:line function``, without a path, which differs between hosts."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    code, module = trace.tb_frame.f_code, trace.tb_frame.f_globals.get("__name__", "")
    return f"{module}:{trace.tb_lineno} {code.co_name}"
