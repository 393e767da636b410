"""What a replica does where its class is another than the one that made what it holds (E7).

How a member comes through what other code made is :mod:`.code_replay`'s to know. This is the replica's part
in it: an object is begun when the way is free, a method of the old code that waits for another group is given
its answer, as by any primary, and the place where the class as it is here goes on is ordered as a record.

What the class of one time has executed, executed by it again (E7).

A member whose class is another cannot do that itself. The host has the sources of that time, and runs this in
a process of their own; the state that comes of it is loaded by the class of today.

An object as of what its host keeps of it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from holdfast.execution.definition import Definition, OtherCode
from holdfast.execution.execution import Execution
from holdfast.execution.method import fitted
from holdfast.execution.records import (
    Calls,
    NestedReply,
    Poison,
    Record,
    Upgraded,
    decode_calls,
    decode_record,
)
from holdfast.model.calls import Request
from holdfast.model.errors import Overloaded, Rejected, Unavailable, invariant
from holdfast.model.ids import Position
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.storage.record import Record as Stored
from holdfast.styles.call_observers import CallObservers
from holdfast.styles.code_replay import CodeReplay, WaitsForCode
from holdfast.styles.divergence import Diverged
from holdfast.styles.outgoing import OutgoingCalls
from holdfast.styles.ports import Sequence, StylePorts, Waits
from holdfast.styles.stamping import Stamper


class CodeChange:
    """One member's part in it. *begin* has the object made of what this host keeps, whatever there was."""

    def __init__(
        self,
        definition: Definition,
        ports: StylePorts,
        succession: CodeReplay,
        stamping: Stamper,
        calling_out: OutgoingCalls,
        audience: CallObservers,
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


def loading(definition: Definition, newest: Callable[[], Kept | None]) -> Iterator[Execution | None]:
    """None after each bit of work, and at last the object; as at creation, if nothing is kept. The *newest*
    state is asked for when the work begins: an older one may be gone by then. Raises what ``set_state``
    raises, and ``Unavailable`` when newer ones have taken its place since."""
    kept = newest()
    if kept is None:
        yield Execution(definition)
        return
    for execution in Execution.loading(definition, chunks_of(kept)):
        if execution is not None:
            execution.go_on()
        yield execution


class Loading:
    """One member's object on its way from the newest checkpoint, bit by bit. *succession* says
    whether it may be loaded here."""

    def __init__(
        self, definition: Definition, newest: Callable[[], Kept | None], succession: CodeReplay
    ) -> None:
        self._definition = definition
        self._newest = newest
        self._succession = succession
        self._work: Iterator[Execution | None] | None = None

    def go_on(self, *, leads: bool) -> Execution | None:
        """Do the next bit; the object when it was the last one. Raises ``Overloaded`` when it has to be begun
        anew, ``OtherCode``, and what :func:`loading` raises."""
        if self._work is None:
            self._succession.check_kept(leads=leads)
            self._work = loading(self._definition, self._newest)
        try:
            return next(self._work)
        except Unavailable as error:
            # Newer checkpoints took the place of the one that was being loaded.
            self._work = None
            raise Overloaded(str(error)) from None
        except BaseException:
            self._work = None  # it has ended with that, and is begun anew
            raise

    def forget(self) -> None:
        """What has been loaded so far is not wanted any more, or is there."""
        self._work = None


def continued(
    definition: Definition,
    kept: Kept | None,
    records: Iterable[Stored],
    *,
    is_stand_in: bool = False,
    prepare: Callable[[Execution], None] = lambda _: None,
) -> Execution | Waits:
    """The object after these *records*, which follow *kept*; its state may be saved. *definition* has the
    class of their time; *is_stand_in*: another that a person lets take its place, and then outcomes may
    differ; *prepare* is given the object before any of them. Raises what the class raises, ``OtherCode`` when
    they are not its own, and ``Diverged`` at the first outcome that is not the recorded one: that object is
    not the one that answered (E8)."""
    (execution,) = (each for each in loading(definition, lambda: kept) if each is not None)
    prepare(execution)
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
