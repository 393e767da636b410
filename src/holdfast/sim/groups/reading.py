"""An independent reading of what a member holds: its checkpoint and its log, executed from there.

Nothing of the style is asked: what a member would come to after the next failover is what counts.
"""

from holdfast.housing.housed import Housed
from holdfast.model.ids import Position
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.styles.definition import Definition
from holdfast.styles.execution import Execution
from holdfast.styles.operation import decode_record


class Replay:
    """One member's object, made from what its host keeps."""

    def __init__(self, definition: Definition, kept: Kept | None, housed: Housed) -> None:
        self._housed = housed
        if kept is None:
            self.execution = Execution(definition)
        else:
            self.execution = Execution.load(definition, b"".join(chunks_of(kept)))
            self.execution.go_on()
        self.divergence = ""

    def run_to(self, up_to: Position) -> None:
        """Execute the records up to here."""
        execution = self.execution
        if execution.position >= up_to:
            return
        for record in self._housed.member.read(Position(execution.position + 1), up_to):
            if record.first > execution.position and record.last <= up_to:
                effects = execution.apply(record.first, decode_record(record.body))
                self.divergence = self.divergence or effects.divergence
