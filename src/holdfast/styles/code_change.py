"""A replica's part in a change of its class: replaying old records, loading states, and upgrading (E7).

:mod:`.code_replay` finds out which old code must execute which records. :class:`CodeChange` is the replica's
part: it makes an object once nothing stands in the way, makes the calls that a method of the old code waits
for, as any primary would, and orders the record from which the class loaded here takes over.

:func:`continued` executes old records with the class that made them. A member with another class cannot do
that itself, so the host keeps the old sources and runs this function in a separate process; the class loaded
here then loads the resulting state. :class:`Loading` makes an object from the newest checkpoint that the host
keeps.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from holdfast.execution.definition import Definition, OtherCode
from holdfast.execution.execution import Execution
from holdfast.execution.method import fitted
from holdfast.execution.records import (
    Annexed,
    Calls,
    NestedReply,
    Poison,
    Ran,
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
    """One member's part in a change of the class. *begin* makes the object from what this host keeps,
    replacing any existing one."""

    def __init__(
        self,
        definition: Definition,
        ports: StylePorts,
        code_replay: CodeReplay,
        stamping: Stamper,
        calling_out: OutgoingCalls,
        observers: CallObservers,
        sequence: Callable[[], Sequence],
        begin: Callable[[], None],
        submit: Callable[[Record], object],
    ) -> None:
        self._definition = definition
        self._ports = ports
        self._code_replay = code_replay
        self._stamping = stamping
        self._calling_out = calling_out
        self._observers = observers
        self._sequence = sequence
        self._begin = begin
        self._submit = submit
        self._old_waits: Waits | None = None
        """The nested call of a method of the old code that this primary has made."""

    def may_make_object(self, *, may_order: bool) -> bool:
        """Whether the class loaded here may make an object from what is kept. If a method of the old code
        waits for another group, its call is made first, as by any primary."""
        if not self._code_replay.is_met:
            return True
        sequence = self._sequence()
        if self._code_replay.look(sequence, leads=True):
            self._begin()
            return True
        waits = self._code_replay.waits
        if waits is not None and may_order:
            if self._old_waits is not waits:
                self._old_waits = waits
                self._calling_out.take_up(sequence.committed)
                self._stamping.resume(waits.csn, waits.time_ns)
            if waits.outgoing is None:
                self._end_slow(waits)
                return False
            outgoing = self._calling_out.for_old_code(waits.outgoing)
            if outgoing is not None:
                self._ports.call_out(self._observers.calls_out(outgoing))
        return False

    def _end_slow(self, waits: Waits) -> None:
        """Order the end of a slow method of the old code, which computes it where it replays that record
        (E15)."""
        invariant(waits.slow is not None, "old code waits for a call or for the end of a slow method")
        assert waits.slow is not None  # for the type checker: the invariant has stopped us otherwise
        with suppress(Rejected, Unavailable):
            self._submit(Ran(self._stamping.next(), *waits.slow))
            self._code_replay.waits = None
            self._ports.again()

    def answer(
        self, caller: Request, call: int, outcome: bytes, submit: Callable[[Record], object] | None
    ) -> None:
        """Order the answer to a nested call of the old code. The waiting method is not in this process; it
        resumes from the record. Without *submit* no record can be ordered; another primary calls again."""
        if submit is not None:
            with suppress(Rejected, Unavailable):
                submit(NestedReply(self._stamping.next(), *caller, call, fitted(outcome)))
                self._code_replay.waits = None
                self._ports.again()
                return
        self._calling_out.send_again(caller, call)

    def upgrade(self, execution: Execution, order: Callable[[Execution, Upgraded], Position]) -> Position:
        """Let the class loaded here continue from the state that other code has left, by ordering a record:
        every member does the same at its position. Nothing is served until it is committed, so that a crash
        leaves either the old or the new state. Returns the record's position."""
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

    def look_as_backup(self) -> None:
        """As a backup: make an object if the class loaded here is the one that continues in the log."""
        with suppress(Overloaded):
            if self._code_replay.is_met and self._code_replay.look(self._sequence(), leads=False):
                self._begin()

    def meet(self, error: OtherCode) -> None:
        """Handle a record of other code: this member has no object until old code has replayed the record."""
        self._code_replay.meet(str(error))
        self._ports.trace.note("other_code", group=self._definition.group, why=str(error))
        self._ports.again()

    def end_term(self) -> None:
        """Note that this member is no longer primary: the next one makes the calls of the old code."""
        self._code_replay.waits = self._old_waits = None


