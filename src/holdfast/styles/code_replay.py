"""A member whose class is not the one that made what it holds: how it comes to an object (E7).

What other code made is executed by that code, in a process of its own (:class:`.ports.OldCode`), stretch by
stretch; the state at the end of each is this host's checkpoint, and what comes next is loaded from there. So
the member gets either to where its own class has gone on before, or, as primary, to the end of all that is
committed, from where it may go on if :attr:`.ports.StylePorts.why_not_upgrade` lets it. Until then it has no
object, and says why.

A backup is in no hurry: others serve. It has old code at work only where that leads to its own, or when its
log has grown long; a state that the primary sends among the records is kept as it is.

What a host keeps of a group, stretch by stretch: which code made which part of it (E7).

A checkpoint and the records that follow it. The code of a record is that of the last `Upgraded` at or before
it, and before the first of them that of the checkpoint. Most records are told by one byte, and not decoded.
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
"""The tags of what no code executes: it speaks of what has been executed already."""


@dataclass(slots=True)
class Stretch:
    """Records that one code made, one after the other."""

    code: Code
    first: Position
    last: Position
    operations: int = 0
    """Positions in it that only that code can execute."""


class Tail:
    """A checkpoint (None: the beginning of the group), and the records after it as far as they were read."""

    def __init__(self, kept: Kept | None) -> None:
        self.kept = kept
        self.start = kept.position if kept is not None else Position(0)
        head = head_of(chunks_of(kept)) if kept is not None and kept.size else None
        self.stretches = [Stretch(head.code if head is not None else UNKNOWN, self.start, self.start)]
        if head is not None and head.queue:
            self.stretches[0].operations = len(head.queue)
        self.bytes = 0
        """Of the records."""
        self.state: tuple[Position, bytes] | None = None
        """The last state that was among the records: of the position, and what it is."""

    @property
    def read_to(self) -> Position:
        return self.stretches[-1].last

    @property
    def code(self) -> Code:
        """That made the last of it."""
        return self.stretches[-1].code

    def take(self, records: Iterable[Stored]) -> None:
        """The next ones, in their order."""
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
        """The first stretch that only other code than *here* can bring the object through; None when the
        class as it is here can go on from the checkpoint to the end of what was read."""
        for number, stretch in enumerate(self.stretches):
            # A state is loaded by whoever goes on from it; but who goes on at an upgrade is said there.
            if not stretch.code.is_same(here) and (stretch.operations or number):
                return stretch
        return None

    def first(self) -> Stretch:
        """The first stretch in which anything is executed: it comes first, also where a later one is the
        reason for which a process with its code is needed."""
        return next(
            (each for number, each in enumerate(self.stretches) if each.operations or number),
            self.stretches[0],
        )

    def leads_to(self, here: Code) -> bool:
        """Whether the class as it is here has gone on somewhere in it, after other code."""
        return any(stretch.code.is_same(here) for stretch in self.stretches[1:])


WORDS_MAX: Final = 300
"""Of why, for people."""
TRIED: Final = "a kept copy was tried, and"
"""In why, where old code has failed."""


class WaitsForCode(HoldfastError):
    """Raised when no object can be had here, since what the group holds was made by other code."""

    code = "waits_for_code"


class CodeReplay:
    """Of one member. *keep* makes a checkpoint of a state, *on_kept* is told that there is a newer one."""

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
        """From a checkpoint there the class as it is here may go on."""
        self.is_met = False
        """What this host keeps was made by other code, as far as was seen: no object is made of it here."""
        self.why = ""
        """Why not, for people."""
        self.wants: Position | None = None
        """A state of the primary's that stands for so much would help; None: none is needed."""
        self.waits: Waits | None = None
        """At the end of the records a method of the other code waits for this."""
        self._tail: Tail | None = None
        self._scan: Iterator[None] | None = None
        self._is_running = False
        self._about = ""
        """What is executed by old code, or was last, in words."""
        self._failures = 0
        self._not_before = 0

    def meet(self, why: str = "") -> None:
        """Other code has made what would have to be executed next."""
        self.is_met = True
        self.why = self.why or why
        self._tail = self._scan = None

    def check_state(self, code: Code, position: Position, *, leads: bool) -> None:
        """That a state of that code may be loaded here: by its own, or by whoever goes on from it. Raises
        :class:`holdfast.execution.definition.OtherCode`."""
        here = self._definition.code
        if not code.is_same(here) and not leads and self._free_from != position:
            raise OtherCode(position, code, here)

    def check_kept(self, *, leads: bool) -> None:
        """The same of the newest checkpoint, before it is loaded."""
        kept = self._ports.checkpoint()
        if kept is not None and kept.size and not leads and self._free_from != kept.position:
            self.check_state(head_of(chunks_of(kept)).code, kept.position, leads=False)

    def forget(self) -> None:
        """What this host keeps is another than before, or what is done for it is not wanted any more."""
        self.drop()
        self.is_met = False
        self.wants = None
        self.why = ""

    def drop(self) -> None:
        """End what is under way."""
        self._tail = self._scan = self.waits = None
        if self._is_running and self._ports.old_code is not None:
            self._is_running = False
            self._ports.old_code.drop()

    def look(self, sequence: Sequence, *, leads: bool) -> bool:
        """Do what can be done now, for a slice of time; whether the way is free: the class as it is here can
        go on from the newest checkpoint to the end of what is committed. *leads*: the group waits for this
        member. Raises ``Overloaded`` when records cannot be read just now, and :class:`WaitsForCode` where
        only a person or another host can help."""
        if not self.is_met:
            return True
        if self._is_running:
            return False
        if self._ports.clock.now() < self._not_before:
            if leads and self._failures > 1:
                raise WaitsForCode(self.why)  # another member may be able
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

    # --- what there is

    def _read(self, sequence: Sequence) -> Tail | None:
        """What this host keeps, up to what is committed; None while that takes longer than a slice."""
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
        # The primary's own word on what its state was: no code is needed to keep it.
        self._keep(Captured(*tail.state))
        self._tail = None
        self._ports.again()
        return None

    def _scanned(self, tail: Tail, sequence: Sequence) -> Iterator[None]:
        for records in pages(sequence, tail.read_to, sequence.committed):
            tail.take(records)
            yield None

    # --- old code at work

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
        """What a backup asks its primary for that cannot bring its own state forward: one from which its own
        class has gone on, or any newer one before its log is full."""
        if tail.code.is_same(self._definition.code):
            return tail.stretches[-1].first
        return Position(tail.start + 1) if tail.bytes >= self._config.checkpoint_bytes else None

    def _may_replay(self, code: Code) -> bool:
        """Whether the class as it is here does it, though other code made it: a person says so, and nobody
        can ask the other any more."""
        old_code = self._ports.old_code
        is_kept = old_code is not None and old_code.is_kept(code)
        return not is_kept and self._ports.may_replay(code)

    def _is_answer_awaited(self, stretch: Stretch) -> bool:
        """Whether a method waits in the middle where the records end: more of them must come first."""
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
        """*does*: what becomes of a kept copy, where there is one."""
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
