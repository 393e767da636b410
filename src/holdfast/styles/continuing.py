"""What the class of one time has executed, executed by it again (E7).

A member whose class is another cannot do that itself. The host has the sources of that time, and runs this in
a process of their own; the state that comes of it is loaded by the class of today.
"""

from collections.abc import Iterable

from holdfast.model.calls import Request
from holdfast.model.errors import invariant
from holdfast.sequence.ports import Kept
from holdfast.storage.record import Record as Stored
from holdfast.styles.absence import Diverged
from holdfast.styles.definition import Definition
from holdfast.styles.execution import Execution
from holdfast.styles.loading import loading
from holdfast.styles.operation import Calls, Poison, decode_calls, decode_record
from holdfast.styles.ports import Waits


def continued(
    definition: Definition, kept: Kept | None, records: Iterable[Stored], *, is_stand_in: bool = False
) -> Execution | Waits:
    """The object after these *records*, which follow *kept*; its state may be saved. *definition* has the
    class of their time; *is_stand_in*: another that a person lets take its place, and then outcomes may
    differ. Raises what the class raises, ``OtherCode`` when they are not its own, and ``Diverged`` at the
    first outcome that is not the recorded one: that object is not the one that answered (E8)."""
    (execution,) = (each for each in loading(definition, lambda: kept) if each is not None)
    followed = [(each, decode_record(each.body)) for each in records if each.first > execution.position]
    # Whoever executes a call must know that it was given up, which was ordered after it (E4).
    ends = {record.request: record.outcome for _, record in followed if isinstance(record, Poison)}
    for each, record in followed:
        if ends and isinstance(record, Calls):
            for call in decode_calls(record.sent.calls):
                request = Request(record.sent.client, call.number)
                if request in ends:
                    execution.line.poisoned[request] = ends[request]
        effects = execution.apply(each.first, record)
        if effects.divergence and not is_stand_in:
            raise Diverged(effects.divergence, each.last)
    outgoing = execution.outgoing()
    if outgoing is not None:
        return Waits(outgoing, execution.csn, execution.time_ns)
    invariant(execution.is_idle, "what does not wait has been run")
    return execution
