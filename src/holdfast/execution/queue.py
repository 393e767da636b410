"""Runs the operations of one group on its object (E2, E3): one at a time, or interleaved (E11).

While a method waits for another group, the operations ordered after it queue. If the class allows it
(:func:`holdfast.execution.interface.interleaved`), they start while it waits, and each resumes where the
answer to its call is recorded in the sequence, so every replay takes the same steps in the same order.

The object is *at rest* while no method waits; only then may it be captured (E12). Interleaved operations
might never let it rest. So a record closes the *gate*: operations after it queue until the object has been at
rest. A call from another group that cannot wait itself passes the gate, because an operation of that group
waits for it, and an operation of this group may wait for that one.

How long an operation waits for a nested call (:func:`deadline_ns`) and how long the called group remembers it
(:func:`expiration_s`) follow from the calling operation and from records alone, never from a clock (E3, X3).
So every copy of the call carries the same expiration, however often the operation is replayed.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.execution.context import NestedCall, Scope, scope_now
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Job, Outgoing
from holdfast.execution.interface import BadCall, Interface
from holdfast.execution.method import Suspended, all_awaited, call, close, step
from holdfast.execution.read_copy import ReadCopy, Sight
from holdfast.execution.records import Call
from holdfast.execution.sends import LIST_QUERY, Sends
from holdfast.execution.slow_run import SlowRun, computed
from holdfast.execution.timers import Timers
from holdfast.model.calls import Request
from holdfast.model.deadlock import Root
from holdfast.model.errors import invariant
from holdfast.model.ids import SECOND, ClientId, Position
from holdfast.model.outcome import Outcome, Refused, encode_outcome

SETTLING_S: Final = 10
"""How long the called group remembers a call after its caller has stopped waiting. In this time the caller
settles the outcome; the answer "expired" would tell it nothing. The groups' clocks must differ by less."""


def deadline_ns(job: Job, timeout_ns: int | None, now_ns: int) -> int:
    """Until when the operation *job* waits for a call it makes at *now_ns*, by its group's time: for
    *timeout_ns*, but not longer than its own caller waits for it."""
    own_ns = (job.expiration_s - (SETTLING_S if job.chain else 0)) * SECOND
    return own_ns if timeout_ns is None else min(own_ns, now_ns + timeout_ns)


