"""What the streams of a group put into its sequence (:class:`holdfast.execution.records.Annexed`).

One record has any number of entries, of any streams, in the order in which they take effect.

============  ======================================================================================
`Began`       a stream, or the next life of one, is followed from a number on
`Deliver`     messages with consecutive numbers, in their order; with their content unless
              ``retain="none"``
`Passed`      messages that are never delivered: dropped, or kept back by a rule
`Ruled`       a rule begins; the next number after the last rule's is its
`RuleEnded`   a rule ends
`Decided`     what was decided of a loss, by whom, on which information: for the audit, and as notice
`Lacked`      a leader had to apply an ordered range without content that no server has (O1)
============  ======================================================================================

New fields get defaults and go last.
"""

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.execution.records import ANNEX_POSITIONS_MAX
from holdfast.streams.message import NUMBER_MAX, Message, Number, Origin
from holdfast.streams.rules import Rule

ENTRIES_MAX: Final = 4096
Count = Annotated[int, Meta(ge=1, le=ANNEX_POSITIONS_MAX)]


class Began(Struct, frozen=True, array_like=True, tag=1, gc=False):
    origin: Origin
    mark: Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
    """The number before the first that is expected."""


class Deliver(Struct, frozen=True, array_like=True, tag=2, gc=False):
    origin: Origin
    first: Number
    count: Count
    messages: tuple[Message, ...] = ()
    packed: tuple[bytes, ...] = ()
    """Instead of *messages*: the bytes in which they came, batch after batch (:mod:`.columns`)."""

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def is_carried(self) -> bool:
        """Whether the messages are here, and not only their numbers."""
        return bool(self.messages or self.packed)


class Passed(Struct, frozen=True, array_like=True, tag=3, gc=False):
    origin: Origin
    first: Number
    last: Number
    rule: int = 0
    """The rule that keeps them back; 0 if they are dropped."""


class Ruled(Struct, frozen=True, array_like=True, tag=4, gc=False):
    rule: Rule
    """With a length of time in place of its end, if it has one: it counts from when this record is
    ordered."""


class RuleEnded(Struct, frozen=True, array_like=True, tag=5, gc=False):
    rule: int
    why: str = ""


class Decided(Struct, frozen=True, array_like=True, tag=6, gc=False):
    origin: Origin
    first: Number
    last: Number
    action: str
    """The deed, and "ignore" for each rule with it."""
    by: str
    """The host whose object decided, or why the default was taken."""
    came_to: str = ""
    """What it came to, where that is known: "recovered", or who leads on, or why nothing was done."""
    information: bytes = b""
    """The loss information that the decision was made on, encoded; so it can be made again (LOSS-110)."""


class Lacked(Struct, frozen=True, array_like=True, tag=7, gc=False):
    origin: Origin
    first: Number
    last: Number


Entry = Began | Deliver | Passed | Ruled | RuleEnded | Decided | Lacked
NOTICES: Final = (Passed, Ruled, RuleEnded, Decided, Lacked)


class Ordered(Struct, frozen=True, array_like=True, gc=False):
    """The body of one record."""

    positions: Count
    is_batch: bool
    """Whether the object takes messages in batches (``on_messages``)."""
    notifies: bool
    """Whether the object has ``on_action``."""
    entries: Annotated[tuple[Entry, ...], Meta(max_length=ENTRIES_MAX)]


class _Positions(Struct, frozen=True, array_like=True):
    """The beginning of :class:`Ordered`, read alone."""

    positions: Count


_encode: Final = msgspec.msgpack.Encoder().encode
_ordered: Final = msgspec.msgpack.Decoder(Ordered)
_positions: Final = msgspec.msgpack.Decoder(_Positions)


def is_notice(entry: Entry) -> bool:
    """Whether the application hears of it (``on_action``). What a rule keeps back is told with the rule."""
    return isinstance(entry, Ruled | RuleEnded | Decided | Lacked)


def calls_of(entries: Iterable[Entry], *, is_batch: bool, notifies: bool) -> int:
    """How many methods of the object a record with these entries calls."""
    calls, is_open = 0, False
    for each in entries:
        if isinstance(each, Deliver):
            if not is_batch:
                calls += each.count
            elif not is_open:
                calls, is_open = calls + 1, True
        elif notifies and is_notice(each):
            calls, is_open = calls + 1, False
    return calls


def encode_ordered(entries: tuple[Entry, ...], *, is_batch: bool, notifies: bool) -> bytes:
    """The body of a record with these entries."""
    calls = calls_of(entries, is_batch=is_batch, notifies=notifies)
    return _encode(Ordered(max(1, calls), is_batch, notifies, entries))


def decode_ordered(body: bytes) -> Ordered:
    """Decode a body. Raises ``msgspec.DecodeError`` for anything else."""
    return _ordered.decode(body)


def positions_in(body: bytes) -> int:
    """How many positions a record takes."""
    return _positions.decode(body).positions
