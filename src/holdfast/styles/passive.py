"""Passive groups: only the primary executes (FTC-127); backups keep the sequence and what they need to catch
up.

The primary executes a call when it arrives, and orders the request and its outcome as one record (E1); the
client is answered once that is committed. So the primary's object is ahead of what is committed: when the
primary loses its epoch, it discards the object and starts again from what is committed.

=================  ======================================  =================================================
                   cold                                    warm
=================  ======================================  =================================================
a backup holds     checkpoints and records, no object      the object, as of the last state or update
becoming primary   loads the newest checkpoint and         replays what follows the last state or update
                   replays all that follows (FTC-300)      it received (FTC-301)
a new member       gets a checkpoint and records           loads the checkpoint it receives, then states and
                                                           updates only (FTC-302)
a returning one    its own checkpoint, and records         the same, then states and updates
=================  ======================================  =================================================
"""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from typing import Final

from holdfast.execution.definition import Definition, OtherCode
from holdfast.execution.execution import Execution
from holdfast.execution.records import (
    Call,
    Calls,
    Digested,
    Executed,
    Record,
    Sent,
    Stamp,
    Upgraded,
    alike_parts,
    executed_parts,
    positions_of,
    replied_parts,
)
from holdfast.model.calls import Request
from holdfast.model.errors import DISK_ERRORS, InvalidRequest, Overloaded, Rejected, Unavailable, invariant
from holdfast.model.ids import Position
from holdfast.model.outcome import error_in_words
from holdfast.sequence.ports import Kept
from holdfast.storage.record import Record as Stored
from holdfast.styles.code_change import Loading
from holdfast.styles.config import StyleConfig
from holdfast.styles.divergence import Diverged, NotedDifference, OwedDigest
from holdfast.styles.poison import in_line
from holdfast.styles.ports import StylePorts, Token
from holdfast.styles.replay import StepScanner, pages, replay
from holdfast.styles.replica import Replica
from holdfast.styles.replica_base import Then

_number: Final = attrgetter("number")


