"""The operations of one group, run one at a time on its object (PROTOCOL E2, E3).

A method that waits for another group holds up those ordered after it: they queue. Between two operations the
object is at rest; only then may it be asked or captured.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from holdfast.model.calls import Request
from holdfast.model.circles import Root
from holdfast.model.errors import invariant
from holdfast.model.ids import ClientId, Position
from holdfast.model.outcome import Outcome, Refused, encode_outcome
from holdfast.styles.context import NestedCall, Scope, scope_now
from holdfast.styles.deadlines import deadline_ns, expiration_s
from holdfast.styles.definition import Definition
from holdfast.styles.effects import Job, Outgoing
from holdfast.styles.interface import BadCall, Interface
from holdfast.styles.operation import Call
from holdfast.styles.stepping import Suspended, all_awaited, call, close, step
from holdfast.styles.timers import Timers


@dataclass(slots=True)
class _Running:
    job: Job
    coroutine: Suspended
    scope: Scope
    waits_for: NestedCall
    since: Position
    """Everything up to here led to the call, and must be final before it leaves (E3)."""
    deadline_ns: int


class Line:
    """The object of one member, and the operations that stand in line for it."""

    def __init__(self, definition: Definition, instance: object, timers: Timers) -> None:
        self.instance = instance
        self.scope = Scope(definition.group, definition.interface, timers, definition.on_raised)
        """Of the operations that do not wait; current while a batch of them runs."""
        self.time_ns = 0
        """The group's time, as of the record that is being executed."""
        self.queue: deque[Job] = deque()
        self.poisoned: dict[Request, bytes] = {}
        """Requests that must not run when their turn comes, with the outcome they have instead (E4)."""
        self._definition = definition
        self._operations = definition.interface.operations
        self._running: _Running | None = None
        self._is_discarded = False
        self._at_rest: list[Callable[[], object]] = []

    @property
    def is_at_rest(self) -> bool:
        """Whether no method waits in the middle, so that the object is whole."""
        return self._running is None and not self._is_discarded

    @property
    def waiting(self) -> int:
        """How many stand in line: operations, and those who wait for a moment of rest."""
        return len(self.queue) + len(self._at_rest)

    def when_at_rest(self, then: Callable[[], object]) -> None:
        """Call *then* between two operations: now, or when the method that waits has ended, or the object."""
        if self._running is None:
            then()
        else:
            self._at_rest.append(then)

    def outgoing(self) -> Outgoing | None:
        """The call to another group that is being waited for."""
        if self._running is None:
            return None
        job, nested = self._running.job, self._running.waits_for
        return Outgoing(
            job.request,
            nested.call,
            nested.group,
            nested.method,
            nested.arguments,
            expiration_s(self._running.deadline_ns),
            (*job.chain, self._definition.group),
            self._running.since,
            traceparent=self._running.scope.traceparent.encoded(),
            root=job.root_in(self._definition.group),
            deadline_ns=self._running.deadline_ns,
        )

    def is_waiting_for(self, caller: Request, call: int) -> bool:
        running = self._running
        return running is not None and running.waits_for.call == call and running.job.request == caller

    def is_in_line(self, request: Request) -> bool:
        """Whether it was ordered and has not begun."""
        return any(job.request == request for job in self.queue)

    def is_running(self, request: Request) -> bool:
        """Whether it has begun, and waits in the middle."""
        return self._running is not None and self._running.job.request == request

    # --- running

    def start(
        self,
        each: Call,
        client: ClientId,
        time_ns: int,
        chain: tuple[str, ...],
        position: Position,
        root: Root | None = None,
    ) -> bytes | None:
        """Run a call now, or let it stand in line; None when its outcome comes later. ``scope`` is
        current."""
        if self._running is None and not self.poisoned:
            operation = self._operations.get(each.method)
            if operation is not None and not operation.is_async:
                # The path of nearly every call: no object is made for it.
                try:
                    args, kwargs = operation.decoded(each.arguments)
                except BadCall as error:
                    return refused(error)
                scope = self.scope
                scope.begin(client, each.number, time_ns, each.traceparent)
                outcome = call(getattr(self.instance, each.method), args, kwargs)
                return outcome if scope.unawaited is None else all_awaited(outcome, scope)
        job = Job(
            client,
            each.number,
            each.method,
            each.arguments,
            each.expiration_s,
            time_ns,
            chain,
            traceparent=each.traceparent,
            root=root,
        )
        if self._running is not None:
            self.queue.append(job)
            return None
        return self._run(job, position)

    def resume(self, outcome: Outcome, position: Position) -> Iterator[tuple[Job, bytes]]:
        """Give the method that waits its answer; then run what stands in line. Yields what has ended."""
        running = self._running
        if running is None:
            return
        reached = self.poisoned.pop(running.job.request, None)
        if reached is not None:
            close(running.coroutine)
            self._running = None
        else:
            reached = self._step(running.job, running.coroutine, running.scope, outcome, position)
        if reached is not None:
            yield running.job, reached
        yield from self.drain(position)

    def drain(self, position: Position) -> Iterator[tuple[Job, bytes]]:
        """Run what stands in line, up to the next method that waits. Yields what has ended."""
        while self._running is None:
            self._tell_those_at_rest()
            if not self.queue:
                return
            job = self.queue.popleft()
            outcome = self._run(job, position)
            if outcome is not None:
                yield job, outcome

    def poison(self, request: Request, outcome: bytes, position: Position) -> Iterator[tuple[Job, bytes]]:
        """Give up an operation that waits, in the middle or in line (E4). Yields what has ended by that."""
        running = self._running
        if running is None or running.job.request != request:
            self.poisoned[request] = outcome
            return
        close(running.coroutine)
        self._running = None
        yield running.job, outcome
        yield from self.drain(position)

    def withdraw(self, request: Request, outcome: bytes) -> Iterator[tuple[Job, bytes]]:
        """Take out of the line an operation that has not begun: it never will (E10, X3). Yields it."""
        for job in self.queue:
            if job.request == request:
                self.queue.remove(job)
                self.poisoned.pop(request, None)
                yield job, outcome
                return

    def in_progress(self) -> list[Job]:
        """The operations that were ordered, have not ended, and were not given up."""
        running = [self._running.job] if self._running is not None else []
        return [each for each in (*running, *self.queue) if each.request not in self.poisoned]

    def discard(self) -> None:
        """Give up the object and the method that waits in it. Whoever waited for a moment of rest is called,
        and finds none."""
        self._is_discarded = True
        if self._running is not None:
            close(self._running.coroutine)
            self._running = None
        self._tell_those_at_rest()

    def _tell_those_at_rest(self) -> None:
        waiting, self._at_rest = self._at_rest, []
        for then in waiting:
            then()

    def _run(self, job: Job, position: Position) -> bytes | None:
        poisoned = self.poisoned.pop(job.request, None)
        if poisoned is not None:
            return poisoned
        try:
            operation = self._definition.interface.operation(job.method)
            args, kwargs = operation.decoded(job.arguments)
        except BadCall as error:
            return refused(error)
        method = getattr(self.instance, job.method)
        definition = self._definition
        scope = Scope(definition.group, definition.interface, self.scope.timers, definition.on_raised)
        scope.begin(job.client, job.number, job.time_ns, job.traceparent)
        if operation.is_async:
            return self._step(job, method(*args, **kwargs), scope, None, position)
        self._definition.attempts.enter_one(job.client, job.number)
        token = scope_now.set(scope)
        try:
            return all_awaited(call(method, args, kwargs), scope)
        finally:
            self._definition.attempts.leave_one()
            scope_now.reset(token)

    def _step(
        self, job: Job, coroutine: Suspended, scope: Scope, send: Outcome | None, position: Position
    ) -> bytes | None:
        self._definition.attempts.enter_one(job.client, job.number)
        reached = step(coroutine, scope, send)
        self._definition.attempts.leave_one()
        if isinstance(reached, bytes):
            self._running = None
            return all_awaited(reached, scope)
        until_ns = deadline_ns(job, reached.timeout_ns, self.time_ns)
        self._running = _Running(job, coroutine, scope, reached, position, until_ns)
        return None


def run_at_once(
    instance: object, interface: Interface, scope: Scope, method: str, arguments: msgspec.Raw
) -> bytes:
    """The outcome of a method that can wait for nothing: a query, or any of a stateless group."""
    try:
        operation = interface.operation(method)
        args, kwargs = operation.decoded(arguments)
    except BadCall as error:
        return refused(error)
    bound = getattr(instance, method)
    if operation.is_async:
        reached = step(bound(*args, **kwargs), scope, None)
        invariant(isinstance(reached, bytes), "calling another group is refused in this scope")
        return reached if isinstance(reached, bytes) else b""
    token = scope_now.set(scope)
    try:
        return call(bound, args, kwargs)
    finally:
        scope_now.reset(token)


def refused(error: BadCall) -> bytes:
    return encode_outcome(Refused(error.code, str(error)))
