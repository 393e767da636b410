"""The operations of one group on its object (E2, E3): one at a time, or interleaved (E11).

A method that waits for another group holds up those ordered after it: they queue. Where the class bears it
(:func:`holdfast.execution.interface.interleaved`) they begin while it waits, and each goes on where the
answer to its call has its place in the sequence: so every replay takes the same steps in the same order.

When no method waits the object is *at rest*; only then may it be captured (E12). Interleaved operations
might never leave it so: a record closes the *gate*, and what comes after that queues until the object has
been at rest. A call of another group that waits for nobody itself passes: somebody's operation waits for it,
and maybe one of this group for that one.

How long a call to another group is waited for, and how long the called group remembers it (E3, X3).

Both follow from the calling operation and from records alone, never from a clock: so every copy of the call
carries the same expiration, whoever sends it and however often the operation is replayed.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from holdfast.execution.context import NestedCall, Scope, scope_now
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Job, Outgoing
from holdfast.execution.interface import BadCall, Interface
from holdfast.execution.method import Suspended, all_awaited, call, close, step
from holdfast.execution.read_copy import ReadCopy
from holdfast.execution.records import Call
from holdfast.execution.sends import LIST_QUERY, Sends
from holdfast.execution.timers import Timers
from holdfast.model.calls import Request
from holdfast.model.deadlock import Root
from holdfast.model.errors import invariant
from holdfast.model.ids import SECOND, ClientId, Position
from holdfast.model.outcome import Outcome, Refused, encode_outcome

SETTLING_S: Final = 10
"""For so long after it is not waited for any more the called group still knows a call: its caller asks for
its outcome, for good, and an answer "expired" would say nothing. Groups' times may differ by less."""


def deadline_ns(job: Job, timeout_ns: int | None, now_ns: int) -> int:
    """Until when the operation *job* waits for a call that it makes at *now_ns*, by its group's time: for
    *timeout_ns*, and not longer than its own caller waits for it."""
    own_ns = (job.expiration_s - (SETTLING_S if job.chain else 0)) * SECOND
    return own_ns if timeout_ns is None else min(own_ns, now_ns + timeout_ns)