def expiration_s(deadline_ns: int) -> int:
    """The expiration of a call that its caller waits for until *deadline_ns*."""
    return -(-deadline_ns // SECOND) + SETTLING_S


WAITING_MAX: Final = 1_000
"""The number of interleaved operations that may wait at once; more than that queue. It must be equal on every
member because it decides when an operation starts (E11)."""


@dataclass(slots=True)
class _Running:
    job: Job
    coroutine: Suspended
    scope: Scope
    waits_for: NestedCall[Any]
    since: Position
    """Everything up to this position led to the call, and must be committed before it is sent (E3)."""
    deadline_ns: int
    turn: int
    """The sequence number of this wait within the queue; later waits have higher numbers."""


class OperationQueue:
    """The object of one member, and the operations that are queued for it."""

    def __init__(self, definition: Definition, instance: object, timers: Timers, sends: Sends) -> None:
        self.instance = instance
        self.scope = Scope(definition.group, definition.interface, timers, definition.on_raised, sends)
        """The scope of the operations that do not wait; it is current while a batch of them runs."""
        self.time_ns = 0
        """The group's time as of the record that is being executed."""
        self.queue: deque[Job] = deque()
        self.poisoned: dict[Request, bytes] = {}
        """Requests that must not run when their turn comes, with the outcome they get instead (E4)."""
        self._definition = definition
        self._operations = definition.interface.operations
        self.plain = definition.interface.plain
        self._is_interleaved = definition.interface.is_interleaved
        self._running: dict[Request, _Running] = {}
        """The operations that wait for another group, in the order in which they started to wait."""
        self.slow: SlowRun | None = None
        """The slow operation that has started: nothing else starts or resumes until it has ended (E15)."""
        self._waits = 0
        self._is_closed = False
        self._is_rest_wanted = False
        self._is_discarded = False
        self._at_rest: list[Callable[[], object]] = []
        self._before = ReadCopy(definition)

    @property
    def is_at_rest(self) -> bool:
        """Whether no method waits half done, so that the object is consistent."""
        return not self._running and self.slow is None and not self._is_discarded

    @property
    def is_free(self) -> bool:
        """Whether a call that does not wait may start at once, and nothing is known that speaks against
        it."""
        return not self._running and self.slow is None and not self.poisoned

    @property
    def is_computing(self) -> bool:
        """Whether a slow operation is being computed: the object cannot go on."""
        return self.slow is not None and self.slow.is_begun and self.slow.outcome is None

    @property
    def is_ahead(self) -> bool:
        """Whether a slow operation has changed the object, and may never take effect (E15)."""
        return self.slow is not None and self.slow.is_ahead

    @property
    def waiting(self) -> int:
        """How many operations are queued, plus how many callers wait for the object to be at rest."""
        return len(self.queue) + len(self._at_rest)

    def when_at_rest(self, then: Callable[[], object]) -> None:
        """Call *then* between two operations: now, or once all waiting operations have ended, or when the
        object is discarded."""
        if not self._running and self.slow is None:
            then()
        else:
            self._at_rest.append(then)

    @property
    def needs_gate(self) -> bool:
        """Whether someone waits for the object to be at rest, which may never happen without closing the
        gate."""
        is_wanted = self._is_rest_wanted or bool(self._at_rest)
        return self._is_interleaved and is_wanted and bool(self._running) and not self._is_closed

    def want_rest(self) -> None:
        """Note that someone wants the object to be at rest."""
        self._is_rest_wanted = bool(self._running)

    @property
    def is_gate_closed(self) -> bool:
        return self._is_closed

    def close_gate(self) -> None:
        """Apply a record that lets no operation start until the object has been at rest."""
        self._is_closed = self._is_interleaved and bool(self._running)

    def open_gate(self, position: Position) -> Iterator[tuple[Job, bytes]]:
        """Apply a record that gives up waiting for the object to be at rest. Yields the operations that
        end."""
        self._is_closed = False
        yield from self.drain(position)

    def seen_by(self, method: str) -> Sight | None:
        """What a query of *method* sees now; None if that would be an operation half done, which only an
        *anytime* query may see."""
        if self._is_discarded:
            return None
        operation = self._operations.get(method)
        is_anytime = method == LIST_QUERY or (operation is not None and operation.is_anytime)
        if self.slow is None and (not self._running or self._is_interleaved or is_anytime):
            return Sight(self.instance)
        copy = self._before.made()
        return Sight(copy, self._before.position) if copy is not None else None

    # --- calls to other groups

    def outgoing(self) -> Outgoing | None:
        """The call to another group that an operation has been waiting for longest."""
        return next((self._outgoing(each) for each in self._running.values()), None)

    def outgoings(self) -> Iterator[Outgoing]:
        """All calls to other groups that operations wait for, oldest first."""
        return map(self._outgoing, self._running.values())

    def outgoing_of(self, request: Request) -> Outgoing | None:
        """The call that this request waits for."""
        running = self._running.get(request)
        return self._outgoing(running) if running is not None else None

    def outgoing_since(self, turn: int) -> Iterator[tuple[int, Outgoing]]:
        """The calls whose wait started after *turn*, in order, each with the number of its wait."""
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
        """Whether a call is queued that an operation of another group waits for."""
        return any(job.chain for job in self.queue)

    def is_in_line(self, request: Request) -> bool:
        """Whether the request is queued: ordered, but not started."""
        return any(job.request == request for job in self.queue)

    def is_running(self, request: Request) -> bool:
        """Whether the request has started and has not ended."""
        return request in self._running or (self.slow is not None and self.slow.request == request)

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
        """Run a call now, or queue it. Returns None if its outcome comes later. ``scope`` must be current."""
        operation = self._operations.get(each.method)
        may_wait = operation is not None and operation.may_wait
        may_start = self.slow is None and (
            not self._running or self._may_begin_beside(may_pass=bool(chain) and not may_wait)
        )
        if may_start and not self.poisoned and operation is not None and not may_wait:
            # The path of nearly every call, so it allocates no job.
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
        if not may_start or (self._running and self._is_slow(job)):
            self.queue.append(job)
            return None
        return self._run(job, position)

    def resume(self, request: Request, outcome: Outcome, position: Position) -> Iterator[tuple[Job, bytes]]:
        """Resume a waiting method with the answer to its call, then run what is queued. Yields what has
        ended."""
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
        """Run what is queued until a method waits; in an interleaved class, as many as may run beside waiting
        ones. Yields what has ended."""
        while self.slow is None:
            if not self._running:
                self._rest()
            elif not self._may_run_beside() or (self.queue and self._is_slow(self.queue[0])):
                return
            if not self.queue:
                return
            job = self.queue.popleft()
            outcome = self._run(job, position)
            if outcome is not None:
                yield job, outcome

    def poison(self, request: Request, outcome: bytes, position: Position) -> Iterator[tuple[Job, bytes]]:
        """Give up an operation that is waiting or queued (E4). Yields the operations that end because of
        it."""
        running = self._running.pop(request, None)
        if self.slow is not None and self.slow.request == request:
            invariant(not self.slow.is_begun, "what is given up has not changed the object")
            job, self.slow = self.slow.job, None
        elif running is None:
            self.poisoned[request] = outcome
            return
        else:
            close(running.coroutine)
            job = running.job
        yield job, outcome
        yield from self.drain(position)

    def withdraw(self, request: Request, outcome: bytes) -> Iterator[tuple[Job, bytes]]:
        """Remove a queued operation: it will never start (E10, X3). Yields it with *outcome*."""
        for job in self.queue:
            if job.request == request:
                self.queue.remove(job)
                self.poisoned.pop(request, None)
                yield job, outcome
                return

    def in_progress(self) -> list[Job]:
        """The operations that are ordered, have not ended and may still be given up."""
        running = (each.job for each in self._running.values())
        slow = [self.slow.job] if self.slow is not None and not self.slow.is_begun else []
        return [each for each in (*slow, *running, *self.queue) if each.request not in self.poisoned]

    def discard(self) -> None:
        """Give up the object and the methods that wait in it. Callers of :meth:`when_at_rest` are called and
        find the object discarded."""
        self._is_discarded, self.slow = True, None
        running, self._running = self._running, {}
        for each in running.values():
            close(each.coroutine)
        self._rest()

    def end_slow(self, request: Request, position: Position) -> Iterator[tuple[Job, bytes]]:
        """Let the slow operation of this request take effect, then run what is queued. Yields what has
        ended."""
        slow = self.slow
        if slow is None or slow.request != request:
            return  # it has ended already, or was given up
        if slow.outcome is None:
            self._definition.attempts.enter_one(*request)
            slow.take()
            self._definition.attempts.leave_one()
        outcome = slow.take()
        self.slow = None
        self._before.drop()
        yield slow.job, outcome
        yield from self.drain(position)

    def _is_slow(self, job: Job) -> bool:
        operation = self._operations.get(job.method)
        return operation is not None and operation.is_slow

    def _may_run_beside(self) -> bool:
        """Whether an operation may start although others wait."""
        return self._is_interleaved and not self._is_closed and len(self._running) < WAITING_MAX

    def _may_begin_beside(self, *, may_pass: bool) -> bool:
        """Whether a newly arrived operation may start although others wait: it queues behind those already
        queued, unless it *may_pass* them."""
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
        scope.outputs = outer.outputs
        scope.begin(job.client, job.number, job.time_ns, job.traceparent)
        if operation.is_slow:
            scope.on_raised = None  # it runs on a thread, and whoever hears of it does not
            self._before.take(self.instance, position)
            self.slow = SlowRun(job, partial(computed, method, args, kwargs, operation.encode, scope))
            return None
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
    """Run a method that cannot wait, a query or any method of a stateless group, and return its outcome."""
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