class Passive(Replica):
    """A member of a cold or warm passive group."""

    def __init__(self, definition: Definition, ports: StylePorts, config: StyleConfig) -> None:
        super().__init__(definition, ports, config)
        self._difference = NotedDifference(ports.wake, lambda: self.readiness.forgiven)
        self._owed_digest = OwedDigest(ports.wake)
        self._execution: Execution | None = None
        self._spent_ns = 0
        """The execution time since backups were last advanced (E5)."""
        self._looking = StepScanner(config, ports.clock, self._checkpointing.grew, self._on_told)
        self._loading = Loading(self.definition, ports.checkpoint, self._code_replay)
        self._work: Iterator[None] | None = None
        """The work that advances the object, done in slices of time so that the host can do other work in
        between."""
        self._is_readying = False
        """Whether the work ends with an object that can serve."""

    def tune(self, config: StyleConfig) -> None:
        super().tune(config)
        self._looking.tune(config)

    @property
    def execution(self) -> Execution | None:
        execution = self._execution
        return execution if execution is not None and execution.is_own else None

    @property
    def awaits_turn(self) -> bool:
        """Whether a commit requires a turn. A backup does in its turns only what it asked for. A primary has
        had its turn when it executed, unless a query, a call to another group, or the object waits."""
        if not self._serving_state.takes_calls:
            return self._serving_state.is_primary
        execution = self._execution
        return (
            execution is None
            or not execution.line.is_at_rest
            or bool(self._queries.ran)
            or (execution.sends.issued > 0 and len(execution.sends) > 0)
        )

    # --- the sequence's events

    def on_following(self) -> None:
        super().on_following()
        self._stop_work()
        execution = self._execution
        if execution is not None and (execution.line.is_ahead or not self._may_keep(execution)):
            self._discard()

    def on_committed(self, up_to: Position) -> None:
        if self._serving_state.takes_calls:
            self._committed(up_to)
        elif self._absence.now is not None:
            return
        elif self._code_replay.is_met:
            if self._looking.is_due(up_to, self.sequence.log_bytes):
                self._looking.ended(up_to, self._log_bytes())
                self._ports.again()
        elif self._work is None and self._looking.is_due(up_to, self.sequence.log_bytes):
            self._work = self._look_at(up_to)
            try:  # `suppress` is three calls of Python code
                self._go_on()
            except Overloaded:
                return  # it looks again at the next commit

    def turn(self) -> None:
        if self._difference.noted is not None:
            self._maybe_differs()
        if not self._serving_state.is_primary:
            self._code_change.look_as_backup()
        if self._work is not None and not self._is_readying:
            with suppress(Overloaded):
                self._go_on()
        super().turn()

    def install(self, kept: Kept) -> None:
        """Take over a state as this host's checkpoint. It is loaded from there when an object is needed."""
        self._discard()
        self._code_replay.forget()
        self._checkpointing.installed(kept)
        self._comparing.took_state(kept.position)
        self._absence.took_state(kept.position)

    # --- advancing the object

    def _ready(self) -> Execution:
        if not self._is_readying:
            self._work, self._is_readying = self._make_ready(self.sequence.committed), True
        if not self._go_on():
            raise Overloaded(f"group {self.definition.group} has more to load or to replay")
        self._is_readying = False
        self._spent_ns = 0
        return self._object()

    def _go_on(self) -> bool:
        """Work for one slice of time. Returns whether the work is complete. Raises what the work raises, and
        stops it."""
        until_ns = self._ports.clock.now() + self._config.slice_ns
        if self._is_outrun:
            self._begin_work_anew()
        try:
            for _ in self._work or ():
                if self._difference.noted is not None:
                    raise self._difference.noted
                if self._execution is not None and self._execution.is_held_up:
                    return False  # a turn follows when it goes on
                if self._ports.clock.now() >= until_ns:
                    self._ports.again()
                    return False
        except Diverged as found:
            self._stop_work()
            self.readiness.differs(found)
            raise Overloaded(f"group {self.definition.group} has no object here: {found}") from None
        except OtherCode as error:
            self._discard()
            self._code_change.meet(error)
            raise Overloaded(str(error)) from None
        except BaseException:
            self._stop_work()
            raise
        self._work = None
        self._maybe_differs()
        return self._absence.now is None

    def _stop_work(self) -> None:
        self._work, self._is_readying = None, False

    @property
    def _is_outrun(self) -> bool:
        """Whether a newer checkpoint can be loaded than the object which work advances."""
        execution, kept = self._execution, self._checkpointing.kept
        return execution is not None and execution.position < kept and self._loading.outruns(execution, kept)

    def _begin_work_anew(self) -> None:
        is_readying, up_to = self._is_readying, self.sequence.committed
        self._discard()
        self._work = self._make_ready(up_to) if is_readying else self._look_at(up_to)
        self._is_readying = is_readying

    def _make_ready(self, up_to: Position) -> Iterator[None]:
        behind = self._checkpointing.kept if self._execution is None else self._execution.position
        yield from self._look_at(up_to)
        yield from self._replay_rest(up_to)
        operations = self._object().position - behind
        self._ports.trace.note("replayed", group=self.definition.group, operations=operations)

    def _replay_rest(self, up_to: Position) -> Iterator[None]:
        """Replay the records after the last step."""
        yield from self._make_object()
        execution = self._object()
        for records in pages(self.sequence, execution.position, up_to):
            yield from self._replay(execution, records)

    def _replay(self, execution: Execution, records: list[Stored]) -> Iterator[None]:
        return replay(execution, records, self._ports, self._slow_runs, self.readiness.forgiven)

    def _make_object(self) -> Iterator[None]:
        """Make the object from the newest checkpoint if there is none. What is loaded stays if stopped."""
        while self._execution is None:
            self._execution = self._loading.go_on(leads=self._serving_state.is_primary)
            if self._is_outrun:
                self._discard_object()
            yield None
        self._loading.forget()

    def _object(self) -> Execution:
        invariant(self._execution is not None, "an object is made before it is used")
        assert self._execution is not None  # for the type checker: the invariant has stopped us otherwise
        return self._execution

    # --- executing

    def _order_calls(self, execution: Execution, token: Token, sent: Sent, calls: list[Call]) -> None:
        if execution.position - self.sequence.committed + len(calls) > self._config.uncommitted_max:
            self._check_room(execution, len(calls))
        stamp, first = self._stamping.next(len(calls)), Position(execution.position + 1)
        began = self._ports.clock.now()
        try:
            outcomes = execution.calls(first, stamp, sent, calls, self._observers.run).outcomes
            self._observers.took(self._spent(began), sent.client, calls)
        except Exception:
            self._give_up()  # the object may have changed, and nothing of that is ordered
            raise
        if None in outcomes:
            self._order_parted(token, stamp, sent, calls, outcomes)
        else:
            ended: list[bytes] = outcomes  # type: ignore[assignment]  # as was just seen
            self._order_executed(token, stamp, sent, calls, ended)

    def _order_executed(
        self, token: Token, stamp: Stamp, sent: Sent, calls: list[Call], outcomes: list[bytes]
    ) -> None:
        """Order calls with their outcomes as one record, or as several if they are too long for one."""
        if len(sent.calls) + sum(map(len, outcomes)) <= self._config.record_bytes:  # as nearly always
            last = self._submit_executed(Executed(stamp, sent, outcomes), len(calls))
            self._waiting.until(last, token, list(map(_number, calls)), outcomes)
            return
        for executed, part in executed_parts(stamp, sent, calls, outcomes, self._config.record_bytes):
            last = self._submit_executed(executed, len(part))
            self._waiting.until(last, token, list(map(_number, part)), executed.outcomes)

    def _order_parted(
        self, token: Token, stamp: Stamp, sent: Sent, calls: list[Call], outcomes: list[bytes | None]
    ) -> None:
        """Order a frame in which some calls wait. Their outcomes follow as separate records (E1)."""
        for first, part, ended in alike_parts(stamp, calls, outcomes):
            if ended:
                self._order_executed(token, first, sent.of(part), part, ended)
            else:
                self._submit_executed(Calls(first, sent.of(part)), len(part))
                for each in part:
                    self._waiting.for_call(Request(sent.client, each.number), token)

    def _order(self, execution: Execution, record: Record, waits: tuple[Token, Then] | None = None) -> None:
        self._check_room(execution, positions_of(record))
        began = self._ports.clock.now()
        try:
            effects = execution.apply(Position(execution.position + 1), record)
        except Exception:
            self._give_up()  # the object may have changed, as in `_order_calls`
            raise
        self._spent(began)
        position = self._submit_executed(record, positions_of(record))
        for replied in replied_parts(effects.later, self._config.record_bytes):
            execution.apply(Position(position + 1), replied)
            position = self._submit_executed(replied, 1)
            for reply in replied.replies:
                self._answering.ended(reply, position)
        if waits is not None:
            waits[1](effects, position)

    def _order_upgrade(self, execution: Execution, record: Upgraded) -> Position:
        self._order(execution, record)
        return self._object().position

    def _begin_from_kept(self) -> None:
        self._discard()

    def _spent(self, began_ns: int) -> int:
        """Add to the execution time and return how long it took; at least 1, if the clock is too coarse."""
        spent_ns = max(self._ports.clock.now() - began_ns, 1)
        self._spent_ns += spent_ns
        return spent_ns

    def _submit_executed(self, record: Record, count: int) -> Position:
        """Order what the object has executed. If that is refused, it no longer matches the sequence."""
        try:
            return self._submit(record, count)
        except (Rejected, Unavailable, InvalidRequest):
            self._give_up()
            raise

    def _give_up(self) -> None:
        self._serving_state.stop_calls()  # until an object has been made from what was ordered
        self._answering.forsake_all()
        self._discard()

    def _give_up_object(self) -> None:
        self._give_up()

    def _check_room(self, execution: Execution, count: int) -> None:
        ahead = execution.position - self.sequence.committed
        if ahead + count > self._config.uncommitted_max:
            raise Overloaded(f"group {self.definition.group}: {ahead} positions are not committed yet")

    def _withdraw(self) -> None:
        super()._withdraw()
        self._owed_digest.forget()

    def _is_fired(self, timer: int, due_ns: int) -> bool:
        return False  # what is ordered here has been executed, and is not due any more

    def _do_due(self) -> None:
        execution = self._execution
        if execution is not None:
            if self._ports.attempts.suspects:
                for each in in_line(self._ports.attempts, execution):
                    self.poison(each)
            if self._owed_digest.is_owed and (digested := self._owed_digest.take()) is not None:
                self._tell_digest(execution, digested)
            self._step(execution)
            if execution.line.slow is not None:
                self._run_slow(execution)
        execution = self._execution
        if execution is not None and self.definition.interface.is_interleaved:
            record = self._gate.due(execution.line)
            if record is not None:
                self._order(execution, record)

    def _want_rest(self, execution: Execution) -> None:
        """Capture the state at the next moment at rest: it may have passed when someone looks again."""
        if not self._checkpointing.awaits(execution):
            self._checkpointing.capture_at_rest(execution)
            self._ports.wake()

    def _step_by(self, execution: Execution, record: Record) -> None:
        """Order a record that advances the backups; it has no effect on the object itself."""
        execution.apply(Position(execution.position + 1), record)
        self._submit_executed(record, 1)

    # --- comparing

    def _on_digest(self, position: Position, digest: bytes) -> None:
        """Handle the digest of the state captured last. For a large state it is known only later."""
        if self._serving_state.takes_calls:
            self._owed_digest.captured(position, digest)
        else:
            self._difference.note(self._comparing.captured(position, digest))

    def _on_told(self, record: Digested) -> None:
        self._checkpointing.told(record.position)
        self._difference.note(self._comparing.told(record))

    def _maybe_differs(self) -> None:
        difference = self._difference.take()
        if difference is not None and not self._serving_state.takes_calls:
            self.readiness.differs(difference)

    def _tell_digest(self, execution: Execution, digested: Digested) -> None:
        before = execution.position
        self._step_by(execution, digested)
        self._checkpointing.only_told(before, execution.position)

    def _digests_state(self, execution: Execution) -> bool:
        """Whether the digest covers the state: only if every member encodes equal states alike. A class's own
        ``get_state`` may return different bytes for equal states, and is called only on the primary as long
        as nothing fails."""
        return not self.definition.capture.is_checkpointable

    # --- following

    @abstractmethod
    def _step(self, execution: Execution) -> None:
        """Do in each turn what keeps backups from having to replay too much."""

    @abstractmethod
    def _may_keep(self, execution: Execution) -> bool:
        """Whether a former primary may keep its object as a backup."""

    @abstractmethod
    def _advance(self, records: list[Stored], step: Record) -> Iterator[None]:
        """Apply the records before *step*, and then *step* itself."""

    def _look_at(self, up_to: Position, *, replays_rest: bool = False) -> Iterator[None]:
        """Apply every step up to a committed position, and replay the records after it if *replays_rest*."""
        if self._execution is not None:
            self._execution.is_paused = False  # whatever work waited for an annex before was stopped
        rest = self._replay_rest(up_to) if replays_rest else ()
        yield from self._tried(chain(self._take_steps(up_to), rest))
        self._looking.ended(up_to, self._log_bytes())

    def _tried(self, work: Iterator[None]) -> Iterator[None]:
        """Do *work*, whose failure concerns only the object (FTC-310): it is the class's code that fails, in
        whatever way. What this host keeps of the object is loaded when it is needed."""
        try:
            yield from work
        except (Overloaded, Diverged, OtherCode, *DISK_ERRORS):
            raise
        except Exception as error:
            why = f"the state was not taken: {error_in_words(error)}"
            self._ports.fault("object_failed", why)
            self._serving_state.failed_as_backup(why)
            self._discard_object()

    def _take_steps(self, up_to: Position) -> Iterator[None]:
        for found in self._looking.steps(self.sequence, self._start, up_to):
            if found is None:
                yield None
            else:
                yield from self._advance(*found)

    def _start(self) -> Position:
        """The position of the object, or the position it would have once it is made."""
        if self._is_outrun:  # by a copy whose digest was just scanned
            self._discard_object()
        return self._checkpointing.kept if self._execution is None else self._execution.position

    def _discard(self) -> None:
        self._stop_work()
        self._discard_object()

    def _discard_object(self) -> None:
        self._loading.forget()
        self._looking.begin_anew()
        if self._execution is not None:
            execution, self._execution = self._execution, None
            execution.discard()
        self._checkpointing.forget()
