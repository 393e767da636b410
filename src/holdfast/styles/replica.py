"""What passive and active members have in common: taking calls, answering after commit, capturing states.

A replica is the application of a sequence (:class:`holdfast.sequence.ports.Application`). The host passes
calls to it and calls :meth:`Replica.turn` once after everything that arrived together. Nothing is submitted
from within an event of the sequence; what such an event requires is done in the next turn.
"""

from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from holdfast.execution.effects import Effects
from holdfast.execution.execution import REFUSALS, Execution
from holdfast.execution.method import fitted
from holdfast.execution.records import (
    Call,
    NestedReply,
    Poison,
    SendEnded,
    Sent,
    Settled,
    TimerFired,
    Withdrawn,
)
from holdfast.model.calls import Request
from holdfast.model.errors import Overloaded, Rejected, Unavailable
from holdfast.model.ids import MILLISECOND, ClientId, Epoch, Position
from holdfast.model.outcome import Unknown, decode_outcome
from holdfast.sequence.ports import Captured, Kept
from holdfast.sequence.retention import NEVER
from holdfast.sequence.role import FAR, NEAR, Fitness
from holdfast.storage.record import ORIGIN
from holdfast.styles.admission import calls_in, check_length, in_circle
from holdfast.styles.outgoing import end_of
from holdfast.styles.poison import Poisonous, among_calls, among_timers
from holdfast.styles.ports import Token
from holdfast.styles.replica_base import ReplicaBase
from holdfast.styles.stamping import newest_stamp

OVERDUE_NS: Final = 20 * MILLISECOND
"""How often a timer that is due but cannot be executed yet is checked."""


