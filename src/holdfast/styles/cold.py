"""Cold passive groups: a backup holds checkpoints and records, and makes an object only to serve (FTC-128).

A cold backup also makes an object for as long as it takes to turn records into a checkpoint.
"""

from collections.abc import Iterator

from holdfast.execution.execution import Execution
from holdfast.execution.records import Forward, Record, State, Upgraded
from holdfast.model.errors import Unavailable
from holdfast.model.ids import Position
from holdfast.sequence.ports import Captured
from holdfast.storage.record import Record as Stored
from holdfast.styles.passive import Passive
from holdfast.styles.replay import pages


class Cold(Passive):
    """A member of a cold passive group."""

    def _step(self, execution: Execution) -> None:
        """Make a checkpoint at the interval, on the backups, too, so that their logs can be pruned: a small
        state is sent to them; for a large one each makes its own. *If a mark were ordered where none is
        begun:* it stays due, and each mark makes for the next turn, until the reserve of the disk is full of
        marks and the host ends (D5)."""
        if not self._checkpointing.is_due(execution) or self._checkpointing.must_wait(execution):
            return
        self._owed_digest.begin_capture()
        if not execution.is_idle:
            self._checkpointing.capture_at_rest(execution)
            self._step_by(execution, self._owed_digest.forward(is_mark=True))
            return
        state = self._checkpointing.capture(execution)
        if state is not None or self._checkpointing.is_copying:
            if state is not None and len(state) <= self._config.sent_state_bytes_max:
                record: Record = State(state)
            else:
                record = self._owed_digest.forward(is_mark=True)
            self._step_by(execution, record)
            self._checkpointing.nothing_since(execution.position)

    def keep_up(self) -> None:
        if not self._serving_state.is_primary:
            raise Unavailable(f"group {self.definition.group}: a cold backup holds no object")

    def is_near(self) -> bool:
        return True  # no backup is nearer: none holds the object

    def _may_keep(self, execution: Execution) -> bool:
        return False

    def _advance(self, records: list[Stored], step: Record) -> Iterator[None]:
        if isinstance(step, State):
            if self._execution is not None:
                self._discard_object()  # it waits to be at rest, and this state is a later one
            Execution.load(
                self.definition.apart(), step.saved
            ).discard()  # check that it loads: otherwise it is not a checkpoint (E9)
            self._checkpointing.keep(Captured(Position(records[-1].first - 1), step.saved))
            return
        if isinstance(step, Upgraded) and records[-1].first == 1:
            return  # the group has just been created
        yield from self._make_object()
        execution = self._object()
        for page in pages(self.sequence, execution.position, Position(records[-1].first - 1)):
            yield from self._replay(execution, page)
        if isinstance(step, Forward):
            # Captured where the primary captures, for comparison (E8).
            self._checkpointing.capture_at_rest(execution)
        yield from self._replay(execution, records[-1:])

    def _take_steps(self, up_to: Position) -> Iterator[None]:
        """Apply the steps. A cold backup keeps no object: it makes one only for as long as it takes to
        capture the state. *Without waiting for the object to be at rest:* if clients keep calling a method
        that waits for another group, every step comes while it waits, and no backup ever has a checkpoint."""
        yield from super()._take_steps(up_to)
        execution = self._execution
        if execution is None:
            return
        yield from self._replay_to_rest(execution, up_to)
        self._checkpointing.on_committed(execution.position)
        if not self._is_readying and not self._checkpointing.awaits(execution):
            self._discard_object()

    def _replay_to_rest(self, execution: Execution, up_to: Position) -> Iterator[None]:
        """Replay until the awaited state has been captured."""
        for page in pages(self.sequence, execution.position, up_to):
            for record in page:
                if not self._checkpointing.awaits(execution):
                    return
                yield from self._replay(execution, [record])