def loading(definition: Definition, newest: Callable[[], Kept | None]) -> Iterator[Execution | None]:
    """Load the newest state in small steps: yields None after each step, and finally the object, as at
    creation if nothing is kept. The *newest* state is requested when the work starts, because an older one
    may be gone by then. Raises what ``set_state`` raises, and ``Unavailable`` if newer states have replaced
    it meanwhile."""
    kept = newest()
    if kept is None:
        yield Execution(definition)
        return
    for execution in Execution.loading(definition, chunks_of(kept)):
        if execution is not None:
            execution.go_on()
        yield execution


class Loading:
    """Loads one member's object from the newest checkpoint, step by step. *code_replay* decides whether it
    may be loaded here."""

    def __init__(
        self, definition: Definition, newest: Callable[[], Kept | None], code_replay: CodeReplay
    ) -> None:
        self._definition = definition
        self._newest = newest
        self._code_replay = code_replay
        self._work: Iterator[Execution | None] | None = None

    def go_on(self, *, leads: bool) -> Execution | None:
        """Do the next step. Returns the object after the last one. Raises ``Overloaded`` if loading must
        start again, ``OtherCode``, and what :func:`loading` raises."""
        if self._work is None:
            self._code_replay.check_kept(leads=leads)
            self._work = loading(self._definition, self._newest)
        try:
            return next(self._work)
        except Unavailable as error:
            # Newer checkpoints have replaced the one that was being loaded.
            self._work = None
            raise Overloaded(str(error)) from None
        except BaseException:
            self._work = None  # the generator has ended, so loading must start again
            raise

    def forget(self) -> None:
        """Drop what has been loaded so far: it is complete or no longer needed."""
        self._work = None

    def outruns(self, execution: Execution | None, kept: Position) -> bool:
        """Whether a checkpoint can be loaded that is newer than the object, if there is one: a copy that was
        written meanwhile was compared and counts now. The log may begin there, so the object cannot catch up.
        A checkpoint that is still being written, as the one at *kept* may be, does not count: the log reaches
        back to the one before.
        *Without it:* a cold backup replays from the beginning while its copy at 139 is written; the copy
        counts, and the backup, at 74, finds no record 75."""
        if execution is None or execution.position >= kept:
            return False
        newest = self._newest()
        return newest is not None and newest.position > execution.position


def continued(
    definition: Definition,
    kept: Kept | None,
    records: Iterable[Stored],
    *,
    is_stand_in: bool = False,
    prepare: Callable[[Execution], None] = lambda _: None,
) -> Execution | Waits:
    """Return the object after these *records*, which follow *kept*; its state may be saved.

    *definition* has the class that made the records. *is_stand_in* means that an operator lets another class
    take its place; then outcomes may differ. *prepare* gets the object before any record is applied. Raises
    what the class raises, ``OtherCode`` if the records are of other code, and ``Diverged`` at the first
    outcome that differs from the recorded one: that object is not the one that answered (E8).
    """
    (execution,) = (each for each in loading(definition, lambda: kept) if each is not None)
    prepare(execution)
    followed = [(each, decode_record(each.body)) for each in records if each.first > execution.position]
    # A call must be known as given up before it is executed, although the record that says so follows it
    # (E4).
    ends = {record.request: record.outcome for _, record in followed if isinstance(record, Poison)}
    for each, record in followed:
        if ends and isinstance(record, Calls):
            for call in decode_calls(record.sent.calls):
                request = Request(record.sent.client, call.number)
                if request in ends:
                    execution.line.poisoned[request] = ends[request]
        if isinstance(record, Annexed) and not execution.may_apply(record):
            raise Unavailable(f"{record.annex} cannot replay position {each.first} apart from its member")
        effects = execution.apply(each.first, record)
        if effects.divergence and not is_stand_in:
            raise Diverged(effects.divergence, each.last)
    outgoing = execution.outgoing()
    if outgoing is not None:
        return Waits(outgoing, execution.csn, execution.time_ns)
    if execution.line.slow is not None:
        return Waits(None, execution.csn, execution.time_ns, execution.line.slow.request)
    invariant(execution.is_idle, "what does not wait has been run")
    return execution