class Replica(ReplicaBase):
    """One member's object and the calls that wait for it."""

    # --- the sequence's events that both styles handle alike

    def on_serving(self, epoch: Epoch) -> None:
        self._serving_state.begin()
        self._absence.on_leading()
        self._maybe_take_calls(may_order=False)

    def on_forced(self) -> None:
        """Let the group continue from here, with the object that this member's log gives (V4)."""
        self.readiness.force(self.sequence.tail)

    def _maybe_take_calls(self, *, may_order: bool = True) -> None:
        """Take calls as soon as the object is ready."""
        if self._absence.is_absent:
            return
        execution = self._serving_state.attempt(partial(self._resumed, may_order=may_order))
        if execution is not None:
            self._take_up(execution)

    def _resumed(self, *, may_order: bool) -> Execution | None:
        """Return the object that serves from here on. It reflects what is committed, so everything must be
        committed, including what this primary ordered for an object it has given up since."""
        if self.sequence.committed != self.sequence.tail:
            return None
        if not self._code_change.may_make_object(may_order=may_order):
            return None
        execution = self._ready()
        if execution is None:
            return None
        if not execution.is_own:
            if may_order and self.sequence.is_serving:
                with suppress(Rejected, Unavailable):  # the object was given up, and is made again
                    self._upgrade(execution)
            elif not may_order:
                self._ports.again()
            return None
        self._stamping.resume(*newest_stamp(execution, self.sequence))
        return execution

    def _upgrade(self, execution: Execution) -> None:
        """Let the class loaded here continue from what other code has left (E7)."""
        if self._code_change.upgrade(execution, self._order_upgrade) > 1:
            # Members that start after this should not need the old code any more.
            self._checkpointing.grew(self._config.checkpoint_bytes)

    def reconsider(self) -> None:
        """Check again whether an object can be made: the code on some host, or a wish, has changed."""
        if self._serving_state.awaits_object or self._code_replay.is_met:
            self._serving_state.reconsider()
            self._ports.again()

    def _take_up(self, execution: Execution) -> None:
        self._serving_state.start_calls()
        self._answering.take_up()
        self._checkpointing.trust(execution)
        self._calling_out.take_up(self.sequence.committed)
        self._sending.take_up(execution.sends)
        self._ports.trace.note("taken_up", group=self.definition.group, position=execution.position)

    def on_following(self) -> None:
        self._serving_state.end()
        self._code_change.end_term()
        self._withdraw()

    def _withdraw(self) -> None:
        """Drop what this member captured or ordered, which may never be final, and answer nobody here."""
        self._sending.failed.clear()
        self._checkpointing.distrust()
        self._checkpointing.forget()
        self._answering.forsake_all()

    def _committed(self, up_to: Position) -> None:
        """Send the answers that are final now, and keep the state that is committed now."""
        self._answering.on_committed(up_to)
        self._checkpointing.on_committed(up_to)
        if self._sending.failed:
            for said in self._sending.take_failed(up_to):
                self._ports.fault("send_failed", said)

    # --- what the host passes in

    def on_calls(self, token: Token, sent: Sent) -> None:
        """Take the calls of one client frame, operations and queries; answers follow when they are final.

        Raises ``Unavailable``, ``Overloaded`` or ``InvalidRequest`` if nothing was done, or if what was done
        will be recognized when the frame comes again; ``BadCall`` for an invalid frame.
        """
        group = self.definition.group
        is_circle = group in sent.chain
        # Old code may wait for a call that comes back here, and nothing is served before it ends.
        execution = self._serving() if self._code_replay.waits is None or not is_circle else None
        calls = calls_in(sent)
        if is_circle and not self.definition.interface.is_interleaved:
            # Refused however full the queue is: it advances only once this call is answered.
            outcomes = [in_circle(group, sent.chain)] * len(calls)
            self._ports.answer(token, [each.number for each in calls], outcomes)
            return
        execution = execution if execution is not None else self._serving()
        try:
            self._check_load(execution.line.waiting, is_nested=bool(sent.chain))
        except Overloaded:
            if self._answer_without_room(execution, token, sent, calls):
                return
            raise
        queries, operations = self._asking.split(calls, is_ordered=sent.is_ordered)
        check_length(sent, operations)
        if queries:
            self._ask(execution, token, sent.client, queries)
        if self._ports.attempts.suspects and self._ports.attempts.has_suspects:
            self._poison_calls(execution, sent.client, operations)
        if len(operations) < len(calls):
            sent = sent.of(operations)
        fresh = self._repetitions.sift(execution, token, sent.client, operations) if operations else []
        if fresh:
            # If a frame could not be ordered completely, the ordered part is not ordered again, so less of it
            # is left each time it comes.
            sent = sent if len(fresh) == len(operations) else sent.of(fresh)
            self._order_calls(execution, token, sent, fresh)

    def _answer_without_room(self, execution: Execution, token: Token, sent: Sent, calls: list[Call]) -> bool:
        """Answer what a full log does not hinder: calls that are known here, and queries if no operation
        waits. Returns whether that is the whole frame. *Without it:* two groups whose logs are full each have
        the answer that an operation of the other waits for, and give it to nobody (E10)."""
        queries, operations = self._asking.split(calls, is_ordered=sent.is_ordered)
        left = self._repetitions.answer(execution, token, sent.client, operations)
        if queries and (is_at_rest := execution.is_at_rest):
            self._ask(execution, token, sent.client, queries)
        return not left and (not queries or is_at_rest)

    def on_stale_queries(self, token: Token, client: ClientId, calls: list[Call]) -> None:
        """Answer queries from what this member holds, once that is committed: an old state is acceptable, but
        not one that never existed (S4). Raises ``Unavailable``, ``BadCall``."""
        self._check_there()
        execution = self.execution
        outcomes = self._asking.each_older(execution, client, calls)
        saw = execution.position if execution is not None else Position(0)
        self._answering.tell(saw, token, [each.number for each in calls], outcomes)

    def on_stale_query(
        self, request: Request, method: str, arguments: msgspec.Raw, carried: bytes = b""
    ) -> bytes:
        """Answer a query at once from what this member holds, primary or not. Raises ``Unavailable``."""
        self._check_there()
        return self._asking.older(self.execution, request, method, arguments, carried)

    @property
    def reached(self) -> Position:
        """The position of the state that stale reads are answered from; 0 while there is none."""
        execution = self.execution
        return execution.position if execution is not None and execution.may_be_read else Position(0)

    def keep_up(self) -> None:
        """Advance the object to what is committed, because someone reads here, if this style does that.
        Raises ``Unavailable`` if a backup holds no object."""
        return

    def why_not_alive(self) -> str:
        """Ask the object's ``is_alive`` why it is not alive (FTC-247); empty if it is alive. An object that
        is not here or waits for another group cannot be asked; it is not hung, so Holdfast answers for it."""
        execution = self.execution
        return execution.why_not_alive() if execution is not None and execution.may_be_asked else ""

    def make_anew(self, why: str) -> None:
        """Replace a faulty object: give it up, and make another from what is committed. A primary lets
        another member serve first (K5). Its earlier answers remain valid even if the new object gives others:
        the old object itself said that it was faulty. Do not call this within an event of the sequence."""
        if self._serving_state.takes_calls:
            self.readiness.forgiven = self.sequence.tail
        self._give_up_object()
        self._serving_state.failed_as_primary(why)
        self._ports.again()

    def fitness(self) -> Fitness:
        """Whether this member could lead, and if not, why (O3, E8)."""
        found, execution = self._absence.now, self.execution
        if found is None and execution is not None and not self._checkpointing.failures.why:
            return NEAR if self.is_near() else FAR  # as nearly always, and asked in every turn
        if found is None and execution is None and (why := self._why_unable()):
            found = self.readiness.unable(why)
        if found is None:
            found = NEAR if self.is_near() else FAR
            return self.readiness.short_of_room(found) if self._lacks_room else found
        is_log_long = 2 * self._log_bytes() >= self._config.long_log_bytes
        return self.readiness.without(found, is_log_long=is_log_long)

    @property
    def _lacks_room(self) -> bool:
        """Whether this is a backup whose log is long because its checkpoints fail."""
        is_failing = bool(self._checkpointing.failures.why) and not self._serving_state.is_primary
        return is_failing and self.sequence.own_log_bytes >= self._config.long_log_bytes

    def _why_unable(self) -> str:
        return self._code_replay.why if self._code_replay.is_met else self._serving_state.why_unable

    def on_outcome_asked(
        self, token: Token, client: ClientId, number: int, expiration_s: int, *, withdraws: bool = False
    ) -> None:
        """Settle what became of a request: it must not run any more (X3). *withdraws*: not even if it is
        ordered and queued. Raises ``Overloaded`` when the log is full: clients ask without end, and what is
        left of it is for timers, and for replies that operations wait for."""
        execution = self._serving()
        self._check_load(0, is_nested=True)
        self._repetitions.check_space()
        if withdraws:
            self.withdraw(Request(client, number), expiration_s, REFUSALS[NEVER])
        record = Settled(self._stamping.next(), client, number, expiration_s)

        def tell(effects: Effects, position: Position) -> None:
            self._repetitions.settled(effects, record, token, position)

        self._order(execution, record, (token, tell))

    def on_nested_outcome(self, caller: Request, call: int, outcome: bytes) -> None:
        """Handle the answer to a call that was made through ``call_out``."""
        if not self._calling_out.is_awaited(caller, call):
            return
        if self._code_replay.waits is not None:
            may_order = self._serving_state.awaits_object and self.sequence.is_serving
            self._code_change.answer(caller, call, outcome, self._submit if may_order else None)
            return
        self._observers.came_back(caller, outcome)
        outcome = fitted(outcome)  # a query may return more than fits into a record
        try:
            self._order(self._serving(), NestedReply(self._stamping.next(), *caller, call, outcome))
            self._calling_out.came_back(caller, call)
        except (Rejected, Unavailable):
            self._calling_out.send_again(caller, call)  # or another primary does

    def on_send_outcome(self, number: int, outcome: bytes) -> None:
        """Handle the answer to a one-way call that was sent from the outbox through ``call_out``."""
        execution = self.execution
        send = execution.sends.get(number) if execution is not None else None
        if send is None or not self._sending.is_awaited(number):
            return
        found = decode_outcome(outcome)
        end = end_of(found, is_expired=send.expires_ns <= self.time_ns())
        if end is None or (execution is not None and execution.line.slow is not None):
            self._sending.send_again(number, is_soon=False, is_in_doubt=isinstance(found, Unknown))
            return
        try:
            self._order(self._serving(), SendEnded(self._stamping.next(), number, *end))
        except (Rejected, Unavailable):
            self._sending.send_again(number, is_soon=True, is_in_doubt=True)  # or another primary does
            return
        if end[0]:
            said = f"{send.group}.{send.method}, sent by {send.caller}, came to nothing: {end[0]}: {end[1]}"
            self._sending.failed.append((self.sequence.tail, said))

    def withdraw(self, request: Request, expiration_s: int, outcome: bytes) -> None:
        """End a call with *outcome* that is queued, or refused for lack of room, unless it starts before that
        is ordered (E10). Raises ``Unavailable``, ``Overloaded``."""
        execution = self._serving()
        if execution.line.is_in_line(request) or not self.has_room:
            self._order(execution, Withdrawn(self._stamping.next(), *request, outcome, expiration_s))

    def poison(self, found: Poisonous) -> None:
        """Give up a call that crashed too many processes (E4)."""
        execution = self._serving()
        stamp = self._stamping.next()
        self._order(execution, Poison(stamp, *found.request, found.expiration_s, found.attempts, found.call))
        self._observers.poisoned(found)

    def turn(self) -> None:
        """Finish everything that arrived together: send it, and do what is due."""
        # First, because callers wait for what was ordered for them, and not for the rest.
        self.sequence.flush()
        serving = self._serving_state
        if serving.is_primary and not serving.takes_calls:
            self._maybe_take_calls()
            serving.maybe_pass_on()
            if self._absence.is_absent:
                self._serving_state.request_handover(self._absence.why)
        if serving.takes_calls and self.sequence.is_serving:
            try:  # in every turn, and `suppress` is three calls of Python code
                self._do_due()
                execution = self.execution
                if execution is not None and execution.timers and execution.line.slow is None:
                    self._fire_timers(execution)
                    execution = self.execution
            except (Rejected, Unavailable):
                execution = self.execution  # what could not be ordered now is still due next time
            self._call_out(execution)
        if self._checkpointing.failures.why:
            self._serving_state.maybe_make_room(self.sequence, self._config, self._checkpointing.why_none)
        if self.annexes.are_there:
            self.annexes.turn()
        # Also if calls are no longer taken: what was ordered must be sent, or it never commits.
        self.sequence.flush()
        self._stamping.end_turn()
        if self._asking.put_off:
            self._asking.refuse_overdue()
        if self._queries.ran:
            self._queries.release(self.sequence)

    def next_wake_ns(self) -> int | None:
        """When, by the wall clock, :meth:`turn` must be called even if nothing arrives."""
        execution = self.execution if self._serving_state.takes_calls else None
        if execution is not None and execution.line.slow is not None:
            execution = None  # a slow method has it, and the timers and the outbox are that method's as well
        gated = execution if self.definition.interface.is_interleaved else None
        gate_ns = self._gate.next_ns(gated.line) if gated is not None else None
        send_ns = None
        if execution is not None and execution.sends.issued > 0:
            send_ns = self._sending.next_ns(execution.sends, has_room=self._has_room_in_log)
        annex_ns = self.annexes.next_ns() if self.annexes.are_there else None
        query_ns = self._asking.next_ns if self._asking.put_off else None
        due = (self._next_due_ns(execution), query_ns, gate_ns, send_ns, annex_ns)
        if due == (None, None, None, None, None):
            return None
        wakes = [at for at in due if at is not None]
        # What is due and was not done in this turn cannot be done yet.
        ahead_ns = min(wakes) - self._ports.clock.now()
        return self._ports.clock.wall() + (ahead_ns if ahead_ns > 0 else OVERDUE_NS)

    def _next_due_ns(self, execution: Execution | None) -> int | None:
        """When, by the clock, the next attempt to make the object or the next timer is due."""
        serving = self._serving_state
        if serving.is_primary and not serving.takes_calls:
            pause_ns = self._config.object_retry_ns if self._absence.is_absent else serving.look_again_ns
            return self._ports.clock.now() + pause_ns
        due_ns = execution.timers.next_due_ns() if execution is not None else None
        if due_ns is None:
            return None
        # A timer that is due and still set has been ordered, and its commit causes a turn; or it could not.
        ahead_ns = due_ns - self._stamping.now_ns()
        return self._ports.clock.now() + (ahead_ns if ahead_ns > 0 else OVERDUE_NS)

    # --- state

    def capture(self, at_least: Position = ORIGIN.position) -> Kept | None:
        """A committed state for a learner. If the object is ahead of what is committed, is large, or a method
        waits, an older state, to which the log still reaches back. A member without its object gets only a
        state at *at_least* or later, of an object that answers (E8); if there is none, one is requested."""
        is_failing = bool(self._checkpointing.failures.why) and self._checkpointing.is_pausing
        if at_least and (is_failing or not self._serving_state.takes_calls):
            return None
        now = self._checkpointing.final_state(self.execution, self.sequence.committed)
        if now is not None and now.position >= at_least:
            return now
        kept = self._ports.checkpoint()
        if (kept.position if kept is not None else 0) < at_least or not self._ports.has_files(kept):
            self._checkpointing.make_due()
            self._ports.wake()
            return None
        return kept if kept is not None else Captured(Position(0), Execution(self.definition.apart()).save())

    def settle(self) -> bool:
        """Before an orderly stop: make a checkpoint of what this member has executed, so that the next
        process need not replay it (E7). Returns whether there is nothing more to wait for."""
        execution = self.execution
        if execution is None:
            return True
        if self._serving_state.takes_calls and not execution.is_at_rest:
            self._want_rest(execution)
        return self._checkpointing.settle(execution, self.sequence.committed)

    def _want_rest(self, execution: Execution) -> None:
        """Let interleaved operations wait until the object was at rest: it might never be otherwise."""
        execution.line.want_rest()
        self._ports.wake()

    # --- shared helpers

    def keeps(self, kept: Kept) -> None:
        """Record a checkpoint of the host that this member did not make."""
        self._checkpointing.kept_elsewhere(kept.position, kept.size)

    def _ask(self, execution: Execution, token: Token, client: ClientId, queries: list[Call]) -> None:
        if execution.position < self.sequence.committed:
            raise Unavailable(f"group {self.definition.group} has not executed all that is committed")

        def is_served() -> bool:
            return self.execution is execution and self._serving_state.takes_calls

        self._asking.newest(execution, token, client, queries, is_served)

    def _poison_calls(self, execution: Execution, client: ClientId, calls: list[Call]) -> None:
        """Order that operations of a frame which crashed too many processes never run (E4)."""
        for found in among_calls(self._ports.attempts, client, calls):
            if execution.is_new(found.request, found.expiration_s):
                self.poison(found)

    def _call_out(self, execution: Execution | None) -> None:
        if execution is None or execution.position < self._calling_out.term_began_at:
            return  # what stands in the log and is not executed yet may be the outcome of a call
        if not execution.line.is_at_rest:
            for outgoing in self._calling_out.to_send(execution.line, self.sequence.committed):
                self._ports.call_out(self._observers.calls_out(outgoing))
        if execution.sends.issued and self._has_room_in_log and not execution.line.slow:
            # Without room their ends are executed, not ordered: the object is made anew and sends again.
            committed = self.sequence.committed
            for outgoing in self._sending.to_send(execution.sends, execution.position, committed):
                self._ports.call_out(outgoing)

    def _fire_timers(self, execution: Execution) -> None:
        for timer in execution.timers.due(self._stamping.now_ns(), self._config.timers_per_turn_max):
            number, due_ns = timer.number, timer.due_ns
            if not self._is_fired(number, due_ns):
                for found in among_timers(self._ports.attempts, [timer]):
                    self.poison(found)
                self._order(execution, TimerFired(self._stamping.next(least_ns=due_ns), number, due_ns))
