"""The records of a group's sequence: what its members execute, replay, and agree on.

One record stands for one or more positions. A batch of calls takes a position for each call and is kept as
the client sent it, duplicates included: every replay judges them by the same table and the same CSN and so
decides the same (X2). All other records take one position.

=============  =====================================================================================
`Calls`        ordered, executed by whoever reads them: active groups, and calls that had to wait
`Executed`     executed by a passive primary before they were ordered, with their outcomes (E1)
`Replied`      outcomes of calls that were ordered as `Calls` (E1)
`NestedReply`  the outcome of a call to another group: whoever waits for it resumes from here (E3)
`TimerFired`   a durable timer has fallen due (E6)
`Settled`      somebody asked for a request's outcome: if it has not run, it never will (X3)
`Poison`       a call that ended processes is given up (E4)
`Withdrawn`    a call that stands in line and has not begun never will (E10, X3)
`SendEnded`    a call that the group sent and waited for nobody with has ended (E13)
`Upgraded`     from here on other code of the class executes, from the state that it has loaded (E7)
`State`        the primary's whole state, for warm backups (FTC-308)
`Update`       what changed since the last `State` or `Update`
`Forward`      warm backups may replay up to here: what changed is cheaper to compute than to send (E5)
`Marked`       every member of an active group captures its state here; operations that are interleaved begin
               no more until the object has been at rest (E12)
`Unmarked`     that took too long: they begin again (E12)
`Digested`     what the primary's state at a mark came to; one that differs has diverged (E1)
=============  =====================================================================================

Setting and cancelling a timer are no records: they are effects of the method that does it, and a replay of
that method repeats them.

New fields get defaults and go last; samples of every version are kept in ``tests/compat``.

Outcomes in records of a bearable length: what is too long for one record is cut into several.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Final, cast

import msgspec
from msgspec import Meta

from holdfast.model.calls import METHOD_CHARACTERS_MAX, Client, Number, Request
from holdfast.model.code import Code
from holdfast.model.csn import Csn
from holdfast.model.deadlock import Root
from holdfast.model.ids import SECOND, ClientId, Position
from holdfast.model.outcome import Poisoned, encode_outcome
from holdfast.model.set_order import in_order
from holdfast.model.traceparent import TRACEPARENT_BYTES


class Call(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One call as its client sent it. What breaks a bound is refused where it is decoded: once a record is
    being executed, nothing may fail any more."""

    number: Number
    method: str
    arguments: msgspec.Raw
    """An array of positional arguments, or a map of named ones whose key ``*`` holds the positional."""
    expiration_s: int
    """In the group's time (X4)."""

    @property
    def traceparent(self) -> bytes:
        """A :class:`holdfast.model.traceparent.Traceparent`, encoded; empty when its maker has none."""
        return b""


class TracedCall(Call, frozen=True, array_like=True, gc=False):
    """One whose maker has a trace. Calls are made as either and read as this: most of them carry none, and
    take not a byte more for it."""

    traceparent: Annotated[bytes, Meta(max_length=TRACEPARENT_BYTES)] = b""


class SentCall(TracedCall, frozen=True, array_like=True, gc=False):
    """One that just came. What is in a log already is read whatever it is: it was executed, and is again."""

    method: Annotated[str, Meta(max_length=METHOD_CHARACTERS_MAX)]


def traced(call: Call, traceparent: bytes) -> Call:
    """The same call, carrying that; itself if that is empty."""
    if not traceparent:
        return call
    return TracedCall(call.number, call.method, call.arguments, call.expiration_s, traceparent)


