"""What passive and active members have in common: taking calls, answering after commit, capturing.

A replica is the application of a sequence (:class:`holdfast.sequence.ports.Application`). The host hands it
calls and calls :meth:`Replica.turn` once after whatever came in together. Nothing is submitted from within
an event of the sequence; what such an event makes necessary is done in the next turn.
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
from holdfast.model.errors import Rejected, Unavailable
from holdfast.model.ids import MILLISECOND, ClientId, Epoch, Position
from holdfast.model.outcome import Unknown, decode_outcome
from holdfast.sequence.ports import Captured, Kept
from holdfast.sequence.retention import NEVER
from holdfast.sequence.role import FAR, NEAR, Fitness
from holdfast.storage.record import ORIGIN
from holdfast.styles.admission import calls_in, check_length, check_room, in_circle, nested_log_bytes_max
from holdfast.styles.outgoing import end_of
from holdfast.styles.poison import Poisonous, among_calls, among_timers
from holdfast.styles.ports import Token
from holdfast.styles.replica_base import ReplicaBase
from holdfast.styles.stamping import newest_stamp

OVERDUE_NS: Final = 20 * MILLISECOND
"""How often a timer that is due and cannot be executed yet is looked at."""


class Replica(ReplicaBase):
    """One member's object and the calls that wait at it."""

    # --- the sequence's events that both take alike

    def on_serving(self, epoch: Epoch) -> None:
        self._office.begin()
        self._maybe_take_up(may_order=False)

    def on_forced(self) -> None:
        """The group goes on from here, with the object that this member's log gives (V4)."""
        self.readiness.force(self.sequence.tail)

    def _maybe_take_up(self, *, may_order: bool = True) -> None:
        """Take calls as soon as the object is ready."""
        if self._absence.is_absent:
            return
        execution = self._office.attempt(partial(self._resumed, may_order=may_order))
        if execution is not None:
            self._take_up(execution)

    def _resumed(self, *, may_order: bool) -> Execution | None:
        """The object, to be served from here on. It follows what is committed: so everything must be, also
        what this primary ordered for an object that it has given up since."""
        if self.sequence.committed != self.sequence.tail:
            return None
        if not self._code_change.is_way_free(may_order=may_order):
            return None
        execution = self._ready()
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
        """Have the class as it is here go on from what other code has left (E7)."""
        if self._code_change.upgrade(execution, self._order_upgrade) > 1:
            # Nobody shall need the old code any more who begins after this.
            self._checkpointing.grew(self._config.checkpoint_bytes)

    def reconsider(self) -> None:
        """Who has which code, or what is wished, is another than before."""
        if self._office.awaits_object or self._succession.is_met:
            self._office.reconsider()
            self._ports.again()

    def _take_up(self, execution: Execution) -> None:
        self._office.take_up()
        self._answering.take_up()
        self._checkpointing.trust()
        self._calling_out.take_up(self.sequence.committed)
        self._sending.take_up(execution.sends)
        self._ports.trace.note("taken_up", group=self.definition.group, position=execution.position)

    def on_following(self) -> None:
        self._office.end()
        self._code_change.end_reign()
        self._withdraw()

    def _withdraw(self) -> None:
        """What this member captured or has ordered may never be final, and nobody who waits here is told."""
        self._checkpointing.distrust()
        self._checkpointing.forget()
        self._answering.forsake_all()

    def _committed(self, up_to: Position) -> None:
        """Tell what may now be told, and keep the state that is now final."""
        self._answering.on_committed(up_to)
        self._checkpointing.on_committed(up_to)

    # --- what the host hands in

    def on_calls(self, token: Token, sent: Sent) -> None:
        """Calls of one client frame, operations and queries; answers follow when they are final.

        Raises ``Unavailable``, ``Overloaded`` or ``InvalidRequest`` when nothing was done or what was done is
        known when the frame comes again, ``BadCall`` for what is no frame.
        """
        group = self.definition.group
        if self._succession.waits is None or group not in sent.chain:
            self._serving()  # else a method of old code waits for this, and nothing is served before it ends
        calls = calls_in(sent)
        if group in sent.chain and not self.definition.interface.is_interleaved:
            # However full the line is: it only moves on when this is answered.
            outcomes = [in_circle(group, sent.chain)] * len(calls)
            self._ports.answer(token, [each.number for each in calls], outcomes)
            return
        execution = self._serving()
        in_line, is_nested = execution.line.waiting, bool(sent.chain)
        why_none = self._checkpointing.why_none
        check_room(group, in_line, self._log_bytes(), self._config, is_nested=is_nested, why_none=why_none)
        queries, operations = self._asking.split(calls)
        if sent.is_ordered and operations:
            queries, operations = [], calls  # they shall see what those before them have done
        check_length(sent, operations)
        if queries:
            self._ask(execution, token, sent.client, queries)
        if self._ports.attempts.has_suspects:
            self._poison_calls(execution, sent.client, operations)
        if len(operations) < len(calls):
            sent = sent.of(operations)
        fresh = self._repetitions.sift(execution, token, sent.client, operations) if operations else []
        if fresh:
            # What was ordered of a frame that could not be ordered whole is not ordered again: so each time
            # that the frame comes there is less of it.
            sent = sent if len(fresh) == len(operations) else sent.of(fresh)
            self._order_calls(execution, token, sent, fresh)

    def on_stale_queries(self, token: Token, client: ClientId, calls: list[Call]) -> None:
        """Answer from what this member holds, as soon as that is committed: an old state will do, one that
        never was will not (S4). Raises ``Unavailable``, ``BadCall``."""
        self._check_there()
        execution = self.execution
        outcomes = self._asking.each_older(execution, client, calls)
        saw = execution.position if execution is not None else Position(0)
        self._answering.tell(saw, token, [each.number for each in calls], outcomes)

    def on_stale_query(
        self, request: Request, method: str, arguments: msgspec.Raw, carried: bytes = b""
    ) -> bytes:
        """Answer at once from what this member holds, primary or not. Raises ``Unavailable``."""
        self._check_there()
        return self._asking.older(self.execution, request, method, arguments, carried)

    @property
    def reached(self) -> Position:
        """What the state that stale reads are answered from stands for; 0 while there is none."""
        execution = self.execution
        return execution.position if execution is not None and execution.may_be_read else Position(0)

    def keep_up(self) -> None:
        """Somebody reads here: bring the object up to what is committed, if this style does that. Raises
        ``Unavailable`` where a backup holds no object."""
        return

    def why_not_alive(self) -> str:
        """By the object's own word (FTC-247); empty when it is alive. One that is not here, or waits for
        another group, cannot be asked and is not hung: the machinery answers for it."""
        execution = self.execution
        return execution.why_not_alive() if execution is not None and execution.may_be_asked else ""

    def make_anew(self, why: str) -> None:
        """The object is faulty: give it up, and make another of what is committed. A primary lets another
        member serve first (K5). What it answered stands, though it may come out otherwise now: it was this
        object that was not right, by its own word. Not within an event of the sequence."""
        if self._office.is_taken_up:
            self.readiness.forgiven = self.sequence.tail
        self._renounce()
        self._office.failed_in(why)
        self._ports.again()

    def fitness(self) -> Fitness:
        """Whether it could lead, and if not, why (O3, E8)."""
        found = self._absence.now
        if found is None and self.execution is None and (why := self._why_unable()):
            found = self.readiness.unable(why)
        if found is None:
            return NEAR if self.is_near() else FAR
        is_log_long = 2 * self._log_bytes() >= self._config.long_log_bytes
        return self.readiness.without(found, is_log_long=is_log_long)

    def _why_unable(self) -> str:
        return self._succession.why if self._succession.is_met else self._office.why_unable

    def on_outcome_asked(
        self, token: Token, client: ClientId, number: int, expiration_s: int, *, withdraws: bool = False
    ) -> None:
        """Somebody wants to know what became of a request, and it shall not run any more (X3); *withdraws*:
        not even if it was ordered and stands in line."""
        execution = self._serving()
        if withdraws:
            self.withdraw(Request(client, number), REFUSALS[NEVER])
        record = Settled(self._stamping.next(), client, number, expiration_s)

        def tell(effects: Effects, position: Position) -> None:
            self._repetitions.settled(effects, record, token, position)

        self._order(execution, record, (token, tell))

    def on_nested_outcome(self, caller: Request, call: int, outcome: bytes) -> None:
        """The answer to a call that went out through ``call_out``."""
        if not self._calling_out.is_awaited(caller, call):
            return
        if self._succession.waits is not None:
            may_order = self._office.awaits_object and self.sequence.is_serving
            self._code_change.answer(caller, call, outcome, self._submit if may_order else None)
            return
        self._audience.came_back(caller, outcome)
        outcome = fitted(outcome)  # a query may return more than a record takes
        try:
            self._order(self._serving(), NestedReply(self._stamping.next(), *caller, call, outcome))
            self._calling_out.came_back(caller, call)
        except (Rejected, Unavailable):
            self._calling_out.send_again(caller, call)  # or another primary does

    def on_send_outcome(self, number: int, outcome: bytes) -> None:
        """The answer to a call that was sent from the outbox through ``call_out``."""
        execution = self.execution
        send = execution.sends.get(number) if execution is not None else None
        if send is None or not self._sending.is_awaited(number):
            return
        found = decode_outcome(outcome)
        end = end_of(found, is_expired=send.expires_ns <= self.time_ns())
        if end is None:
            self._sending.send_again(number, is_soon=False, is_in_doubt=isinstance(found, Unknown))
            return
        try:
            self._order(self._serving(), SendEnded(self._stamping.next(), number, *end))
        except (Rejected, Unavailable):
            self._sending.send_again(number, is_soon=True, is_in_doubt=True)  # or another primary does
            return
        if end[0]:
            said = f"{send.group}.{send.method}, sent by {send.caller}, came to nothing: {end[0]}: {end[1]}"
            self._ports.fault("send_failed", said)

    def withdraw(self, request: Request, outcome: bytes) -> None:
        """Have a call that stands in line end with *outcome*, unless it begins before that is ordered (E10).
        Raises ``Unavailable``, ``Overloaded``."""
        execution = self._serving()
        if execution.line.is_in_line(request):
            self._order(execution, Withdrawn(self._stamping.next(), *request, outcome))

    def poison(self, found: Poisonous) -> None:
        """Give up a call that ended too many processes (E4)."""
        execution = self._serving()
        stamp = self._stamping.next()
        self._order(execution, Poison(stamp, *found.request, found.expiration_s, found.attempts, found.call))
        self._audience.poisoned(found)

    def turn(self) -> None:
        """The end of whatever came in together: send it off, and do what has fallen due."""
        # First: callers wait for what they had ordered, and not for what follows.
        self.sequence.flush()
        if self._office.awaits_object:
            self._maybe_take_up()
            self._office.maybe_pass_on()
            if self._absence.is_absent:
                self._office.excuse(self._absence.why)
        if self._office.is_taken_up and self.sequence.is_serving:
            with suppress(Rejected, Unavailable):  # what could not be ordered now is still due next time
                self._do_due()
                self._fire_timers()
            self._call_out()
        # Also when calls are no longer taken: what was ordered must leave, or it never commits.
        self.sequence.flush()
        self._stamping.end_turn()
        self._asking.refuse_overdue()
        self._queries.release(self.sequence)

    def next_wake_ns(self) -> int | None:
        """When, by the wall clock, :meth:`turn` must be called even if nothing comes in."""
        execution = self.execution if self._office.is_taken_up else None
        gate_ns = self._gate.next_ns(execution.line) if execution is not None else None
        send_ns = self._sending.next_ns(execution.sends) if execution is not None else None
        due = (self._next_due_ns(), self._asking.next_ns, gate_ns, send_ns)
        wakes = [at for at in due if at is not None]
        if not wakes:
            return None
        # What is due and was not done in this turn cannot be done yet.
        ahead_ns = min(wakes) - self._ports.clock.now()
        return self._ports.clock.wall() + (ahead_ns if ahead_ns > 0 else OVERDUE_NS)

    def _next_due_ns(self) -> int | None:
        """When, by the clock, the object is to be looked for, or a timer of its own falls due."""
        office, execution = self._office, self.execution
        if office.awaits_object:
            pause_ns = self._config.object_retry_ns if self._absence.is_absent else office.look_again_ns
            return self._ports.clock.now() + pause_ns
        due_ns = execution.timers.next_due_ns() if execution is not None and office.is_taken_up else None
        if due_ns is None:
            return None
        # One that is due and still there has been ordered, and its commit brings a turn; or it could not be.
        ahead_ns = due_ns - self._stamping.now_ns()
        return self._ports.clock.now() + (ahead_ns if ahead_ns > 0 else OVERDUE_NS)

    # --- state

    def capture(self, at_least: Position = ORIGIN.position) -> Kept | None:
        """A state that is final, for a learner. When the object is ahead of that, or a method waits, or it is
        large, an older one: the log still reaches back to it. For a member without its object only one that
        stands for *at_least* so much, of an object that answers (E8); if there is none, there will be."""
        if at_least and not self._office.is_taken_up:
            return None
        now = self._checkpointing.final_state(self.execution, self.sequence.committed)
        if now is not None and now.position >= at_least:
            return now
        kept = self._ports.checkpoint()
        if at_least and (kept is None or kept.position < at_least):
            self._checkpointing.hasten()
            self._ports.wake()
            return None
        return kept if kept is not None else Captured(Position(0), Execution(self.definition.apart()).save())

    @property
    def why_no_checkpoint(self) -> str:
        """Why this member's last checkpoint failed (E9); empty when it did not."""
        return self._checkpointing.why_none

    def is_unreadable(self, position: Position) -> bool:
        """Whether that is known of the state as of there, or of a later one."""
        return self._checkpointing.is_unreadable(position)

    def settle(self) -> bool:
        """Before an orderly stop: have a checkpoint of what this member has executed, so that whoever starts
        next need not replay it (E7); whether there is nothing more to wait for."""
        execution = self.execution
        if execution is None:
            return True
        if self._office.is_taken_up and not execution.is_at_rest:
            self._want_rest(execution)
        return self._checkpointing.settle(execution, self.sequence.committed)

    def _want_rest(self, execution: Execution) -> None:
        """Operations that are interleaved might never leave the object at rest: let none begin until then."""
        execution.line.want_rest()
        self._ports.wake()

    def is_near(self) -> bool:
        """Whether it could serve almost at once: it has its object, or one that is soon loaded."""
        return self.execution is not None or not self._checkpointing.is_kept_large

    # --- in common

    def keeps(self, kept: Kept) -> None:
        """The host has a checkpoint that nobody here made."""
        self._checkpointing.kept_elsewhere(kept.position, kept.size)

    @property
    def has_room(self) -> bool:
        """Whether the log takes calls of other groups (E10)."""
        return self._log_bytes() <= nested_log_bytes_max(self._config)

    def _ask(self, execution: Execution, token: Token, client: ClientId, queries: list[Call]) -> None:
        if execution.position < self.sequence.committed:
            raise Unavailable(f"group {self.definition.group} has not executed all that is committed")

        def is_served() -> bool:
            return self.execution is execution and self._office.is_taken_up

        self._asking.newest(execution, token, client, queries, is_served)

    def _poison_calls(self, execution: Execution, client: ClientId, calls: list[Call]) -> None:
        """Order that those of a frame's operations never run which ended too many processes (E4)."""
        for found in among_calls(self._ports.attempts, client, calls):
            if execution.is_new(found.request, found.expiration_s):
                self.poison(found)

    def _call_out(self) -> None:
        execution = self.execution
        if execution is not None and not execution.is_at_rest:
            for outgoing in self._calling_out.to_send(execution.line, self.sequence.committed):
                self._ports.call_out(self._audience.calls_out(outgoing))
        if execution is not None:
            reached, committed = execution.position, self.sequence.committed
            for outgoing in self._sending.to_send(execution.sends, reached, committed):
                self._ports.call_out(outgoing)

    def _fire_timers(self) -> None:
        execution = self.execution
        if execution is None or not execution.timers:
            return
        for timer in execution.timers.due(self._stamping.now_ns(), self._config.timers_per_turn_max):
            if not self._is_fired(timer.number, timer.due_ns):
                for found in among_timers(self._ports.attempts, [timer]):
                    self.poison(found)
                self._order(execution, TimerFired(self._stamping.next(), timer.number, timer.due_ns))
