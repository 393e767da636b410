"""Cold passive: a backup holds checkpoints and records; an object is made only when it must serve
(FTC-128)."""

from holdfast.model.ids import Position
from holdfast.sequence.ports import Captured
from holdfast.storage.record import Record as Stored
from holdfast.styles.execution import Execution
from holdfast.styles.operation import Forward, Record, State
from holdfast.styles.passive import Passive


class Cold(Passive):
    """A member of a cold passive group."""

    def _step(self, execution: Execution) -> None:
        """At the interval, a checkpoint, also on the backups, so that their logs can be pruned: a small state
        goes to them, for a large one each makes its own."""
        if not self._checkpointing.is_due(execution) or not execution.is_idle:
            return
        state = self._checkpointing.capture(execution)
        if state is not None:
            is_small = len(state) <= self._config.sent_state_bytes_max
            self._step_by(execution, State(state) if is_small else Forward())
            self._checkpointing.nothing_since(execution.position)

    def _may_keep(self, execution: Execution) -> bool:
        return False

    def _advance(self, records: list[Stored], step: Record) -> None:
        if isinstance(step, State):
            self._checkpointing.keep(Captured(Position(records[-1].first - 1), step.saved))
            return
        execution = self._loaded()
        self._replay(execution, [record for record in records if record.first > execution.position])
        if execution.is_at_rest:
            self._checkpointing.keep(Captured(execution.position, execution.save()))
        execution.discard()
