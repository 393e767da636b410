"""How a member gets an object if other code than its own class made what it holds (E7).

Records made by other code are executed by that code, in a separate process (:class:`.ports.OldCode`), one
stretch at a time. The state at the end of each stretch becomes this host's checkpoint, and the next stretch
starts from there. So the member reaches the position at which its own class continued earlier, or, as
primary, the end of what is committed, from where it may continue if :attr:`.ports.StylePorts.why_not_upgrade`
allows it. Until then it has no object, and reports why.

A backup is in no hurry, because other members serve. It runs old code only if that leads to its own class, or
if its log has grown long; a state that the primary sends among the records is kept as it is.

:class:`Tail` divides what a host keeps, a checkpoint and the records after it, into stretches by the code
that made them. The code of a record is that of the last `Upgraded` at or before it, or that of the checkpoint
if there is none. Most records are recognized by one byte and not decoded.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from holdfast.execution.definition import Definition, OtherCode
from holdfast.execution.records import (
    Digested,
    Forward,
    Marked,
    Record,
    Replied,
    Settled,
    Stamp,
    State,
    Upgraded,
    decode_record,
    encode_record,
)
from holdfast.execution.saved_state import head_of
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.csn import ZERO
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import ClientId, Position
from holdfast.sequence.ports import Captured, Kept, chunks_of
from holdfast.storage.record import Record as Stored
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import Copied, NotCopied, Sequence, StylePorts, Waits
from holdfast.styles.replay import pages


def _tag(record: Record) -> bytes:
    return encode_record(record)[1:2]


UPGRADED: Final = _tag(Upgraded(UNKNOWN, UNKNOWN))
STATE: Final = _tag(State(b""))
_WITHOUT_CODE: Final = frozenset(
    _tag(each)
    for each in (
        State(b""),
        Forward(),
        Marked(),
        Digested(Position(0), b""),
        Replied([]),
        Settled(Stamp(ZERO), ClientId(""), 1, 0),
    )
)
"""The tags of records that need no code, because they describe what has been executed already."""


@dataclass(slots=True)
class Stretch:
    """Consecutive records that one version of the code made."""

    code: Code
    first: Position
    last: Position
    operations: int = 0
    """How many positions of the stretch only that code can execute."""


class Tail:
    """A checkpoint (None: the start of the group), and the records after it as far as they have been read."""

    def __init__(self, kept: Kept | None) -> None:
        self.kept = kept
        self.start = kept.position if kept is not None else Position(0)
        head = head_of(chunks_of(kept)) if kept is not None and kept.size else None
        self.stretches = [Stretch(head.code if head is not None else UNKNOWN, self.start, self.start)]
        if head is not None and head.queue:
            self.stretches[0].operations = len(head.queue)
        self.bytes = 0
        """The size of the records."""
        self.state: tuple[Position, bytes] | None = None
        """The last state among the records: its position and its bytes."""

    @property
    def read_to(self) -> Position:
        return self.stretches[-1].last

    @property
    def code(self) -> Code:
        """The code that made the last records."""
        return self.stretches[-1].code

    def take(self, records: Iterable[Stored]) -> None:
        """Add the next records, in order."""
        for each in records:
            if each.first <= self.read_to:
                continue
            tag = each.body[1:2]
            self.bytes += len(each.body)
            if tag == UPGRADED:
                record = decode_record(each.body)
                assert isinstance(record, Upgraded)
                self.stretches.append(Stretch(record.to_code, each.first, each.last))
                continue
            if tag == STATE:
                record = decode_record(each.body)
                assert isinstance(record, State)
                self.state = Position(each.first - 1), record.saved
            stretch = self.stretches[-1]
            stretch.last = each.last
            if tag not in _WITHOUT_CODE:
                stretch.operations += each.count

    def foreign(self, here: Code) -> Stretch | None:
        """The first stretch that only code other than *here* can execute; None if the class loaded here can
        continue from the checkpoint to the end of what was read."""
        for number, stretch in enumerate(self.stretches):
            # A state may be loaded by the code that continues from it; but an upgrade names the code that
            # continues.
            if not stretch.code.is_same(here) and (stretch.operations or number):
                return stretch
        return None

    def first(self) -> Stretch:
        """The first stretch in which anything is executed. It must be executed first, even if a later stretch
        is the one that needs old code."""
        return next(
            (each for number, each in enumerate(self.stretches) if each.operations or number),
            self.stretches[0],
        )

    def leads_to(self, here: Code) -> bool:
        """Whether the class loaded here continues somewhere in the records, after other code."""
        return any(stretch.code.is_same(here) for stretch in self.stretches[1:])


WORDS_MAX: Final = 300
"""The most characters of a reason."""
TRIED: Final = "a kept copy was tried, and"
"""Marks a reason for which old code was tried and failed."""


class WaitsForCode(HoldfastError):
    """Raised when no object can be made here, because other code made what the group holds."""

    code = "waits_for_code"


class CodeReplay:
    """Replays with old code what one member holds. *keep* makes a checkpoint from a state; *on_kept* is
    called when there is a newer one."""

    def __init__(
        self,
        definition: Definition,
        ports: StylePorts,
        config: StyleConfig,
        keep: Callable[[Captured], None],
        on_kept: Callable[[Position, int], None],
    ) -> None:
        self._definition = definition
        self._ports = ports
        self._config = config
        self._keep = keep
        self._on_kept = on_kept
        self._free_from: Position | None = None
        """The position of a checkpoint from which the class loaded here may continue."""
        self.is_met = False
        """Whether other code made what this host keeps, as far as is known; then no object is made from it
        here."""
        self.why = ""
        """Why not, for people."""
        self.wants: Position | None = None
        """A state of the primary at this position or later would help; None if no state is needed."""
        self.waits: Waits | None = None
        """The call that a method of the other code waits for at the end of the records."""
        self._tail: Tail | None = None
        self._scan: Iterator[None] | None = None
        self._is_running = False
        self._about = ""
        """A description of what old code executes now or executed last."""
        self._failures = 0
        self._not_before = 0
        self._unfit: Code | None = None
        """The code whose kept copy failed last; None once the class loaded here has failed in its place, so
        that each is tried in turn."""
        self._copy: Code | None = None
        """The code whose kept copy runs or ran last; None if the class loaded here replays in its place."""

    def tune(self, config: StyleConfig) -> None:
        self._config = config

    def meet(self, why: str = "") -> None:
        """Record that other code made what would have to be executed next."""
        self.is_met = True
        self.why = self.why or why
        self._tail = self._scan = None

    def check_state(self, code: Code, position: Position, *, leads: bool) -> None:
        """Check that a state made by *code* may be loaded here: by the same code, or by the code that
        continues from it. Raises :class:`holdfast.execution.definition.OtherCode`."""
        here = self._definition.code
        if not code.is_same(here) and not leads and self._free_from != position:
            raise OtherCode(position, code, here)

    def check_kept(self, *, leads: bool) -> None:
        """Check the newest checkpoint in the same way, before it is loaded."""
        kept = self._ports.checkpoint()
        if kept is not None and kept.size and not leads and self._free_from != kept.position:
            self.check_state(head_of(chunks_of(kept)).code, kept.position, leads=False)

    def forget(self) -> None:
        """Start over: what this host keeps has changed, or the work for it is no longer needed."""
        self.drop()
        self.is_met = False
        self.wants = None
        self.why = ""

    def drop(self) -> None:
        """Stop the work in progress."""
        self._tail = self._scan = self.waits = None
        if self._is_running and self._ports.old_code is not None:
            self._is_running = False
            self._ports.old_code.drop()

    def look(self, sequence: Sequence, *, leads: bool) -> bool:
        """Work for one slice of time. Returns whether nothing stands in the way: the class loaded here can
        continue from the newest checkpoint to the end of what is committed.

        *leads* means that the group waits for this member. Raises ``Overloaded`` if records cannot be read
        now, and :class:`WaitsForCode` if only an operator or another host can help.
        """
        if not self.is_met:
            return True
        if self._is_running:
            return False
        is_to_replay = leads and self._unfit is not None and self._may_replay(self._unfit)
        if self._ports.clock.now() < self._not_before and not is_to_replay:
            if leads and self._failures > 1:
                raise WaitsForCode(self.why)  # another member may be able to serve
            return False
        tail = self._read(sequence)
        if tail is None:
            return False
        self.wants = None
        here = self._definition.code
        foreign = tail.foreign(here)
        if foreign is None:
            if leads or tail.code.is_same(here):
                self._free_from = tail.start
                self.is_met, self.why, self._tail = False, "", None
                return True
            self.why = f"the group's code is {tail.code}; here is {here}"
            return False
        if not tail.code.is_same(here) and leads:
            self._check_allowed(tail.code)
        self._bring_through(tail, foreign, sequence, leads=leads)
        return False

    def _check_allowed(self, code: Code) -> None:
        why = self._ports.why_not_upgrade(code)
        if why:
            self.why = why[:WORDS_MAX]
            raise WaitsForCode(self.why)

    # --- reading what this host keeps

    def _read(self, sequence: Sequence) -> Tail | None:
        """Read what this host keeps, up to what is committed; returns None while that takes longer than a
        slice."""
        kept = self._ports.checkpoint()
        if self._tail is None or self._tail.start != (kept.position if kept is not None else 0):
            self._tail, self._scan = Tail(kept), None
        tail = self._tail
        if self._scan is None:
            self._scan = self._scanned(tail, sequence)
        until_ns = self._ports.clock.now() + self._config.slice_ns
        for _ in self._scan:
            if self._ports.clock.now() >= until_ns:
                self._ports.again()
                return None
        self._scan = None
        if tail.state is None or tail.state[0] <= tail.start:
            return tail
        # The primary itself sent this state, so no code is needed to keep it.
        self._keep(Captured(*tail.state))
        self._tail = None
        self._ports.again()
        return None

    def _scanned(self, tail: Tail, sequence: Sequence) -> Iterator[None]:
        for records in pages(sequence, tail.read_to, sequence.committed):
            tail.take(records)
            yield None

    # --- running old code

    def _bring_through(self, tail: Tail, foreign: Stretch, sequence: Sequence, *, leads: bool) -> None:
        here, old_code = self._definition.code, self._ports.old_code
        self.why = self._in_words(tail, foreign, "can execute them")
        stretch = tail.first()
        by = here if leads and self._may_replay(stretch.code) else stretch.code
        if old_code is None or not old_code.is_kept(by):
            if leads:
                raise WaitsForCode(self.why)
            self.wants = self._wanted(tail)
            return
        is_long = tail.bytes >= self._config.checkpoint_bytes
        if not (leads or tail.leads_to(here) or is_long) or self._is_answer_awaited(stretch):
            return
        records = self._records(sequence, tail, stretch.last)
        end, kept = stretch.last, tail.kept
        self._is_running = old_code.begin(
            stretch.code, kept, records, end, lambda result: self._ended(end, result), by
        )
        if self._is_running:
            self._copy = stretch.code if by is stretch.code else None
            self.why = self._in_words(tail, foreign, "executes them now")
            self._about = self._made_by(tail, foreign)
            self._ports.trace.note(
                "old_code",
                group=self._definition.group,
                code=str(stretch.code),
                after=tail.start,
                up_to=end,
            )
        else:
            self._not_before = self._ports.clock.now() + self._config.copy_retry_ns

    def _wanted(self, tail: Tail) -> Position | None:
        """The position of the state that a backup requests from the primary if it cannot advance its own: one
        from which its own class continues, or any newer one before its log is full."""
        if tail.code.is_same(self._definition.code):
            return tail.stretches[-1].first
        return Position(tail.start + 1) if tail.bytes >= self._config.checkpoint_bytes else None

    def _may_replay(self, code: Code) -> bool:
        """Whether the class loaded here replays what other code made: an operator has ordered it, and the
        other code is not available any more, or its kept copy failed."""
        old_code = self._ports.old_code
        is_kept = old_code is not None and old_code.is_kept(code) and self._unfit != code
        return not is_kept and self._ports.may_replay(code)

    def _is_answer_awaited(self, stretch: Stretch) -> bool:
        """Whether a method waits for another group where the records end, so that more records must come
        first."""
        return self.waits is not None and stretch.last <= self.waits_at

    def _records(self, sequence: Sequence, tail: Tail, last: Position) -> Iterator[Stored]:
        for records in pages(sequence, tail.start, last):
            yield from records

    def _ended(self, position: Position, result: Copied | NotCopied | Waits) -> None:
        if not self._is_running:
            return
        old_code = self._ports.old_code
        assert old_code is not None
        self.waits = None
        if self._copy is not None or isinstance(result, NotCopied):
            self._unfit = self._copy if isinstance(result, NotCopied) else None
        match result:
            case Copied(size=size):
                old_code.keep(lambda is_kept: self._kept(position, size, is_kept=is_kept))
                return
            case Waits():
                self._is_running = False
                self.waits, self.waits_at = result, position
            case NotCopied(why=why):
                self._is_running = False
                self._failed(why or "the object had no state to give")
        self._ports.again()

    waits_at = Position(0)
    """Where the records ended when :attr:`waits` was found."""

    def _kept(self, position: Position, size: int, *, is_kept: bool) -> None:
        if not self._is_running:
            return
        self._is_running = False
        self._failures = 0
        if is_kept:
            self._tail = self._scan = None
            self._on_kept(position, size)
        self._ports.again()

    def _failed(self, why: str) -> None:
        pause_ns = min(self._config.copy_retry_ns << self._failures, self._config.copy_retry_most_ns)
        self._failures = min(self._failures + 1, self._config.copy_retry_most_ns.bit_length())
        self._not_before = self._ports.clock.now() + pause_ns
        self.why = f"{self._about}: {TRIED} {why}"[:WORDS_MAX]
        self._ports.fault("other_code", self.why)

    def _in_words(self, tail: Tail, foreign: Stretch, does: str) -> str:
        """Describe the situation; *does* says what happens with a kept copy of the code, if there is one."""
        said, old_code = self._made_by(tail, foreign), self._ports.old_code
        if old_code is not None and old_code.is_kept(foreign.code):
            return f"{said}: a kept copy of {foreign.code} {does}"[:WORDS_MAX]
        helps = f"put {foreign.code} back, or `holdfast group upgrade {self._definition.group} --replay`"
        return f"{said}: {helps}"[:WORDS_MAX]

    def _made_by(self, tail: Tail, foreign: Stretch) -> str:
        since = f"checkpoint {tail.start}" if tail.start else "the beginning"
        were = "operation since {} was" if foreign.operations == 1 else "operations since {} were"
        said = f"{foreign.operations} {were.format(since)} made by code {foreign.code}"
        return f"{said}; here is {self._definition.code}"
