"""Executes a group's records on its object: the same records give the same state and the same replies.

Whether a call runs is decided by the retention table and the record's CSN alone (X2). Methods run one at a
time, in the order of their positions (:mod:`.queue`). An exception is an ordinary reply. Time and randomness
come from the operation (:mod:`.context`). Records act on the state in :mod:`.object_state`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import msgspec

from holdfast.execution.annex import AnnexOperation, jobs_of
from holdfast.execution.context import Scope, scope_now
from holdfast.execution.definition import OtherCode, bring_up_to_date
from holdfast.execution.effects import Effects, Job
from holdfast.execution.method import (
    ASKED_BY,
    SHORT_BYTES,
    all_awaited,
    encoded,
    fitted,
    ordered,
    raised,
    why_not_alive,
)
from holdfast.execution.object_state import ObjectState
from holdfast.execution.queue import run_at_once
from holdfast.execution.records import (
    Annexed,
    Call,
    Calls,
    Digested,
    Executed,
    Forward,
    Marked,
    NestedReply,
    Poison,
    Ran,
    Record,
    Replied,
    Reply,
    SendEnded,
    Sent,
    Settled,
    Stamp,
    State,
    TimerFired,
    Unmarked,
    Update,
    Upgraded,
    Withdrawn,
    decode_calls,
    positions_of,
)
from holdfast.execution.timers import is_timer
from holdfast.model.calls import Request
from holdfast.model.errors import EndsProcess, invariant
from holdfast.model.ids import Position
from holdfast.model.outcome import (
    INVALID_POLICY,
    SCALARS,
    Refused,
    Unknown,
    decode_outcome,
    encode_outcome,
    encode_scalar,
    has_returned,
    outcome_in_words,
)
from holdfast.sequence.retention import (
    ABANDONED,
    EXPIRED,
    FRESH,
    NEVER,
    TOO_LATE,
    Entry,
    InProgress,
    Repeated,
    Verdict,
)

Run = Callable[..., bytes | None]
"""Calls its first argument with the others: :meth:`holdfast.styles.ports.CallObserver.run`."""

Note = Callable[[int], None]
"""Notes the number of a call that is about to run (:mod:`.crash_attempts`)."""

TIMER_DURATION_S: Final = 300
"""How long the nested calls of a method started by a timer may take."""

REFUSALS: Final[dict[Verdict, bytes]] = {
    EXPIRED: encode_outcome(Refused("expired", EXPIRED.why)),
    ABANDONED: encode_outcome(Refused("abandoned", ABANDONED.why)),
    NEVER: encode_outcome(Refused("never_runs", NEVER.why)),
    TOO_LATE: encode_outcome(Refused(INVALID_POLICY, TOO_LATE.why)),
}


class Execution(ObjectState):
    """One member's object and everything that belongs to it, advanced record by record. One style drives it,
    from one thread."""

    # --- the version of the code that made the state (E7)

    def _check_own(self, first: Position) -> None:
        if not self.is_own:
            raise OtherCode(first, self.code, self.definition.code)

    def _upgrade(self, record: Upgraded) -> None:
        here = self.definition.code
        if not record.to_code.is_same(here):
            raise OtherCode(self.position, record.to_code, here)
        is_begun = self.position > 1  # otherwise the class loaded here has just made the object
        if is_begun:
            invariant(self.is_idle, "nothing waits where other code goes on")
            bring_up_to_date(
                self.definition, self.line.instance, self.timers, self.code, self.position, self.time_ns
            )
        self._take_code(record.to_code)

    # --- records

    def apply(self, first: Position, record: Record, run: Run | None = None) -> Effects:
        """Execute or replay the record at *first*, which must be the next position. Raises
        :class:`.definition.OtherCode` for a record that the class loaded here may not execute, and
        :class:`.definition.CannotUpgrade` if that class cannot continue from the state."""
        if self.behind is not None:
            return self._pass_over(first, record)
        if isinstance(record, Calls):
            return self.calls(first, record.stamp, record.sent, decode_calls(record.sent.calls), run)
        if isinstance(record, Executed):
            return self._replay(first, record)
        if isinstance(record, Annexed):
            return self._apply_annexed(first, record)
        if isinstance(record, NestedReply | Ran | TimerFired | Poison | Withdrawn | Unmarked):
            self._check_own(first)
        self._move_to(first, first)
        effects = Effects()
        match record:
            case Replied():
                self._take_replies(record, effects)
            case NestedReply():
                self._take_time(record.stamp)
                self._resume(record, effects)
            case Ran():
                self._take_time(record.stamp)
                self._end(self.line.end_slow(record.request, self.position), effects)
            case TimerFired():
                self._take_time(record.stamp)
                self._fire(record, effects)
            case Settled():
                self._take_time(record.stamp)
                effects.settled = self.retention.settle(record.client, record.number, record.expiration_s)
            case Poison():
                self._take_time(record.stamp)
                self._poison(record, effects)
            case Withdrawn():
                self._take_time(record.stamp)
                self._withdraw(record, effects)
            case SendEnded(number=number, code=code, text=text):
                self._take_time(record.stamp)
                self.sends.end(number, code, text, self.time_ns)
            case Upgraded():
                self._upgrade(record)
            case Marked():
                self.line.close_gate()
            case Unmarked():
                self._end(self.line.open_gate(self.position), effects)
            case State() | Update() | Forward() | Digested():
                pass  # these describe what has been executed already
        return effects

    def _pass_over(self, first: Position, record: Record) -> Effects:
        """Pass over a record that has taken effect: the object's own database holds it (W7). *Without it:* a
        process ends between a flush and the checkpoint that stands on it, and the next one executes again
        what the database holds."""
        calls = decode_calls(record.sent.calls) if isinstance(record, Calls | Executed) else None
        count = len(calls) if calls is not None else positions_of(record)
        self._move_to(first, first + count - 1)
        assert self.behind is not None
        invariant(self.position <= self.behind.position, "a database is flushed between two records")
        if self.position < self.behind.position:
            return Effects([None] * count)
        self._reach_own_position()
        return self.go_on()

    def calls(
        self, first: Position, stamp: Stamp, sent: Sent, calls: list[Call], run: Run | None = None
    ) -> Effects:
        """Execute the calls of one client frame, each through *run* if it is given. Raises
        :class:`.definition.OtherCode`."""
        if not self.is_own:
            self._check_own(first)
        self._move_to(first, first + len(calls) - 1)
        self._take_time(stamp)
        client, chain, time_ns, line = sent.client, sent.chain, self.time_ns, self.line
        known = self.retention.raise_floor(client, sent.floor, sent.horizon_s, is_nested=bool(chain))
        now_s = self.retention.time_s
        entries, floor, horizon_s = known.entries, known.floor, known.horizon_s
        plain = line.plain if run is None and not known.caller else {}
        start = line.start if run is None else partial(run, line.start)
        is_free, scope, instance = line.is_free, line.scope, line.instance
        outcomes: list[bytes | None] = []
        note = self.definition.attempts.enter(client, calls)
        token = scope_now.set(scope)
        try:
            for position, each in enumerate(calls, first):
                number, expiration_s = each.number, each.expiration_s
                # Nearly every call is new, of an ordinary method, and finds the object at rest. It passes no
                # function here but its own: with a thousand calls in flight each one more is felt.
                operation = plain.get(each.method) if is_free else None
                is_new = number >= floor and number not in entries and now_s < expiration_s <= horizon_s
                if operation is None or not is_new:
                    outcomes.append(self._call(each, sent, Position(position), start, note))
                    is_free = line.is_free
                    continue
                try:
                    args = operation.decode(each.arguments)
                except EndsProcess:
                    raise
                except BaseException:  # defaults, names or a mistake, which the long way tells apart
                    outcomes.append(self._call(each, sent, Position(position), start, note))
                    continue
                if note is not None:
                    note(number)
                scope.client, scope.number, scope.time_ns = client, number, time_ns
                scope.carried, scope.random, scope.sent = each.traceparent, None, 0
                try:
                    value = getattr(instance, each.method)(*args)
                except EndsProcess:
                    raise  # the process ends, and the object with it
                except BaseException as error:
                    outcome = raised(error, scope)
                else:
                    try:
                        is_scalar = type(value) in SCALARS
                        outcome = encode_scalar((0, value)) if is_scalar else encoded(value, operation.encode)
                    except (OverflowError, UnicodeEncodeError):
                        outcome = encoded(value, operation.encode)
                if scope.unawaited is not None:
                    outcome = all_awaited(outcome, scope)
                if len(outcome) > SHORT_BYTES:
                    outcome = ordered(fitted(outcome), each)
                entries[number] = Entry(Position(position), expiration_s, outcome)
                if expiration_s < known.due_s:
                    self.retention.note_due(client, known, expiration_s)
                outcomes.append(outcome)
        finally:
            self.definition.attempts.leave()
            scope_now.reset(token)
        return Effects(outcomes)

    def _call(
        self, each: Call, sent: Sent, position: Position, start: Run, note: Note | None
    ) -> bytes | None:
        """Execute, queue or refuse one call of a frame. Returns None if its outcome comes later."""
        verdict = self.retention.admit(sent.client, each.number, position, each.expiration_s)
        if verdict is not FRESH:
            return _known(verdict)
        if note is not None:
            note(each.number)
        outcome = start(each, sent.client, self.time_ns, sent.chain, self.position, sent.root)
        if outcome is not None:
            outcome = ordered(outcome, each)
            self.retention.finish(sent.client, each.number, outcome)
        return outcome

    def query(self, method: str, arguments: msgspec.Raw, request: Request, carried: bytes = b"") -> bytes:
        """Answer a query from the current state, or from the state before the waiting operation began. Call
        this only if :meth:`sees` returns a position: no query may see an operation half done."""
        sight = self.line.seen_by(method)
        invariant(sight is not None, "a query never sees half an operation")
        assert sight is not None  # for the type checker: the invariant has stopped us otherwise
        definition = self.definition
        scope = Scope(definition.group, definition.interface, None, definition.on_raised)
        scope.begin(*request, self.time_ns, carried)
        definition.attempts.enter_one(*request)
        try:
            return run_at_once(sight.instance, definition.interface, scope, method, arguments)
        finally:
            self.definition.attempts.leave_one()

    def why_not_alive(self) -> str:
        """Ask the object's ``is_alive`` why it is not alive (FTC-247); empty if it is alive. Call this only
        while :attr:`may_be_asked`."""
        invariant(self.may_be_asked, "an object is asked between two operations")
        scope = Scope(self.definition.group, self.definition.interface, None)
        scope.begin(ASKED_BY, 0, self.time_ns)
        self.definition.attempts.enter_one(ASKED_BY, 0)
        try:
            return why_not_alive(self.line.instance, scope)
        finally:
            self.definition.attempts.leave_one()

    def go_on(self) -> Effects:
        """Run what waits in the queue, after :meth:`load`. Raises :class:`.definition.OtherCode`.

        What waited at a checkpoint below the database's position has run, or waits there (W7). *Without it:*
        C is killed after a flush at 231 and loads its checkpoint at 199, where ten calls waited; they run on
        the database that has them."""
        effects = Effects()
        if self.behind is not None or self.is_line_held:
            return effects
        if self.line.queue:
            self._check_own(self.position)
        self._end(self.line.drain(self.position), effects)
        return effects

    def keep_account(self, first: Position, record: Record) -> None:
        """Apply everything of a record except its effect on the object, which arrives separately as an
        update: the replies, the retention table and the time."""
        if isinstance(record, Calls | Executed):
            self._check_own(first)
            calls = decode_calls(record.sent.calls)
            self._move_to(first, first + len(calls) - 1)
            self._take_time(record.stamp)
            self._account(first, record.sent, calls, record.outcomes if isinstance(record, Executed) else [])
        elif isinstance(record, NestedReply | Ran | TimerFired | Withdrawn | Annexed):
            self._check_own(first)
            self._move_to(first, first + positions_of(record) - 1)
            self._take_time(record.stamp)
        else:
            self.apply(first, record)

    def _account(self, first: Position, sent: Sent, calls: list[Call], outcomes: list[bytes]) -> None:
        self.retention.raise_floor(sent.client, sent.floor, sent.horizon_s, is_nested=bool(sent.chain))
        for index, each in enumerate(calls):
            position = Position(first + index)
            if (
                self.retention.admit(sent.client, each.number, position, each.expiration_s) is FRESH
                and outcomes
            ):
                self.retention.finish(sent.client, each.number, outcomes[index])

    # --- one record of each kind

    def _replay(self, first: Position, record: Executed) -> Effects:
        calls = decode_calls(record.sent.calls)
        effects = self.calls(first, record.stamp, record.sent, calls)
        for each, outcome, recorded in zip(calls, effects.outcomes, record.outcomes, strict=True):
            if outcome != recorded:
                # The client may already have the recorded outcome, so that one is kept (E1).
                self.retention.finish(record.sent.client, each.number, recorded)
                request = Request(record.sent.client, each.number)
                effects.divergence = _other(f"{each.method} of {request}", outcome, recorded)
        effects.outcomes = list(record.outcomes)
        return effects

    def _take_replies(self, record: Replied, effects: Effects) -> None:
        for reply in record.replies:
            outcome = self.retention.reply_to(reply.client, reply.number)
            if outcome is not None and outcome != reply.outcome:
                effects.divergence = _other(str(reply.request), outcome, reply.outcome)
            self.retention.finish(reply.client, reply.number, reply.outcome, self.position)

    def _resume(self, record: NestedReply, effects: Effects) -> None:
        request = record.request
        if not self.line.is_waiting_for(request, record.call):
            return  # a second answer to a call that is answered already
        try:
            outcome = decode_outcome(record.outcome)
        except msgspec.DecodeError as error:
            outcome = Unknown(f"the answer cannot be read: {error}")
        self._end(self.line.resume(request, outcome, self.position), effects)

    def _end(self, ended: Iterator[tuple[Job, bytes]], effects: Effects) -> None:
        for job, outcome in ended:
            if not job.is_timer:
                self.retention.finish(job.client, job.number, outcome)
                effects.later.append(Reply(job.client, job.number, outcome))
            elif not has_returned(outcome):
                self.annexes.on_failed(job, outcome)

    def _fire(self, record: TimerFired, effects: Effects) -> None:
        timer = self.timers.fire(record.timer, record.due_ns, self.time_ns)
        if timer is None:
            return
        expiration_s = self.retention.time_s + TIMER_DURATION_S
        job = Job(*timer.request, timer.method, timer.arguments, expiration_s, self.time_ns, is_timer=True)
        self.line.queue.append(job)
        self._end(self.line.drain(self.position), effects)

    def _apply_annexed(self, first: Position, record: Annexed) -> Effects:
        self._check_own(first)
        self._move_to(first, first + record.positions - 1)
        self._take_time(record.stamp)
        effects = Effects()
        state = self.annexes.get(record.annex)
        if state is None:
            effects.divergence = f"position {first} is for {record.annex!r}, which this host does not know"
            return effects
        operation = AnnexOperation(first, record.positions, record.body, self.time_ns)
        state.apply(operation)
        self.line.queue.extend(jobs_of(operation, record.annex, self.retention.time_s + TIMER_DURATION_S))
        self._end(self.line.drain(self.position), effects)
        return effects

    def _poison(self, record: Poison, effects: Effects) -> None:
        request, outcome = record.request, record.outcome
        verdict = self.retention.judge(*request, record.expiration_s)
        # An operation in the queue runs even if its client gave it up long ago: the table no longer knows it.
        is_in_line = any(job.request == request for job in self.line.in_progress())
        if is_in_line or (is_timer(request) and self.timers.is_to_come(request)):
            self._end(self.line.poison(request, outcome, self.position), effects)
        elif is_timer(request):
            pass  # it was given up when it fired, or it has been cancelled
        elif verdict is FRESH:
            self.retention.begin(*request, self.position, record.expiration_s)
            self.retention.finish(*request, outcome)
        elif isinstance(verdict, Repeated) and verdict.reply != outcome:
            if isinstance(decode_outcome(verdict.reply), Refused):
                return  # it was withdrawn first, and ran on no member
            effects.divergence = f"{request} is poisoned, but here it ran"
            self.retention.finish(*request, outcome)

    def _withdraw(self, record: Withdrawn, effects: Effects) -> None:
        request = record.request
        if self.line.is_in_line(request):
            self._end(self.line.withdraw(request, record.outcome), effects)
        elif self.retention.admit(*request, self.position, record.expiration_s) is FRESH:
            # It was refused for lack of room: a later copy of it finds this outcome.
            self.retention.finish(*request, record.outcome)

    def _move_to(self, first: int, last: int) -> None:
        if first != self.position + 1:
            invariant(False, f"position {first} does not follow {self.position}")
        self.position = Position(last)

    def _take_time(self, stamp: Stamp) -> None:
        self.csn = stamp.csn
        self.time_ns = self.line.time_ns = max(self.time_ns, stamp.time_ns)
        if stamp.csn.timestamp > self.retention.time_s:
            self.retention.advance(stamp.csn.timestamp)


def _other(call: str, outcome: bytes | None, recorded: bytes) -> str:
    gave = outcome_in_words(outcome) if outcome is not None else "nothing"
    return f"{call} gave {gave}, recorded is {outcome_in_words(recorded)}"


def _known(verdict: Verdict) -> bytes | None:
    if isinstance(verdict, Repeated):
        return verdict.reply
    return None if isinstance(verdict, InProgress) else REFUSALS[verdict]
