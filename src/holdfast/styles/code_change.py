"""What a replica does where its class is another than the one that made what it holds (E7).

How a member comes through what other code made is :mod:`.succession`'s to know. This is the replica's part in
it: an object is begun when the way is free, a method of the old code that waits for another group is given
its answer, as by any primary, and the place where the class as it is here goes on is ordered as a record.
"""

from collections.abc import Callable
from contextlib import suppress

from holdfast.model.calls import Request
from holdfast.model.errors import Overloaded, Rejected, Unavailable
from holdfast.model.ids import Position
from holdfast.styles.audience import Audience
from holdfast.styles.calling_out import CallingOut
from holdfast.styles.definition import Definition
from holdfast.styles.execution import Execution
from holdfast.styles.operation import NestedReply, Record, Upgraded
from holdfast.styles.ports import Sequence, StylePorts, Waits
from holdfast.styles.stamping import Stamping
from holdfast.styles.stepping import fitted
from holdfast.styles.succession import Succession, WaitsForCode
from holdfast.styles.upgrade import OtherCode


class CodeChange:
    """One member's part in it. *begin* has the object made of what this host keeps, whatever there was."""

    def __init__(
        self,
        definition: Definition,
        ports: StylePorts,
        succession: Succession,
        stamping: Stamping,
        calling_out: CallingOut,
        audience: Audience,
        sequence: Callable[[], Sequence],
        begin: Callable[[], None],
    ) -> None:
        self._definition = definition
        self._ports = ports
        self._succession = succession
        self._stamping = stamping
        self._calling_out = calling_out
        self._audience = audience
        self._sequence = sequence
        self._begin = begin
        self._old_waits: Waits | None = None
        """What a method of the old code waits for, for which this primary has called."""

    def is_way_free(self, *, may_order: bool) -> bool:
        """Whether the class as it is here may make an object of what is kept. A method of the old code that
        waits for another group is given its answer first, as by any primary."""
        if not self._succession.is_met:
            return True
        sequence = self._sequence()
        if self._succession.look(sequence, leads=True):
            self._begin()
            return True
        waits = self._succession.waits
        if waits is not None and may_order:
            if self._old_waits is not waits:
                self._old_waits = waits
                self._calling_out.take_up(sequence.committed)
                self._stamping.resume(waits.csn, waits.time_ns)
            outgoing = self._calling_out.for_old_code(waits.outgoing)
            if outgoing is not None:
                self._ports.call_out(self._audience.calls_out(outgoing))
        return False

    def answer(
        self, caller: Request, call: int, outcome: bytes, submit: Callable[[Record], object] | None
    ) -> None:
        """A method of the old code waits for this, in no object of this process: it goes on from a record.
        Without *submit* no record can be ordered, and another primary calls again."""
        if submit is not None:
            with suppress(Rejected, Unavailable):
                submit(NestedReply(self._stamping.next(), *caller, call, fitted(outcome)))
                self._succession.waits = None
                self._ports.again()
                return
        self._calling_out.send_again(caller, call)

    def upgrade(self, execution: Execution, order: Callable[[Execution, Upgraded], Position]) -> Position:
        """Let the class as it is here go on from what other code has left, once that is ordered: whoever
        comes to this place does the same. Until it is committed nothing is served, so that a crash leaves
        either the old or the new. Answers where that is."""
        here, made_by = self._definition.code, execution.code
        why = "" if execution.is_unbegun else self._ports.why_not_upgrade(made_by)
        if why:
            raise WaitsForCode(why)
        position = order(execution, Upgraded(made_by, here))
        self._ports.trace.note(
            "upgraded",
            group=self._definition.group,
            from_code=str(made_by),
            to_code=str(here),
            position=position,
        )
        return position

    def look_behind(self) -> None:
        """As a backup: come to an object, if the class as it is here has gone on where others have."""
        with suppress(Overloaded):
            if self._succession.is_met and self._succession.look(self._sequence(), leads=False):
                self._begin()

    def meet(self, error: OtherCode) -> None:
        """This member's object cannot go on: it has none, until the way is free again."""
        self._succession.meet(str(error))
        self._ports.trace.note("other_code", group=self._definition.group, why=str(error))
        self._ports.again()

    def end_reign(self) -> None:
        """This member is no primary any more: another calls for what the old code waits for."""
        self._succession.waits = self._old_waits = None
