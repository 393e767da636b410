"""What passive and active members have in common: taking calls, answering after commit, capturing.

A replica is the application of a sequence (:class:`holdfast.sequence.ports.Application`). The host hands it
calls and calls :meth:`Replica.turn` once after whatever came in together. Nothing is submitted from within
an event of the sequence; what such an event makes necessary is done in the next turn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec

from holdfast.model.calls import CHAIN_CHARACTERS_MAX, Request
from holdfast.model.csn import Csn
from holdfast.model.errors import (
    DISK_ERRORS,
    BrokenInvariant,
    InvalidRequest,
    Overloaded,
    Rejected,
    Unavailable,
)
from holdfast.model.ids import ClientId, Epoch, Position
from holdfast.model.outcome import Refused, encode_outcome
from holdfast.model.units import MILLISECOND
from holdfast.net.frame import UNDECODABLE
from holdfast.sequence.ports import Captured, Kept, chunks_of
from holdfast.styles.asking import Asking
from holdfast.styles.audience import Audience
from holdfast.styles.calling_out import CallingOut
from holdfast.styles.checkpointing import Checkpointing
from holdfast.styles.config import StyleConfig
from holdfast.styles.context import Scope
from holdfast.styles.definition import Definition
from holdfast.styles.effects import Effects, Outgoing
from holdfast.styles.execution import Execution
from holdfast.styles.incapacity import Incapacity
from holdfast.styles.interface import BadCall
from holdfast.styles.operation import (
    Call,
    NestedReply,
    Poison,
    Record,
    Reply,
    Sent,
    Settled,
    TimerFired,
    decode_record,
    decode_sent_calls,
    encode_calls,
    encode_record,
    stamp_of,
)
from holdfast.styles.poison import Poisonous, among_calls, among_timers
from holdfast.styles.ports import Sequence, StylePorts, Token
from holdfast.styles.queries import Queries
from holdfast.styles.repetition import Repetitions
from holdfast.styles.stamping import Stamping
from holdfast.styles.stepping import ORDERED_BYTES_MAX, fitted
from holdfast.styles.waiting import Waiting

CALLS_PER_RECORD_MAX: Final = 4096
"""So many calls share a record, and the turn that executes it."""

OVERDUE_NS: Final = 20 * MILLISECOND
"""How often a timer that is due and cannot be executed yet is looked at, and whether an object that was given
up can be made again."""

Then = Callable[[Effects, Position], None]
"""Takes what a record brought about, and the position at which that is final."""


class Replica(ABC):
    """One member's object and the calls that wait at it."""

    def __init__(self, definition: Definition, ports: StylePorts, config: StyleConfig) -> None:
        self.definition = replace(definition, attempts=ports.attempts, on_raised=self._on_raised)
        self._audience = Audience(definition.group, ports, config.slow_ns)
        self._ports = ports
        self._config = config
        self._sequence: Sequence | None = None
        self._is_reigning = False
        """The sequence is served here."""
        self._is_primary = False
        """And the object is ready: calls are taken."""
        self._is_unheard = False
        """But none has been answered yet."""
        self._incapacity = Incapacity(ports.clock, config)
        self._stamping = Stamping(ports.clock, ports.stamp, ports.time)
        self._waiting = Waiting()
        self._repetitions = Repetitions(self._waiting, self._tell)
        self._queries = Queries(ports)
        self._asking = Asking(self.definition, ports, self._audience, self._queries)
        self._checkpointing = Checkpointing(ports, config, self._log_bytes)
        self._calling_out = CallingOut()

    def bind(self, sequence: Sequence) -> None:
        """The member this replica stands on; before any event."""
        self._sequence = sequence

    def tune(self, config: StyleConfig) -> None:
        """Execute as *config* says from now on, as far as that can change: when states are captured."""
        self._config = config
        self._checkpointing.tune(config)

    @property
    def sequence(self) -> Sequence:
        if self._sequence is None:
            raise BrokenInvariant("a replica is bound before it is used")
        return self._sequence

    @property
    def is_ready(self) -> bool:
        """The object has all that is committed, and takes calls."""
        return self._is_primary

    @property
    def awaits_turn(self) -> bool:
        """Whether a commit has brought on something that only a turn does."""
        return True

    @property
    @abstractmethod
    def execution(self) -> Execution | None:
        """The object, if this member holds one now."""

    def time_ns(self) -> int:
        """The group's time: that of a stamp given now; a backup knows only what it is at least (X4)."""
        if self._is_primary:
            return self._stamping.now_ns()
        execution = self.execution
        return max(self._ports.time(), execution.time_ns if execution is not None else 0)

    # --- the sequence's events that both take alike

    def on_serving(self, epoch: Epoch) -> None:
        self._is_reigning = True
        self._incapacity.begin_reign()
        self._maybe_take_up()

    def _maybe_take_up(self) -> None:
        """Take calls as soon as the object is ready. It follows what is committed: so everything must be,
        also what this primary ordered for an object that it has given up since."""
        if self._incapacity.wait_ns:
            return
        try:
            if self.sequence.committed == self.sequence.tail:
                execution = self._ready()
                self._stamping.resume(*self._newest_stamp(execution))
                self._take_up(execution)
        except Overloaded:
            self._ports.wake()  # records could not be read just now, or there is more to load
        except DISK_ERRORS:
            raise
        except Exception as error:
            # The class's own code failed to make or restore the object (FTC-310): this member cannot serve.
            self._incapacity.failed(error)
            self._ports.fault("object_failed", self._incapacity.why)

    def _take_up(self, execution: Execution) -> None:
        self._is_primary = True
        self._is_unheard = True
        self._incapacity.end()
        self._calling_out.take_up(self.sequence.committed)
        self._ports.trace.note("taken_up", group=self.definition.group, position=execution.position)

    def _newest_stamp(self, execution: Execution) -> tuple[Csn, int]:
        """The CSN and the time of what was ordered last. An object that stands before a call which must not
        run (E4) does not know them yet: what comes after that call was stamped all the same."""
        csn, time_ns = execution.csn, execution.time_ns
        if execution.position < self.sequence.committed:
            for each in self.sequence.read(Position(execution.position + 1), self.sequence.committed):
                stamp = stamp_of(decode_record(each.body))
                if stamp is not None:
                    csn, time_ns = max(csn, stamp.csn), max(time_ns, stamp.time_ns)
        return csn, time_ns

    def on_following(self) -> None:
        self._is_reigning = self._is_primary = False
        self._checkpointing.forget()
        self._forsake_all()

    def _forsake_all(self) -> None:
        """Nobody who waits here is answered by this member."""
        for token in (*self._waiting.take_tokens(), *self._queries.take_tokens()):
            self._ports.forsake(token)
        self._audience.forsake()

    def _ended(self, reply: Reply, position: Position) -> None:
        """A call that had to wait has ended; that is final with *position*."""
        self._waiting.ended(reply, position)
        self._audience.ended(reply)

    def _committed(self, up_to: Position) -> None:
        """Tell what may now be told, and keep the state that is now final."""
        for answer in self._waiting.take(up_to):
            self._ports.answer(answer.token, answer.numbers, answer.outcomes)
            if self._is_unheard:
                self._is_unheard = False
                self._ports.trace.note("answered", group=self.definition.group)
        self._checkpointing.on_committed(up_to)

    # --- what the host hands in

    def on_calls(self, token: Token, sent: Sent) -> None:
        """Calls of one client frame, operations and queries; answers follow when they are final.

        Raises ``Unavailable``, ``Overloaded`` or ``InvalidRequest`` when nothing was done or what was done is
        known when the frame comes again, ``BadCall`` for what is no frame.
        """
        execution = self._serving()
        try:
            calls = decode_sent_calls(sent.calls)
        except UNDECODABLE as error:
            raise BadCall(f"the calls cannot be read: {error}") from None
        if not 1 <= len(calls) <= CALLS_PER_RECORD_MAX:
            raise BadCall(f"a frame has 1 to {CALLS_PER_RECORD_MAX} calls, not {len(calls)}")
        if sum(map(len, sent.chain), len(sent.chain)) > CHAIN_CHARACTERS_MAX:
            raise BadCall(f"the names of the {len(sent.chain)} groups that wait for the calls are too long")
        if self.definition.group in sent.chain:
            # The group waits for the end of this very chain: it would wait for ever (E3). However full the
            # line is: it only moves on when this is answered.
            text = " -> ".join((*sent.chain, self.definition.group))
            outcome = encode_outcome(Refused("call_cycle", f"the groups call each other in a circle: {text}"))
            self._ports.answer(token, [each.number for each in calls], [outcome] * len(calls))
            return
        if execution.line.waiting >= self._config.in_line_max:
            raise Overloaded(f"group {self.definition.group}: {execution.line.waiting} calls stand in line")
        if self._log_bytes() > self._config.log_bytes_max:
            raise Overloaded(f"group {self.definition.group}: its log waits for checkpoints")
        queries, operations = self._asking.split(calls)
        if sent.is_ordered and operations:
            queries, operations = [], calls  # they shall see what those before them have done
        if len(sent.calls) > ORDERED_BYTES_MAX:
            _check_length(operations)
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
        outcomes = [self._audience.asked(self._ask_stale, each, client) for each in calls]
        execution = self.execution
        saw = execution.position if execution is not None else Position(0)
        self._tell(saw, token, [each.number for each in calls], outcomes)

    def on_stale_query(
        self, request: Request, method: str, arguments: msgspec.Raw, carried: bytes = b""
    ) -> bytes:
        """Answer at once from what this member holds, primary or not. Raises ``Unavailable``."""
        return self._asking.older(self.execution, request, method, arguments, carried)

    def _ask_stale(self, each: Call, client: ClientId) -> bytes:
        request = Request(client, each.number)
        return self.on_stale_query(request, each.method, each.arguments, each.traceparent)

    @property
    def reached(self) -> Position:
        """What the state that stale reads are answered from stands for; 0 while there is none."""
        execution = self.execution
        return execution.position if execution is not None and execution.is_at_rest else Position(0)

    def keep_up(self) -> None:
        """Somebody reads here: bring the object up to what is committed, if this style does that. Raises
        ``Unavailable`` where a backup holds no object."""
        return

    def why_not_alive(self) -> str:
        """By the object's own word (FTC-247); empty when it is alive. One that is not here, or waits for
        another group, cannot be asked and is not hung: the machinery answers for it."""
        execution = self.execution
        return execution.why_not_alive() if execution is not None and execution.is_at_rest else ""

    def make_anew(self, why: str) -> None:
        """The object is faulty: give it up, and make another of what is committed. A primary lets another
        member serve first (K5). Not within an event of the sequence."""
        self._renounce()
        if self._is_reigning:
            self._incapacity.gave_up(why)
        self._ports.again()

    def on_outcome_asked(self, token: Token, client: ClientId, number: int, expiration_s: int) -> None:
        """Somebody wants to know what became of a request, and it shall not run any more (X3)."""
        execution = self._serving()
        record = Settled(self._stamping.next(), client, number, expiration_s)

        def tell(effects: Effects, position: Position) -> None:
            self._repetitions.settled(effects, record, token, position)

        self._order(execution, record, (token, tell))

    def on_nested_outcome(self, caller: Request, call: int, outcome: bytes) -> None:
        """The answer to a call that went out through ``call_out``."""
        if not self._calling_out.is_awaited(caller, call):
            return
        self._audience.came_back(outcome)
        outcome = fitted(outcome)  # a query may return more than a record takes
        try:
            self._order(self._serving(), NestedReply(self._stamping.next(), *caller, call, outcome))
        except (Rejected, Unavailable):
            self._calling_out.send_again()  # or another primary does

    def poison(self, found: Poisonous) -> None:
        """Give up a call that ended too many processes (E4)."""
        execution = self._serving()
        stamp = self._stamping.next()
        self._order(execution, Poison(stamp, *found.request, found.expiration_s, found.attempts, found.call))
        self._ports.trace.note(
            "poisoned",
            group=self.definition.group,
            request=str(found.request),
            call=found.call,
            attempts=found.attempts,
        )
        self._audience.given_up(found)
        self._ports.fault("poisoned", found.fault)

    def turn(self) -> None:
        """The end of whatever came in together: send it off, and do what has fallen due."""
        # First: callers wait for what they had ordered, and not for what follows.
        self.sequence.flush()
        if self._is_reigning and not self._is_primary:
            self._maybe_take_up()
            if self._incapacity.take_others_turn():
                self._ports.pass_on(self._incapacity.why)
        if self._is_primary and self.sequence.is_serving:
            with suppress(Rejected, Unavailable):  # what could not be ordered now is still due next time
                self._do_due()
                self._fire_timers()
            self._call_out()
        # Also when calls are no longer taken: what was ordered must leave, or it never commits.
        self.sequence.flush()
        self._stamping.end_turn()
        self._queries.release(self.sequence)

    def next_wake_ns(self) -> int | None:
        """When, by the wall clock, :meth:`turn` must be called even if nothing comes in."""
        execution = self.execution
        if self._is_reigning and not self._is_primary:
            # Also one that gave its object up because something was not ordered: timers are due without any
            # call, and nothing else may come in.
            return self._ports.clock.wall() + (self._incapacity.wait_ns or OVERDUE_NS)
        due_ns = execution.timers.next_due_ns() if execution is not None and self._is_primary else None
        if due_ns is None:
            return None
        # One that is due and still there has been ordered, and its commit brings a turn; or it could not be.
        ahead_ns = due_ns - self._stamping.now_ns()
        return self._ports.clock.wall() + (ahead_ns if ahead_ns > 0 else OVERDUE_NS)

    # --- state

    def capture(self) -> Kept:
        """A state that is final, for a learner. When the object is ahead of that, or a method waits, or it is
        large, an older one: the log still reaches back to it."""
        execution = self.execution
        if (
            execution is not None
            and execution.is_at_rest
            and execution.position <= self.sequence.committed
            and not self._checkpointing.is_large(execution)
        ):
            state = self._checkpointing.ask(execution.save)
            if state is not None:
                return Captured(execution.position, state)
        kept = self._ports.checkpoint()
        if kept is not None:
            return kept
        return Captured(Position(0), Execution(self.definition.apart()).save())

    def is_near(self) -> bool:
        """Whether it could serve almost at once: it has its object, or one that is soon loaded."""
        return self.execution is not None or not self._checkpointing.is_kept_large

    def _load(self) -> Iterator[Execution | None]:
        """The object as of the newest checkpoint: None after each bit of work, and at last the object. Raises
        what ``set_state`` raises."""
        kept = self._ports.checkpoint()
        if kept is None:
            yield Execution(self.definition)
            return
        for execution in Execution.loading(self.definition, chunks_of(kept)):
            if execution is not None:
                execution.go_on()
            yield execution

    # --- what the styles do differently

    @abstractmethod
    def _ready(self) -> Execution:
        """The object with everything committed applied to it."""

    @abstractmethod
    def _renounce(self) -> None:
        """Give up the object; calls are taken again when there is another."""

    @abstractmethod
    def _order_calls(self, execution: Execution, token: Token, sent: Sent, calls: list[Call]) -> None: ...

    @abstractmethod
    def _order(
        self,
        execution: Execution,
        record: Record,
        waits: tuple[Token, Then] | None = None,
    ) -> None:
        """Order a record of one position; who *waits* gets its effects when it has been executed."""

    @abstractmethod
    def _do_due(self) -> None:
        """What a serving primary does in each turn: checkpoints, and what else the style has to order."""

    @abstractmethod
    def _is_fired(self, timer: int, due_ns: int) -> bool:
        """Whether this firing was ordered already and only waits to be executed."""

    # --- in common

    def _log_bytes(self) -> int:
        return self.sequence.log_bytes

    def _serving(self) -> Execution:
        execution = self.execution
        if not self._is_primary or execution is None or not self.sequence.is_serving:
            why = f": {self._incapacity.why}" if self._is_reigning and self._incapacity.why else ""
            raise Unavailable(f"group {self.definition.group} is not served here{why}")
        return execution

    def _submit(self, record: Record, count: int = 1) -> Position:
        body = encode_record(record)
        self._checkpointing.grew(len(body))
        return self.sequence.submit(body, count)

    def _ask(self, execution: Execution, token: Token, client: ClientId, queries: list[Call]) -> None:
        if execution.position < self.sequence.committed:
            raise Unavailable(f"group {self.definition.group} has not executed all that is committed")

        def is_served() -> bool:
            return self.execution is execution and self._is_primary

        self._asking.newest(execution, token, client, queries, is_served)

    def _poison_calls(self, execution: Execution, client: ClientId, calls: list[Call]) -> None:
        """Order that those of a frame's operations never run which ended too many processes (E4)."""
        for found in among_calls(self._ports.attempts, client, calls):
            if execution.is_new(found.request, found.expiration_s):
                self.poison(found)

    def _tell(self, position: Position, token: Token, numbers: list[int], outcomes: list[bytes]) -> None:
        if position <= self.sequence.committed:
            self._ports.answer(token, numbers, outcomes)
        else:
            self._waiting.until(position, token, numbers, outcomes)

    def _on_raised(self, scope: Scope, error: BaseException) -> None:
        """Where it is executed for whoever called; replays and backups only find the same."""
        if self._is_primary:
            self._audience.raised(scope, error)

    def _call_out(self) -> None:
        execution = self.execution
        waits: Outgoing | None = execution.outgoing() if execution is not None else None
        if waits is None or waits.position > self.sequence.committed:
            return
        outgoing = self._calling_out.to_send(waits)
        if outgoing is not None:
            self._ports.call_out(self._audience.calls_out(outgoing))

    def _fire_timers(self) -> None:
        execution = self.execution
        if execution is None or not execution.timers:
            return
        for timer in execution.timers.due(self._stamping.now_ns(), self._config.timers_per_turn_max):
            if not self._is_fired(timer.number, timer.due_ns):
                for found in among_timers(self._ports.attempts, [timer]):
                    self.poison(found)
                self._order(execution, TimerFired(self._stamping.next(), timer.number, timer.due_ns))


def _check_length(operations: list[Call]) -> None:
    """Before anything is executed: what no record takes would cost the group its object. Raises
    ``InvalidRequest``."""
    length = len(encode_calls(operations))
    if length > ORDERED_BYTES_MAX:
        raise InvalidRequest(f"operations of {length} bytes; at most {ORDERED_BYTES_MAX}")
