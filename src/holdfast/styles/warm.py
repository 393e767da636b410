"""Warm passive groups: a backup holds the object and advances it during normal operation (FTC-129, E5).

A backup that takes over replays what it has not been advanced past. So the primary advances its backups by
the time it has spent on execution since, not by the number of calls or the wall clock (:func:`next_step`);
the interval matters only in a quiet group.
"""

import enum
from collections.abc import Iterator
from contextlib import suppress

from holdfast.execution.capture import InvalidUpdate, NoStateAvailable, NoUpdateAvailable
from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.records import Forward, Record, State, Update, decode_record
from holdfast.execution.saved_state import head_of
from holdfast.model.errors import Overloaded
from holdfast.model.ids import Position
from holdfast.model.outcome import error_in_words
from holdfast.sequence.ports import Captured, Kept
from holdfast.storage.record import ORIGIN
from holdfast.storage.record import Record as Stored
from holdfast.styles.config import StyleConfig
from holdfast.styles.passive import Passive
from holdfast.styles.ports import StylePorts


class Step(enum.Enum):
    """What advances the backups."""

    NOTHING = "nothing"
    UPDATE = "update"
    """The changes that the class reports."""
    STATE = "state"
    """The whole state, if it is small enough to send."""
    REPLAY = "replay"
    """The backups replay the same records: for a large object that cannot report its changes."""


def next_step(
    spent_ns: int,
    since_ns: int,
    *,
    state_bytes: int | None,
    is_updateable: bool,
    has_base: bool,
    config: StyleConfig,
) -> Step:
    """Decide what to do now, after *spent_ns* of execution and *since_ns* on the clock since the last step.

    Half the budget is reserved for what is executed while the step is under way. *state_bytes* is the size of
    the last captured state, None before the first. *has_base*: the last update or replay was the last time
    the object was asked for its state or update; otherwise its next update would lack what changed before
    (FTC-307).
    """
    is_due = spent_ns * 2 >= config.replay_budget_ns or since_ns >= config.checkpoint_interval_ns
    if spent_ns == 0 or not is_due:
        return Step.NOTHING
    if is_updateable:
        return Step.UPDATE if has_base else Step.REPLAY
    if state_bytes is None or state_bytes <= config.sent_state_bytes_max:
        return Step.STATE
    return Step.REPLAY


