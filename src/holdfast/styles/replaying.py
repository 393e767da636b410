"""What was ordered before, read again page by page, and executed again as it was."""

from collections.abc import Iterator
from typing import Final

from holdfast.model.errors import HoldfastError
from holdfast.model.ids import Position
from holdfast.storage.record import ORIGIN
from holdfast.storage.record import Record as Stored
from holdfast.styles.absence import Diverged
from holdfast.styles.admission import CALLS_PER_RECORD_MAX
from holdfast.styles.attempts import Attempts
from holdfast.styles.execution import Execution
from holdfast.styles.operation import Executed, decode_calls, decode_record
from holdfast.styles.poison import among_calls
from holdfast.styles.ports import Sequence, StylePorts

PAGE_POSITIONS: Final = 1024
"""So many are read from the log at a time."""


class CannotReplay(HoldfastError):
    """Raised when an operation that was acknowledged cannot be executed again: the object is lost here."""

    code = "cannot_replay"


def records_after(sequence: Sequence, position: Position, up_to: Position) -> list[Stored]:
    """Those beyond *position* that end with *up_to* or before. Raises ``Overloaded``."""
    if position >= up_to:
        return []
    return [
        record
        for record in sequence.read(Position(position + 1), up_to)
        if record.first > position and record.last <= up_to
    ]


def pages(sequence: Sequence, position: Position, up_to: Position) -> Iterator[list[Stored]]:
    """The same, some at a time."""
    while position < up_to:
        end = Position(min(up_to, position + PAGE_POSITIONS))
        records = records_after(sequence, position, end)
        if not records:
            end = Position(min(up_to, end + CALLS_PER_RECORD_MAX))  # one record, longer than a page
            records = records_after(sequence, position, end)
        if not records:
            return
        position = records[-1].last
        yield records


def replay(
    execution: Execution, records: list[Stored], ports: StylePorts, forgiven: Position = ORIGIN.position
) -> Iterator[None]:
    """Execute again what the former primary executed; its outcomes are known, and stand (E1). Raises
    :class:`CannotReplay`, and ``Diverged`` at the first that comes out otherwise: the object is not the one
    that answered (E8). What differs up to *forgiven* is only reported: a person has seen it (V4)."""
    for each in records:
        record = decode_record(each.body)
        if ports.attempts.has_suspects and isinstance(record, Executed):
            _refuse_poisonous(execution, record, ports.attempts)
        effects = execution.apply(each.first, record)
        if effects.divergence and each.last > forgiven:
            raise Diverged(effects.divergence, each.last)
        if effects.divergence:
            ports.fault("divergence", effects.divergence)
        yield None


def _refuse_poisonous(execution: Execution, record: Executed, attempts: Attempts) -> None:
    """A call that was answered, and that ends the processes in which it is executed again, can neither be
    given up nor left out: this member has no object, and the host lives on to say so."""
    for found in among_calls(attempts, record.sent.client, decode_calls(record.sent.calls)):
        if execution.is_new(found.request, found.expiration_s):
            raise CannotReplay(f"executed again, {found.call} ended {found.attempts} processes")
