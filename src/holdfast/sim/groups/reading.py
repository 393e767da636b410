"""An independent reading of what a member holds: its checkpoint and its log, executed from there.

Nothing of the style is asked: what a member would come to after the next failover is what counts.
"""

from holdfast.housing.housed import Housed
from holdfast.model.calls import Request
from holdfast.model.ids import Position
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.styles.definition import Definition
from holdfast.styles.effects import Effects
from holdfast.styles.execution import Execution
from holdfast.styles.operation import Calls, Poison, Record, decode_calls, decode_record, stamp_of


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
        self.went_back = ""
        """Where a stamp is not after the one before it."""

    def run_to(self, up_to: Position) -> None:
        """Execute the records up to here."""
        execution = self.execution
        if execution.position >= up_to:
            return
        member = self._housed.member
        stored = member.read(Position(execution.position + 1), member.tail)
        records = [(each, decode_record(each.body)) for each in stored]
        # Whoever executes a call must know that it was given up, which was ordered after it (E4).
        ends = {each.request: each.outcome for _, each in records if isinstance(each, Poison)}
        for each, record in records:
            if each.first > execution.position and each.last <= up_to:
                if isinstance(record, Calls):
                    execution.line.poisoned.update(_known(record, ends))
                before, stamp = execution.csn, stamp_of(record)
                if stamp is not None and stamp.csn <= before:
                    self.went_back = f"{stamp.csn} at {each.first} follows {before}"
                effects = self.apply(each.first, record)
                execution = self.execution
                self.divergence = self.divergence or effects.divergence

    def apply(self, first: Position, record: Record) -> Effects:
        return self.execution.apply(first, record)


def _known(record: Calls, ends: dict[Request, bytes]) -> dict[Request, bytes]:
    requests = [Request(record.sent.client, each.number) for each in decode_calls(record.sent.calls)]
    return {request: ends[request] for request in requests if request in ends}