class Warm(Passive):
    """A member of a warm passive group."""

    def __init__(self, definition: Definition, ports: StylePorts, config: StyleConfig) -> None:
        super().__init__(definition, ports, config)
        self._looking.is_timed = True
        self._stepped_at = ports.clock.now()
        self._state_bytes: int | None = None
        self._has_base = False
        """Whether the object's next update starts where the backups are (FTC-307)."""

    def _take_up(self, execution: Execution) -> None:
        super()._take_up(execution)
        self._stepped_at = self._ports.clock.now()
        self._has_base = False

    def capture(self, at_least: Position = ORIGIN.position) -> Kept | None:
        self._has_base = False  # the object may be asked for its state
        return super().capture(at_least)

    # --- as primary

    def _step(self, execution: Execution) -> None:
        state = None
        # Where none is begun, no mark says that one is: it would stay due, with a mark in every turn (D5).
        is_due = self._checkpointing.is_due(execution) and not self._checkpointing.must_wait(execution)
        if is_due:
            self._has_base = False  # the object is asked for its state
            self._owed_digest.begin_capture()
            if execution.is_idle:
                state = self._checkpointing.capture(execution)
            else:
                self._checkpointing.capture_at_rest(execution)
        step = next_step(
            self._spent_ns,
            self._ports.clock.now() - self._stepped_at,
            state_bytes=self._state_bytes,
            is_updateable=self.definition.capture.is_updateable,
            has_base=self._has_base,
            config=self._config,
        )
        if step is Step.NOTHING and not is_due:
            return
        is_captured = state is not None or self._checkpointing.is_copying_at(execution.position)
        if step is Step.NOTHING and is_due and (is_captured or not execution.is_idle):
            step = Step.REPLAY  # replaying costs little, but backups need a checkpoint, too
        if step is not Step.NOTHING:
            self._stepped_at, self._spent_ns = self._ports.clock.now(), 0
            # If nothing could be captured now, backups need not capture either.
            is_mark = is_due and (is_captured or not execution.is_idle)
            self._step_by(execution, self._record_for(step, execution, state, is_mark=is_mark))
            if is_captured:
                self._checkpointing.nothing_since(execution.position)

    def _record_for(self, step: Step, execution: Execution, state: bytes | None, *, is_mark: bool) -> Record:
        """The record for *step*. *state* is given if it was just captured. *is_mark*: a state is captured for
        a checkpoint."""
        if not execution.is_idle:
            # Backups replay into the middle of a call: an update since the last one would apply it twice.
            self._has_base = False
            return self._owed_digest.forward(is_mark=is_mark)
        if step is Step.UPDATE:
            update = self._update_of(execution)
            self._has_base = update is not None
            parts = (execution.timers.save(), execution.sends.save(), execution.annexes.save())
            size = len(parts[0]) + len(parts[1]) + sum(map(len, parts[2].values()))
            if update is None or len(update) + size > self._config.record_bytes:
                return self._owed_digest.forward(is_mark=is_mark)
            return Update(update, *parts)
        if step is Step.STATE and not self._checkpointing.is_large(execution):
            if state is None and self._checkpointing.is_pausing:
                return self._owed_digest.forward(is_mark=is_mark)
            state = state or self._checkpointing.state_of(execution)
            self._state_bytes = len(state) if state is not None else None
            if state is not None and len(state) <= self._config.sent_state_bytes_max:
                return State(state)
            return self._owed_digest.forward(is_mark=is_mark)
        if self.definition.capture.is_updateable:
            # Backups replay up to here: what changed so far must not come again in the next update.
            self._has_base = self._update_of(execution) is not None
        return self._owed_digest.forward(is_mark=is_mark)

    def _update_of(self, execution: Execution) -> bytes | None:
        """What the class says has changed; None if it says nothing."""
        try:
            return execution.get_update()
        except (NoStateAvailable, NoUpdateAvailable):
            return None
        except Exception as error:
            self._checkpointing.failures.mention("object_failed", error_in_words(error))
            return None

    # --- as backup

    def install(self, kept: Kept) -> None:
        """Load a large state at once: it takes long, and a member that takes over must have it (FTC-302)."""
        super().install(kept)
        if self._checkpointing.is_kept_large:
            self._work = self._tried(self._make_object())
            self._ports.wake()

    def keep_up(self) -> None:
        """Replay what the primary has not sent yet. This is not done if the primary sends updates, because
        the next one would apply what was replayed once more; such a backup is as fresh as the last update.
        A member that gave up its object takes the primary's state instead (O3). *Without it:* a query makes
        an object from what is left here, a newer checkpoint of it is kept, and the state that comes is not
        the newest."""
        if self._code_replay.is_met or self._absence.is_absent:
            return
        behind = self._execution is None or self._execution.position < self.sequence.committed
        if behind and self._work is None and not self._serving_state.is_primary:
            replays_rest = not self.definition.capture.is_updateable
            self._work = self._look_at(self.sequence.committed, replays_rest=replays_rest)
            with suppress(Overloaded):
                self._go_on()

    def on_claiming(self) -> None:
        """Replay what is committed while the authority answers (E5). Only in the next turn, so that the claim
        leaves first."""
        may_replay = not (self.definition.capture.is_updateable or self._absence.is_absent)
        if may_replay and self._work is None and not self._code_replay.is_met:
            self._work = self._look_at(self.sequence.committed, replays_rest=True)
            self._ports.wake()

    def _may_keep(self, execution: Execution) -> bool:
        return execution.position <= self.sequence.committed

    def _advance(self, records: list[Stored], step: Record) -> Iterator[None]:
        if isinstance(step, State):
            self._check_sent(Position(records[-1].first - 1), step)
            self._replace(Execution.load(self.definition, step.saved))
            self._maybe_keep(Captured(Position(records[-1].first - 1), step.saved))
        else:
            yield from self._make_object()
            execution = self._object()
            before = [record for record in records[:-1] if record.first > execution.position]
            if isinstance(step, Update):
                if not execution.is_idle:
                    raise InvalidUpdate("an update follows where nothing waits, and here a call does")
                for record in before:
                    execution.keep_account(record.first, decode_record(record.body))
                execution.set_update(step)
            else:
                yield from self._replay(execution, before)
        execution = self._object()
        if isinstance(step, Forward) and step.is_mark:
            # Captured where the primary captures, for comparison (E8).
            self._checkpointing.capture_at_rest(execution)
        execution.apply(records[-1].first, step)
        self._checkpointing.on_committed(execution.position)

    def _maybe_keep(self, sent: Captured) -> None:
        """Keep a state that the primary sent, which is as good as a checkpoint of its own."""
        if self._checkpointing.is_due(self._object()):
            self._checkpointing.keep_sent(sent)

    def _check_sent(self, position: Position, step: State) -> None:
        """Handle a state of other code: it cannot be an object here, but it is a checkpoint (E7)."""
        code = head_of(iter([step.saved])).code
        if not code.is_same(self.definition.code):
            self._checkpointing.keep(Captured(position, step.saved))
            self._code_replay.check_state(code, position, leads=False)

    def _replace(self, execution: Execution) -> None:
        self._loading.forget()
        if self._execution is not None:
            self._execution.discard()
        self._execution = execution