class Stamp(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """When the primary ordered a record: its CSN, and the nanoseconds since the CSN's second."""

    csn: Csn
    nanos: int = 0

    @property
    def time_ns(self) -> int:
        return self.csn.timestamp * SECOND + self.nanos

    def part(self, offset: int) -> "Stamp":
        """Of the part of a batch that begins so many calls after its first."""
        return Stamp(self.csn.part(self.csn.sub_sequence + offset), self.nanos) if offset else self


class Sent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Calls of one client's frame, as they came. ``calls`` is a list of :class:`Call`."""

    client: Client
    floor: Number
    """The lowest number the client still awaits."""
    horizon_s: int
    """The latest expiration it has ever used."""
    calls: msgspec.Raw
    chain: tuple[str, ...] = ()
    """The groups that wait for these calls, outermost first (E3)."""
    root: Root | None = None
    """The request for which the first of them waits; None: these calls are for nobody else's (E10)."""

    @property
    def is_ordered(self) -> bool:
        """Whether the calls run in the order of the frame, queries among them too (X5)."""
        return False

    def of(self, calls: list[Call]) -> "Sent":
        """The same frame with these calls only."""
        return msgspec.structs.replace(self, calls=encode_calls(calls))


class LaneSent(Sent, frozen=True, array_like=True, gc=False):
    """A frame of a lane. Frames are made as either and read as this, as calls are (:class:`TracedCall`)."""

    is_ordered: bool = False


class Calls(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    stamp: Stamp
    sent: Sent


class Executed(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    stamp: Stamp
    sent: Sent
    outcomes: list[bytes]
    """One for each call, in their order."""


class Reply(msgspec.Struct, frozen=True, array_like=True, gc=False):
    client: ClientId
    number: int
    outcome: bytes

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)


class Replied(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    replies: list[Reply]


class NestedReply(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    stamp: Stamp
    client: ClientId
    number: int
    """With *client*, the request that made the call."""
    call: int
    """Which of its calls, counted from 1."""
    outcome: bytes

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)


class TimerFired(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    stamp: Stamp
    timer: int
    due_ns: int
    """As the timer was set; with *timer*, it makes a firing unique."""


class Settled(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    stamp: Stamp
    client: ClientId
    number: int
    expiration_s: int


class Poison(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    stamp: Stamp
    client: ClientId
    number: int
    expiration_s: int
    attempts: int
    call: str = ""
    """The call, for people."""

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)

    @property
    def outcome(self) -> bytes:
        return encode_outcome(Poisoned(self.attempts, self.call))


class Withdrawn(msgspec.Struct, frozen=True, array_like=True, tag=14, gc=False):
    """If the call still stands in line and has not begun, it never will, and this is its outcome."""

    stamp: Stamp
    client: ClientId
    number: int
    outcome: bytes

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)


class SendEnded(msgspec.Struct, frozen=True, array_like=True, tag=21, gc=False):
    stamp: Stamp
    number: int
    """In the outbox."""
    code: str
    """Empty if its receiver has executed it."""
    text: str


class Upgraded(msgspec.Struct, frozen=True, array_like=True, tag=8, gc=False):
    from_code: Code
    to_code: Code


class State(msgspec.Struct, frozen=True, array_like=True, tag=9, gc=False):
    saved: bytes
    """Everything :meth:`.execution.Execution.save` gives, as of the position before this record."""


class Update(msgspec.Struct, frozen=True, array_like=True, tag=10, gc=False):
    update: bytes
    """What ``get_update`` gave, as of the position before this record."""
    timers: bytes
    sends: bytes = b""


class Forward(msgspec.Struct, frozen=True, array_like=True, tag=11, gc=False):
    is_mark: bool = False
    """The primary captures its state before this record, or at its next moment of rest, and so do the others:
    a :class:`Digested` follows, and whoever has another gives its object up (E8)."""


class Marked(msgspec.Struct, frozen=True, array_like=True, tag=12, gc=False):
    pass


class Unmarked(msgspec.Struct, frozen=True, array_like=True, tag=20, gc=False):
    pass


class Digested(msgspec.Struct, frozen=True, array_like=True, tag=13, gc=False):
    position: Position
    """Of the mark."""
    digest: bytes


Record = (
    Calls
    | Executed
    | Replied
    | NestedReply
    | TimerFired
    | Settled
    | Poison
    | Withdrawn
    | SendEnded
    | Upgraded
    | State
    | Update
    | Forward
    | Marked
    | Unmarked
    | Digested
)
Stamped = Calls | Executed | NestedReply | TimerFired | Settled | Poison | Withdrawn | SendEnded
"""Those that move the group's time on."""

_records: Final[msgspec.msgpack.Decoder[Record]] = msgspec.msgpack.Decoder(Record)
_calls: Final = msgspec.msgpack.Decoder(list[TracedCall])
_sent_calls: Final = msgspec.msgpack.Decoder(list[SentCall])
_encode: Final = msgspec.msgpack.Encoder().encode


def stamp_of(record: Record) -> Stamp | None:
    """When it was ordered; None for one that takes no time of its own."""
    return record.stamp if isinstance(record, Stamped) else None


def ends_of_portions(lengths: list[int], bytes_max: int) -> list[int]:
    """Where to cut what has these *lengths*, so that no portion is longer, unless it is a single one."""
    ends: list[int] = []
    size = 0
    for index, length in enumerate(lengths):
        size += length
        if size > bytes_max and index > (ends[-1] if ends else 0):
            ends.append(index)
            size = length
    return [*ends, len(lengths)] if lengths else []


def encode_record(record: Record) -> bytes:
    return _encode(record)


def decode_record(body: bytes) -> Record:
    """Raises ``msgspec.DecodeError`` for anything that is not a record."""
    return _records.decode(body)


def decode_calls(calls: msgspec.Raw | bytes) -> list[Call]:
    """Raises ``msgspec.DecodeError`` for anything that is not a list of calls."""
    return cast(list[Call], _calls.decode(calls))


def decode_sent_calls(calls: msgspec.Raw | bytes) -> list[Call]:
    """The same for calls that just came, which also keep their bounds (:class:`SentCall`)."""
    return cast(list[Call], _sent_calls.decode(calls))


def encode_calls(calls: list[Call]) -> msgspec.Raw:
    return msgspec.Raw(_encode(calls))


def encode_arguments(args: tuple[object, ...], kwargs: dict[str, object]) -> msgspec.Raw:
    """Arguments as a call carries them. Raises ``TypeError`` for what msgpack has no form for."""
    if not kwargs:
        return msgspec.Raw(_encode(args))
    return msgspec.Raw(_encode({**kwargs, "*": args} if args else kwargs))


def encode_arguments_in_order(args: tuple[object, ...], kwargs: dict[str, object]) -> msgspec.Raw:
    """The same for a call that a method makes: every member encodes it, and sets have one order."""
    return encode_arguments(in_order(args), in_order(kwargs))


CALL_BYTES: Final = 64
"""What a record has of a call beside its method, arguments and outcome, at most: numbers, and a trace."""


def executed_parts(
    stamp: Stamp, sent: Sent, calls: list[Call], outcomes: list[bytes], bytes_max: int
) -> Iterator[tuple[Executed, list[Call]]]:
    """The calls of one frame, all of which have ended, as records that follow each other; and with each the
    calls it holds."""
    begin = 0
    lengths = [
        len(each.arguments) + len(each.method.encode()) + CALL_BYTES + len(ended)
        for each, ended in zip(calls, outcomes, strict=True)
    ]
    for end in ends_of_portions(lengths, bytes_max):
        part = calls[begin:end]
        yield Executed(stamp.part(begin), sent.of(part), outcomes[begin:end]), part
        begin = end


def alike_parts(
    stamp: Stamp, calls: list[Call], outcomes: list[bytes | None]
) -> Iterator[tuple[Stamp, list[Call], list[bytes]]]:
    """Runs of calls that have all ended, with their outcomes, and of calls that all wait, with none."""
    begin = 0
    for _, run in groupby(outcomes, lambda outcome: outcome is None):
        alike = list(run)
        end = begin + len(alike)
        yield stamp.part(begin), calls[begin:end], [outcome for outcome in alike if outcome is not None]
        begin = end


def replied_parts(replies: list[Reply], bytes_max: int) -> list[Replied]:
    """Outcomes of calls that were ordered earlier, as records that follow each other."""
    if not replies:
        return []
    begin, parts = 0, []
    lengths = [len(each.client.encode()) + CALL_BYTES + len(each.outcome) for each in replies]
    for end in ends_of_portions(lengths, bytes_max):
        parts.append(Replied(replies[begin:end]))
        begin = end
    return parts
