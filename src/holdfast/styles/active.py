"""Active groups: every member executes every operation, in the same order (FTC-20, FTC-130).

A member executes a position once it knows that it is committed (E1), so nothing is ever undone, and a new
primary can answer at once. Only the primary answers and calls other groups, so each reply and each nested
call is sent once.

Diverged replicas are detected: at each checkpoint interval the primary orders a mark. Every member captures
its state and its digest there, or as soon as no method waits. The primary's digest follows as a record, and
the other members compare it with theirs (E1).
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from holdfast.execution.database import StorageLost
from holdfast.execution.definition import Definition, OtherCode
from holdfast.execution.effects import Effects
from holdfast.execution.execution import Execution
from holdfast.execution.records import (
    Annexed,
    Call,
    Calls,
    Digested,
    Marked,
    Poison,
    Ran,
    Record,
    Sent,
    TimerFired,
    Upgraded,
    decode_calls,
    decode_record,
    positions_of,
)
from holdfast.model.calls import Request
from holdfast.model.errors import DISK_ERRORS, Overloaded, Unavailable
from holdfast.model.ids import Position
from holdfast.model.outcome import error_in_words
from holdfast.sequence.ports import Kept
from holdfast.styles.code_change import loading
from holdfast.styles.config import StyleConfig
from holdfast.styles.divergence import Diverged
from holdfast.styles.poison import End, Poisonous, among_jobs, ends_among, is_end, let_line_run, set_going
from holdfast.styles.ports import StylePorts, Token
from holdfast.styles.replay import records_after
from holdfast.styles.replica import Replica
from holdfast.styles.replica_base import Then

PAUSING: Final = (Ran, Annexed)
"""The types of records at which a member may have to wait."""


class Active(Replica):
    """A member of an active group."""

    def __init__(self, definition: Definition, ports: StylePorts, config: StyleConfig) -> None:
        super().__init__(definition, ports, config)
        self._execution = Execution(self.definition)
        self._loading: Iterator[Execution | None] | None = None
        """The object that is being loaded from a checkpoint, to replace the current one."""
        self._failure: Exception | None = None
        """Why the loading failed."""
        self._backlog: Iterator[tuple[Position, Record]] | None = None
        """The records that were read and may be executed, worked off in slices of time; None if none are
        left."""
        self._paused: tuple[Position, Record] | None = None
        """The record at which the member waits, until an operation is computed or an annex is ready (W10)."""
        self._crashes_known = 0
        """How many crashes were known when the backlog was read."""
        self._then: dict[Position, tuple[Token, Then]] = {}
        """For each record this primary ordered, by its first position: who waits for it, and what to do with
        its effects."""
        self._fired: dict[tuple[int, int], None] = {}
        self._difference: Diverged | None = None
        """A divergence that was found while the object could not yet be given up."""
        self._digest_to_tell: Digested | None = None
        self._is_marking = False
        self._held: list[Poisonous] = []
        """The next calls that must not be executed: each must be given up (E4)."""
        self._given_up: dict[Request, None] = {}
        """The calls of *_held* whose end this primary has ordered."""

    @property
    def execution(self) -> Execution | None:
        is_there = self._loading is None and not self._code_replay.is_met and self._execution.is_whole
        return self._execution if is_there and not self._absence.is_absent else None

    # --- the sequence's events

    def _withdraw(self) -> None:
        super()._withdraw()
        for token, _ in self._then.values():
            self._ports.forsake(token)
        self._then.clear()
        self._fired.clear()
        self._given_up.clear()
        self._digest_to_tell = None
        self._is_marking = False
        if self._execution.position > self.sequence.committed or self._execution.line.is_ahead:
            self._begin_from_kept()  # an upgrade or a slow operation was executed but not ordered after all

    def on_committed(self, up_to: Position) -> None:
        if self._code_replay.is_met:
            self._ports.again()
            return
        if self._loading is not None or self._absence.is_absent:
            return  # later turns continue
        try:
            self._execute_up_to(up_to)
        except Overloaded:
            self._ports.wake()
        except OtherCode as error:
            self._code_change.meet(error)
            return
        self._committed(self._execution.position)

    def turn(self) -> None:
        self._maybe_differs()
        if not self._serving_state.is_primary:
            self._code_change.look_as_backup()
        self._go_on_loading()
        if self._execution.position < self.sequence.committed and not self._code_replay.is_met:
            self.on_committed(self.sequence.committed)
        super().turn()

    def install(self, kept: Kept) -> None:
        self._execution.discard()
        self._failure = self._backlog = self._paused = None
        self._code_replay.forget()
        self._loading = self._loaded(lambda: kept)
        self._checkpointing.installed(kept)
        self._comparing.took_state(kept.position)
        self._absence.took_state(kept.position)
        self._difference = None
        self._ports.wake()

    def _go_on_loading(self) -> None:
        """Load for one slice of time. If the object cannot be loaded, the member has none and does not serve;
        it reports a fault with the reason."""
        if self._loading is None or self._failure is not None or self._absence.is_absent:
            return
        until_ns = self._ports.clock.now() + self._config.slice_ns
        try:
            for found in self._loading:
                if found is not None:
                    self._execution, self._loading = found, None
                    return
                if self._ports.clock.now() >= until_ns:
                    self._ports.again()
                    return
        except DISK_ERRORS:
            raise
        except Unavailable:
            # A newer state has replaced the one that was being loaded.
            self._loading = self._loaded(self._ports.checkpoint)
            self._ports.again()
        except OtherCode as error:
            self._loading = None
            self._code_change.meet(error)
        except StorageLost as error:
            self.readiness.lose_files(str(error), self.sequence.committed)
        except Exception as error:
            self._failure = error
            self._ports.fault("object_failed", f"the state was not taken: {error_in_words(error)}")

    def _loaded(self, newest: Callable[[], Kept | None]) -> Iterator[Execution | None]:
        self._code_replay.check_kept(leads=self._serving_state.is_primary)
        yield from loading(self.definition, newest)

    def _give_up_object(self) -> None:
        """Give up the object like a follower: clients waiting here get no answer from this member. It
        executes what it ordered once it has an object again."""
        self._serving_state.stop_calls()
        self._withdraw()
        self._execution.discard()
        self._comparing.forget()
        self._failure = self._backlog = self._paused = self._difference = None
        self._loading = self._loaded(self._ports.checkpoint)

    def _begin_from_kept(self) -> None:
        self._execution.discard()
        self._comparing.forget()
        self._failure = self._backlog = self._paused = self._difference = None
        self._loading = self._loaded(self._ports.checkpoint)
        self._ports.wake()

    def _order_upgrade(self, execution: Execution, record: Upgraded) -> Position:
        """Execute the upgrade before ordering it, unlike every other record here: a class that cannot
        continue from the state must fail before the upgrade is final."""
        try:
            execution.apply(Position(execution.position + 1), record)
            return self._submit(record)
        except Exception:
            self._begin_from_kept()
            raise

    # --- executing

    def _ready(self) -> Execution | None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            # In case this member is asked once more.
            self._loading = self._loaded(self._ports.checkpoint)
            raise failure
        if self._loading is not None:
            raise Overloaded(f"group {self.definition.group} has more to load")
        try:
            is_done = self._execute_up_to(self.sequence.committed)
        except OtherCode as error:
            self._code_change.meet(error)
            raise Overloaded(str(error)) from None
        if not is_done and self._paused is not None:
            return None
        if not is_done:
            raise Overloaded(f"group {self.definition.group} has more to execute")
        if self._execution.behind is not None:
            raise StorageLost("the database of the object holds more than the group's log")
        return self._execution

    def _execute_up_to(self, up_to: Position) -> bool:
        """Execute what is committed. Returns whether everything that may be executed now has been.

        A primary that serves has only its own records left to execute and does it at once. Any other member
        may have a whole log to execute, so it continues in later turns after each slice of time: in a single
        event it would appear to hang.
        """
        until_ns = (
            None if self._serving_state.takes_calls else self._ports.clock.now() + self._config.slice_ns
        )
        if self._ports.attempts.has_suspects and self._ports.attempts.crashes != self._crashes_known:
            self._backlog = self._paused = None  # it was read before one of its calls was suspected
        try:
            if not self._go_on_executing(until_ns):
                return False
            if self._execution.position < up_to or self._execution.is_line_held:
                self._backlog = self._read_on(up_to)
            return self._go_on_executing(until_ns)
        except Diverged as found:
            self.readiness.differs(found)
            return False

    def _read_on(self, up_to: Position) -> Iterator[tuple[Position, Record]]:
        stored = records_after(self.sequence, self._execution.position, up_to)
        records = [(each.first, decode_record(each.body)) for each in stored]
        self._crashes_known = self._ports.attempts.crashes
        return iter(self._forewarned(records, up_to))

    def _go_on_executing(self, until_ns: int | None) -> bool:
        """Execute what was read. Returns whether nothing of it is left."""
        paused, self._paused = self._paused, None
        left = self._backlog or ()
        try:
            for first, record in left if paused is None else chain((paused,), left):
                if isinstance(record, PAUSING) and not self._may_execute(first, record):
                    self._paused = (first, record)
                    return False  # a turn follows when it is done, or the annex is ready (W10)
                self._execute(first, record)
                if until_ns is not None and self._ports.clock.now() >= until_ns:
                    self._ports.again()
                    return False
        except BaseException:
            self._backlog = None
            raise
        self._backlog = None
        return True

    def _may_execute(self, first: Position, record: Annexed | Ran) -> bool:
        """Whether a record need not wait: for a slow operation that is computed (E15), or for its annex."""
        if isinstance(record, Annexed):
            return self._execution.may_apply(record)
        slow = self._execution.line.slow
        return slow is None or self._slow_runs.is_done(slow, first)

    def _execute(self, first: Position, record: Record) -> None:
        execution = self._execution
        began_ns = self._ports.clock.now()
        is_awaited = first in self._then
        effects = execution.apply(first, record, self._observers.run if is_awaited else None)
        if is_awaited and isinstance(record, Calls):
            took_ns = self._ports.clock.now() - began_ns
            if self._observers.is_slow(took_ns):
                self._observers.took(took_ns, record.sent.client, decode_calls(record.sent.calls))
        if effects.divergence:
            self._found(Diverged(effects.divergence, execution.position))
        for reply in effects.later:
            self._answering.ended(reply, execution.position)
        waits = self._then.pop(first, None)
        if waits is not None:
            waits[1](effects, execution.position)
        match record:
            case TimerFired(timer=timer, due_ns=due_ns):
                self._fired.pop((timer, due_ns), None)
            case Marked():
                self._mark()
            case Digested():
                self._compare(record)
        if self._difference is not None:
            raise self._difference

    def _forewarned(
        self, records: list[tuple[Position, Record]], up_to: Position
    ) -> Iterable[tuple[Position, Record]]:
        """Return the records that may be executed, each to be taken once those before it have been: up to the
        first that runs a call which crashed too many processes. The record that gives up the call comes later
        in the sequence, and must be known before the call is reached (E4)."""
        self._held = []
        ends = ends_among(record for _, record in records)
        if not (ends or self._ports.attempts.has_suspects or self._execution.is_line_held):
            return records
        return self._one_by_one(records, ends, up_to)

    def _one_by_one(
        self, records: list[tuple[Position, Record]], ends: dict[Request, End], up_to: Position
    ) -> Iterator[tuple[Position, Record]]:
        execution = self._execution
        # If the end of a call is ordered but not yet committed, wait for it: the primary knows more than this
        # member.
        coming = self._ends_beyond(up_to) if self._ports.attempts.has_suspects else {}
        for first, record in records:
            if not self._run_line(ends, coming):
                return
            execution.is_line_held = execution.behind is not None
            requests, found = set_going(execution, self._ports.attempts, first, record)
            self._held = [each for each in found if each.request not in ends]
            if self._held or any(request in coming for request in requests):
                if isinstance(record, TimerFired):  # still due, but must not be ordered again
                    self._fired[record.timer, record.due_ns] = None
                return
            for request in requests:
                if request in ends and is_end(execution.line, record, request, ends[request]):
                    execution.line.poisoned[request] = ends[request].outcome
            yield first, record
            if isinstance(record, Poison):
                ends.pop(record.request, None)
        self._run_line(ends, coming)

    def _run_line(self, ends: dict[Request, End], coming: dict[Request, None]) -> bool:
        """Run what stands in line where the database's position was reached. Returns whether the next record
        may be executed."""
        execution = self._execution
        if execution.behind is None and execution.is_line_held:
            self._held = let_line_run(execution, self._ports.attempts, ends, coming)
            for reply in execution.go_on().later:
                self._answering.ended(reply, execution.position)
        return execution.behind is not None or not execution.is_line_held

    def _ends_beyond(self, position: Position) -> dict[Request, None]:
        """The calls whose end as poisoned is ordered beyond *position*."""
        if self.sequence.tail <= position:
            return {}
        beyond = [
            decode_record(each.body)
            for each in self.sequence.read(Position(position + 1), self.sequence.tail)
        ]
        return {each.request: None for each in beyond if isinstance(each, Poison)}

    def _order_calls(self, execution: Execution, token: Token, sent: Sent, calls: list[Call]) -> None:
        last = self._submit(Calls(self._stamping.next(len(calls)), sent), len(calls))

        def tell(effects: Effects, position: Position) -> None:
            if None not in effects.outcomes:
                outcomes = [outcome for outcome in effects.outcomes if outcome is not None]
                self._waiting.until(position, token, [each.number for each in calls], outcomes)
                return
            for each, outcome in zip(calls, effects.outcomes, strict=True):
                if outcome is None:
                    self._waiting.for_call(Request(sent.client, each.number), token)
                else:
                    self._waiting.until(position, token, [each.number], [outcome])

        self._then[Position(last - len(calls) + 1)] = (token, tell)

    def _order(self, execution: Execution, record: Record, waits: tuple[Token, Then] | None = None) -> None:
        position = self._submit(record, positions_of(record))
        if isinstance(record, TimerFired):
            self._fired[record.timer, record.due_ns] = None
        if waits is not None:
            self._then[position] = waits

    def _is_fired(self, timer: int, due_ns: int) -> bool:
        return (timer, due_ns) in self._fired

    def _do_due(self) -> None:
        # Each is noted as ordered only once it is: an order that is refused now is due again in the next
        # turn. *Without it:* one mark is refused, no checkpoint is ever made again, and the log fills up.
        slow = self._execution.line.slow
        if slow is not None and not slow.is_begun:
            self._held += among_jobs(self._ports.attempts, [slow.job])
        for found in self._held:
            if found.request not in self._given_up:
                self.poison(found)
                self._given_up[found.request] = None
        if self._digest_to_tell is not None:
            self._submit(self._digest_to_tell)
            self._digest_to_tell = None
        elif self._checkpointing.is_due(self._execution) and not self._is_marking:
            self._submit(Marked())
            self._is_marking = True
        if slow is not None:
            self._run_slow(self._execution)
        if not self._is_marking:
            record = self._gate.due(self._execution.line)
            if record is not None:
                self._submit(record)
                self._is_marking = isinstance(record, Marked)

    # --- comparing

    def _mark(self) -> None:
        """Capture the state. Every member is at the same record here, so all reach the same next moment at
        rest."""
        self._is_marking = False
        if self._execution.behind is None:
            self._checkpointing.capture_at_rest(self._execution)

    def _on_digest(self, position: Position, digest: bytes) -> None:
        """Handle the digest of the state captured at a mark. For a large state it is known only later."""
        if self._serving_state.takes_calls:
            self._digest_to_tell = Digested(position, digest)
            self._ports.wake()
        else:
            self._found(self._comparing.captured(position, digest))

    def _compare(self, record: Digested) -> None:
        self._checkpointing.nothing_since(self._execution.position)
        if not self._serving_state.takes_calls:  # otherwise it is this member's own digest
            self._checkpointing.told(record.position)
            self._found(self._comparing.told(record))

    def _found(self, difference: Diverged | None) -> None:
        """Handle a divergence. A primary that serves has already answered, so its object counts as right; and
        a difference that an operator has accepted is only reported (V4)."""
        if difference is None:
            return
        if self._serving_state.takes_calls or difference.found_at <= self.readiness.forgiven:
            self._ports.fault("divergence", str(difference))
            return
        self._difference = difference
        self._ports.wake()

    def _maybe_differs(self) -> None:
        difference, self._difference = self._difference, None
        if difference is not None:
            self.readiness.differs(difference)

    def _why_unable(self) -> str:
        failed = f"no object could be made: {error_in_words(self._failure)}" if self._failure else ""
        return failed or super()._why_unable()
