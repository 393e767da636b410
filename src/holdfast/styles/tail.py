"""What a host keeps of a group, stretch by stretch: which code made which part of it (E7).

A checkpoint and the records that follow it. The code of a record is that of the last `Upgraded` at or before
it, and before the first of them that of the checkpoint. Most records are told by one byte, and not decoded.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from holdfast.model.code import UNKNOWN, Code
from holdfast.model.csn import ZERO
from holdfast.model.ids import ClientId, Position
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.storage.record import Record as Stored
from holdfast.styles.operation import (
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
from holdfast.styles.saving import head_of


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
