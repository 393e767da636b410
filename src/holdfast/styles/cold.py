"""Cold passive: a backup holds checkpoints and records; an object is made only when it must serve (FTC-128),
and for as long as it takes to make a checkpoint of records."""

from collections.abc import Iterator

from holdfast.execution.execution import Execution
from holdfast.execution.records import Forward, Record, State, Upgraded
from holdfast.model.errors import Unavailable
from holdfast.model.ids import Position
from holdfast.sequence.ports import Captured
from holdfast.storage.record import Record as Stored
from holdfast.styles.passive import Passive
from holdfast.styles.replay import pages, replay


class Cold(Passive):
    """A member of a cold passive group."""

    def _step(self, execution: Execution) -> None:
        """At the interval, a checkpoint, also on the backups, so that their logs can be pruned: a small state
        goes to them, for a large one each makes its own."""
        if not self._checkpointing.is_due(execution):
            return
        self._owed_digest.begin_capture()
        if not execution.is_idle:
            self._checkpointing.maybe_capture(execution)
            self._step_by(execution, self._forward(is_mark=True))
            return
        state = self._checkpointing.capture(execution)
        if state is not None or self._checkpointing.is_copying:
            is_small = state is not None and len(state) <= self._config.sent_state_bytes_max
            record = State(state) if state is not None and is_small else self._forward(is_mark=True)
            self._step_by(execution, record)
            self._checkpointing.nothing_since(execution.position)

    def keep_up(self) -> None:
        if not self._office.is_held:
            raise Unavailable(f"group {self.definition.group}: a cold backup holds no object")

    def is_near(self) -> bool:
        return True  # as near as any: no backup holds the object

    def _may_keep(self, execution: Execution) -> bool:
        return False

    def _advance(self, records: list[Stored], step: Record) -> Iterator[None]:
        if isinstance(step, State):
            if self._execution is not None:
                self._discard_object()  # it waits for a moment of rest, and here is a later one
            Execution.load(
                self.definition.apart(), step.saved
            ).discard()  # it is no checkpoint otherwise (E9)
            self._checkpointing.keep(Captured(Position(records[-1].first - 1), step.saved))
            return
        if isinstance(step, Upgraded) and records[-1].first == 1:
            return  # the group has just begun
        yield from self._make_object()
        execution = self._object()
        for page in pages(self.sequence, execution.position, Position(records[-1].first - 1)):
            yield from replay(execution, page, self._ports, self.readiness.forgiven)
        if isinstance(step, Forward):
            # Where the primary has: it is compared with that one's (E8).
            self._checkpointing.capture_at_rest(execution)
        yield from replay(execution, records[-1:], self._ports, self.readiness.forgiven)

    def _take_steps(self, up_to: Position) -> Iterator[None]:
        """An object is not what a cold backup keeps: it is made for as long as it takes to capture its state.
        *Without its moment of rest:* where callers follow each other to a method that waits for another
        group, every step comes while it waits, and no backup ever has a checkpoint."""
        yield from super()._take_steps(up_to)
        execution = self._execution
        if execution is None:
            return
        yield from self._replay_to_rest(execution, up_to)
        self._checkpointing.on_committed(execution.position)
        if not self._is_readying and not self._checkpointing.awaits(execution):
            self._discard_object()

    def _replay_to_rest(self, execution: Execution, up_to: Position) -> Iterator[None]:
        """Replay until the state that is awaited has been captured."""
        for page in pages(self.sequence, execution.position, up_to):
            for record in page:
                if not self._checkpointing.awaits(execution):
                    return
                yield from replay(execution, [record], self._ports, self.readiness.forgiven)