def expiration_s(deadline_ns: int) -> int:
    """Of a call that is waited for until then."""
    return -(-deadline_ns // SECOND) + SETTLING_S


WAITING_MAX: Final = 1_000
"""Interleaved operations that wait at once; beyond, they queue. The same on every member: it decides when an
operation begins (E11)."""


@dataclass(slots=True)
class _Running:
    job: Job
    coroutine: Suspended
    scope: Scope
    waits_for: NestedCall[Any]
    since: Position
    """Everything up to here led to the call, and must be final before it leaves (E3)."""
    deadline_ns: int
    turn: int
    """Which of the line's waits this is; later ones have higher numbers."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a query sees: an object, and the position it rests on; None for all that was applied."""

    instance: object
    position: Position | None = None


class OperationQueue:
    """The object of one member, and the operations that stand in line for it."""

    def __init__(self, definition: Definition, instance: object, timers: Timers, sends: Sends) -> None:
        self.instance = instance
        self.scope = Scope(definition.group, definition.interface, timers, definition.on_raised, sends)
        """Of the operations that do not wait; current while a batch of them runs."""
        self.time_ns = 0
        """The group's time, as of the record that is being executed."""
        self.queue: deque[Job] = deque()
        self.poisoned: dict[Request, bytes] = {}
        """Requests that must not run when their turn comes, with the outcome they have instead (E4)."""
        self._definition = definition
        self._operations = definition.interface.operations
        self._is_interleaved = definition.interface.is_interleaved
        self._running: dict[Request, _Running] = {}
        """Those that wait in the middle, in the order in which they came to wait."""
        self._waits = 0
        self._is_closed = False
        self._is_rest_wanted = False
        self._is_discarded = False
        self._at_rest: list[Callable[[], object]] = []
        self._before = ReadCopy(definition)

    @property
    def is_at_rest(self) -> bool:
        """Whether no method waits in the middle, so that the object is whole."""
        return not self._running and not self._is_discarded

    @property
    def waiting(self) -> int:
        """How many stand in line: operations, and those who wait for a moment of rest."""
        return len(self.queue) + len(self._at_rest)

    def when_at_rest(self, then: Callable[[], object]) -> None:
        """Call *then* between two operations: now, or when what waits has ended, or the object."""
        if not self._running:
            then()
        else:
            self._at_rest.append(then)

    @property
    def needs_gate(self) -> bool:
        """Whether somebody waits for a moment of rest that may never come by itself."""
        is_wanted = self._is_rest_wanted or bool(self._at_rest)
        return self._is_interleaved and is_wanted and bool(self._running) and not self._is_closed

    def want_rest(self) -> None:
        """Somebody looks for a moment of rest."""
        self._is_rest_wanted = bool(self._running)

    @property
    def is_gate_closed(self) -> bool:
        return self._is_closed

    def close_gate(self) -> None:
        """A record says that nothing begins any more until the object has been at rest."""
        self._is_closed = self._is_interleaved and bool(self._running)

    def open_gate(self, position: Position) -> Iterator[tuple[Job, bytes]]:
        """A record says that the rest is not waited for any longer. Yields what has ended."""
        self._is_closed = False
        yield from self.drain(position)

    def seen_by(self, method: str) -> Sight | None:
        """What a query sees now; None when that would be half an operation, which is nobody's to see unless
        the class says so."""
        if self._is_discarded:
            return None
        operation = self._operations.get(method)
        is_anytime = method == LIST_QUERY or (operation is not None and operation.is_anytime)
        if not self._running or self._is_interleaved or is_anytime:
            return Sight(self.instance)
        copy = self._before.made()
        return Sight(copy, self._before.position) if copy is not None else None

    # --- calls to other groups

    def outgoing(self) -> Outgoing | None:
        """The call to another group that has been waited for longest."""
        return next((self._outgoing(each) for each in self._running.values()), None)

    def outgoings(self) -> Iterator[Outgoing]:
        """All calls to other groups that are being waited for, the oldest first."""
        return map(self._outgoing, self._running.values())

    def outgoing_of(self, request: Request) -> Outgoing | None:
        """The call that this request waits for."""
        running = self._running.get(request)
        return self._outgoing(running) if running is not None else None

    def outgoing_since(self, turn: int) -> Iterator[tuple[int, Outgoing]]:
        """The calls that have come to be waited for after that turn, each with its own, in their order."""
        new: list[_Running] = []
        for each in reversed(self._running.values()):
            if each.turn <= turn:
                break
            new.append(each)
        for each in reversed(new):
            yield each.turn, self._outgoing(each)

    def is_waiting_for(self, caller: Request, call: int) -> bool:
        running = self._running.get(caller)
        return running is not None and running.waits_for.call == call

    @property
    def holds_up_others(self) -> bool:
        """Whether a call that another group's operation waits for stands in line."""
        return any(job.chain for job in self.queue)

    def is_in_line(self, request: Request) -> bool:
        """Whether it was ordered and has not begun."""
        return any(job.request == request for job in self.queue)

    def is_running(self, request: Request) -> bool:
        """Whether it has begun, and waits in the middle."""
        return request in self._running

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
        operation = self._operations.get(each.method)
        may_wait = operation is not None and operation.is_async
        may_start = not self._running or self._may_begin_beside(may_pass=bool(chain) and not may_wait)
        if may_start and not self.poisoned and operation is not None and not may_wait:
            # The path of nearly every call: no object is made for it.
            try:
                args, kwargs = operation.decoded(each.arguments)
            except BadCall as error:
                return refused(error)
            scope = self.scope
            scope.begin(client, each.number, time_ns, each.traceparent)
            outcome = call(getattr(self.instance, each.method), args, kwargs, operation.encode)
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
        if not may_start:
            self.queue.append(job)
            return None
        return self._run(job, position)

    def resume(self, request: Request, outcome: Outcome, position: Position) -> Iterator[tuple[Job, bytes]]:
        """Give a method that waits its answer; then run what stands in line. Yields what has ended."""
        running = self._running.pop(request, None)
        if running is None:
            return
        reached = self.poisoned.pop(request, None)
        if reached is not None:
            close(running.coroutine)
        else:
            reached = self._step(running.job, running.coroutine, running.scope, outcome, position)
        if reached is not None:
            yield running.job, reached
        yield from self.drain(position)

    def drain(self, position: Position) -> Iterator[tuple[Job, bytes]]:
        """Run what stands in line, up to the next method that waits, or as far as these bear others beside
        them. Yields what has ended."""
        while True:
            if not self._running:
                self._rest()
            elif not self._may_run_beside():
                return
            if not self.queue:
                return
            job = self.queue.popleft()
            outcome = self._run(job, position)
            if outcome is not None:
                yield job, outcome

    def poison(self, request: Request, outcome: bytes, position: Position) -> Iterator[tuple[Job, bytes]]:
        """Give up an operation that waits, in the middle or in line (E4). Yields what has ended by that."""
        running = self._running.pop(request, None)
        if running is None:
            self.poisoned[request] = outcome
            return
        close(running.coroutine)
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
        running = (each.job for each in self._running.values())
        return [each for each in (*running, *self.queue) if each.request not in self.poisoned]

    def discard(self) -> None:
        """Give up the object and the methods that wait in it. Whoever waited for a moment of rest is called,
        and finds none."""
        self._is_discarded = True
        running, self._running = self._running, {}
        for each in running.values():
            close(each.coroutine)
        self._rest()

    def _may_run_beside(self) -> bool:
        """Whether one may begin though others wait."""
        return self._is_interleaved and not self._is_closed and len(self._running) < WAITING_MAX

    def _may_begin_beside(self, *, may_pass: bool) -> bool:
        """Whether one that has just come may: it comes behind those that stand in line, or passes them."""
        return self._is_interleaved and (may_pass or (self._may_run_beside() and not self.queue))

    def _rest(self) -> None:
        self._before.drop()
        waiting, self._at_rest = self._at_rest, []
        for then in waiting:
            then()
        self._is_closed = self._is_rest_wanted = False

    def _outgoing(self, running: _Running) -> Outgoing:
        job, nested = running.job, running.waits_for
        return Outgoing(
            job.request,
            nested.call,
            nested.group,
            nested.method,
            nested.arguments,
            expiration_s(running.deadline_ns),
            (*job.chain, self._definition.group),
            running.since,
            traceparent=running.scope.traceparent.encoded(),
            root=job.root_in(self._definition.group),
            deadline_ns=running.deadline_ns,
        )

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
        outer = self.scope
        scope = Scope(definition.group, definition.interface, outer.timers, definition.on_raised, outer.sends)
        scope.begin(job.client, job.number, job.time_ns, job.traceparent)
        if operation.is_async:
            if not self._is_interleaved:
                self._before.take(self.instance, position)
            return self._step(job, method(*args, **kwargs), scope, None, position)
        self._definition.attempts.enter_one(job.client, job.number)
        token = scope_now.set(scope)
        try:
            return all_awaited(call(method, args, kwargs, operation.encode), scope)
        finally:
            self._definition.attempts.leave_one()
            scope_now.reset(token)

    def _step(
        self, job: Job, coroutine: Suspended, scope: Scope, send: Outcome | None, position: Position
    ) -> bytes | None:
        self._definition.attempts.enter_one(job.client, job.number)
        reached = step(coroutine, scope, send, self._operations[job.method].encode)
        self._definition.attempts.leave_one()
        if isinstance(reached, bytes):
            self._before.drop()
            return all_awaited(reached, scope)
        self._waits += 1
        until_ns = deadline_ns(job, reached.timeout_ns, self.time_ns)
        self._running[job.request] = _Running(job, coroutine, scope, reached, position, until_ns, self._waits)
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
        reached = step(bound(*args, **kwargs), scope, None, operation.encode)
        invariant(isinstance(reached, bytes), "calling another group is refused in this scope")
        return reached if isinstance(reached, bytes) else b""
    token = scope_now.set(scope)
    try:
        return call(bound, args, kwargs, operation.encode)
    finally:
        scope_now.reset(token)


def refused(error: BadCall) -> bytes:
    return encode_outcome(Refused(error.code, str(error)))
