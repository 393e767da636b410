"""The records of a group's sequence: what its members execute, replay and agree on.

One record takes one or more positions. A batch of calls takes one position per call and is kept as the client
sent it, duplicates included: every replay judges the calls by the same table and the same CSN and so decides
the same (X2). A record of an annex says how many positions it takes. All other records take one position.

=============  =====================================================================================
`Calls`        calls that each member executes: in active groups, and calls that had to wait
`Executed`     calls that a passive primary executed before they were ordered, with outcomes (E1)
`Replied`      the outcomes of calls that were ordered as `Calls` (E1)
`Ran`          a slow operation that was ordered as one of `Calls` takes effect here (E15)
`NestedReply`  the outcome of a call to another group: the operation waiting for it resumes (E3)
`TimerFired`   a durable timer has fired (E6)
`Settled`      someone asked for a request's outcome: if it has not run, it never will (X3)
`Poison`       a call that crashed processes is given up (E4)
`Withdrawn`    a call that has not started never will (E10, X3)
`SendEnded`    a one-way call that the group sent has ended (E13)
`Upgraded`     from here on another version of the class executes, from the state it loaded (E7)
`State`        the primary's whole state, for warm backups (FTC-308)
`Update`       what changed since the last `State` or `Update`
`Forward`      warm backups may replay up to here: computing the change is cheaper than sending it (E5)
`Marked`       every member of an active group captures its state here; interleaved operations do not
               start until the object has been at rest (E12)
`Unmarked`     resting took too long: interleaved operations start again (E12)
`Digested`     the digest of the primary's state at a mark; a member with another has diverged (E1)
`Annexed`      a record of another package's kind, for its annex of the object (W9, W10)
=============  =====================================================================================

Setting or cancelling a timer is not a record: it is an effect of a method, and replaying the method repeats
it. New fields get defaults and go last; samples of every version are kept in ``tests/compat``.

:func:`executed_parts` and :func:`replied_parts` split outcomes that are too long for one record.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Annotated, Any, Final

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
    """One call as its client sent it. A call that exceeds a limit is refused when it is decoded, because
    nothing may fail once a record is being executed."""

    number: Number
    method: str
    arguments: msgspec.Raw
    """An array of positional arguments, or a map of named ones whose key ``*`` holds the positional ones."""
    expiration_s: int
    """In the group's time (X4)."""

    @property
    def traceparent(self) -> bytes:
        """An encoded :class:`holdfast.model.traceparent.Traceparent`; empty if the caller has no trace."""
        return b""


class TracedCall(Call, frozen=True, array_like=True, gc=False):
    """A call whose caller has a trace. Calls are written as either type and always read as this one, so that
    calls without a trace, which are most of them, do not take a byte more."""

    traceparent: Annotated[bytes, Meta(max_length=TRACEPARENT_BYTES)] = b""


class SentCall(TracedCall, frozen=True, array_like=True, gc=False):
    """A call that has just arrived, with its limits checked. A call already in a log is read without limits:
    it was executed, and must be executed again."""

    method: Annotated[str, Meta(max_length=METHOD_CHARACTERS_MAX)]


def traced(call: Call, traceparent: bytes) -> Call:
    """Return the call with that trace; the call itself if the trace is empty."""
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
        """The stamp of the part of a batch that starts *offset* calls after the first."""
        return Stamp(self.csn.part(self.csn.sub_sequence + offset), self.nanos) if offset else self


class Sent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The calls of one client's frame, as they arrived. ``calls`` is a list of :class:`Call`."""

    client: Client
    floor: Number
    """The lowest number the client still awaits."""
    horizon_s: int
    """The latest expiration the client has ever used."""
    calls: msgspec.Raw
    chain: tuple[str, ...] = ()
    """The groups that wait for these calls, outermost first (E3)."""
    root: Root | None = None
    """The request for which the first of these groups waits; None if no group waits for these calls (E10)."""

    @property
    def is_ordered(self) -> bool:
        """Whether the calls run in the order of the frame, including its queries (X5)."""
        return False

    def of(self, calls: list[Call]) -> "Sent":
        """Return the same frame with only these calls."""
        return msgspec.structs.replace(self, calls=encode_calls(calls))


class LaneSent(Sent, frozen=True, array_like=True, gc=False):
    """A frame of a lane. Frames are written as either type and always read as this one, as calls are
    (:class:`TracedCall`)."""

    is_ordered: bool = False


class Calls(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    stamp: Stamp
    sent: Sent


class Executed(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    stamp: Stamp
    sent: Sent
    outcomes: list[bytes]
    """One outcome for each call, in the same order."""


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
    """The index of the call among the request's calls, from 1."""
    outcome: bytes

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)


class Ran(msgspec.Struct, frozen=True, array_like=True, tag=22, gc=False):
    stamp: Stamp
    client: ClientId
    number: int

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)


class TimerFired(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    stamp: Stamp
    timer: int
    due_ns: int
    """When the timer was due. With *timer* it identifies one firing."""


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
    """A description of the call, for people."""

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)

    @property
    def outcome(self) -> bytes:
        return encode_outcome(Poisoned(self.attempts, self.call))


class Withdrawn(msgspec.Struct, frozen=True, array_like=True, tag=14, gc=False):
    """If the call is still queued, or was never ordered, it never starts, and this is its outcome."""

    stamp: Stamp
    client: ClientId
    number: int
    outcome: bytes
    expiration_s: int = 0
    """When the call expires; until then its outcome is remembered if it was never ordered."""

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)


class SendEnded(msgspec.Struct, frozen=True, array_like=True, tag=21, gc=False):
    stamp: Stamp
    number: int
    """The number of the send in the outbox."""
    code: str
    """Empty if the receiver has executed it."""
    text: str


class Upgraded(msgspec.Struct, frozen=True, array_like=True, tag=8, gc=False):
    from_code: Code
    to_code: Code


class State(msgspec.Struct, frozen=True, array_like=True, tag=9, gc=False):
    saved: bytes
    """What :meth:`.execution.Execution.save` returned, as of the position before this record."""


class Update(msgspec.Struct, frozen=True, array_like=True, tag=10, gc=False):
    update: bytes
    """What ``get_update`` returned, as of the position before this record."""
    timers: bytes
    sends: bytes = b""
    annexes: dict[str, bytes] = {}
    """The parts of annexes, whole (W9)."""


class Forward(msgspec.Struct, frozen=True, array_like=True, tag=11, gc=False):
    is_mark: bool = False
    """Whether the primary captures its state before this record, or at its next moment at rest, and the other
    members do the same. A :class:`Digested` follows, and a member with another digest gives up its object
    (E8)."""


class Marked(msgspec.Struct, frozen=True, array_like=True, tag=12, gc=False):
    pass


class Unmarked(msgspec.Struct, frozen=True, array_like=True, tag=20, gc=False):
    pass


class Digested(msgspec.Struct, frozen=True, array_like=True, tag=13, gc=False):
    position: Position
    """The position of the mark."""
    digest: bytes
    """Empty if the primary's state is not to be compared: an annex of it knows that it differs."""


ANNEX_POSITIONS_MAX: Final = 4096
"""The most positions of one record of an annex: as many as a frame has calls."""


class Annexed(msgspec.Struct, frozen=True, array_like=True, tag=23, gc=False):
    stamp: Stamp
    annex: str
    """The name of the annex that it is for (:mod:`.annex`)."""
    positions: int
    body: bytes


Record = (
    Calls
    | Executed
    | Replied
    | NestedReply
    | Ran
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
    | Annexed
)
Stamped = (
    Calls | Executed | NestedReply | Ran | TimerFired | Settled | Poison | Withdrawn | SendEnded | Annexed
)
"""The records that advance the group's time."""

_records: Final[msgspec.msgpack.Decoder[Record]] = msgspec.msgpack.Decoder(Record)
_calls: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(list[TracedCall])
_sent_calls: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(list[SentCall])
_encode: Final = msgspec.msgpack.Encoder().encode


def stamp_of(record: Record) -> Stamp | None:
    """When the record was ordered; None for a record without a time."""
    return record.stamp if isinstance(record, Stamped) else None


def positions_of(record: Record) -> int:
    """How many positions a record takes that has no calls in it."""
    return record.positions if isinstance(record, Annexed) else 1


def ends_of_portions(lengths: list[int], bytes_max: int) -> list[int]:
    """Where to cut items with these *lengths* so that no portion exceeds *bytes_max*, unless it is a single
    item."""
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
    """Decode a record. Raises ``msgspec.DecodeError`` for anything else."""
    return _records.decode(body)


def decode_calls(calls: msgspec.Raw | bytes) -> list[Call]:
    """Decode a list of calls. Raises ``msgspec.DecodeError`` for anything else."""
    decoded: list[Call] = _calls.decode(calls)
    return decoded


decode_sent_calls: Final[Callable[[msgspec.Raw | bytes], list[Call]]] = _sent_calls.decode
"""Decodes calls that have just arrived, and checks their limits (:class:`SentCall`)."""


def encode_calls(calls: list[Call]) -> msgspec.Raw:
    return msgspec.Raw(_encode(calls))


def encode_arguments(args: tuple[object, ...], kwargs: dict[str, object]) -> msgspec.Raw:
    """Encode the arguments of a call. Raises ``TypeError`` for what msgpack cannot represent."""
    if not kwargs:
        return msgspec.Raw(_encode(args))
    return msgspec.Raw(_encode({**kwargs, "*": args} if args else kwargs))


def encode_arguments_in_order(args: tuple[object, ...], kwargs: dict[str, object]) -> msgspec.Raw:
    """Encode the arguments of a call that a method makes. Sets are sorted, because every member encodes the
    call."""
    return encode_arguments(in_order(args), in_order(kwargs))


CALL_BYTES: Final = 64
"""The most a record needs for a call besides its method, arguments and outcome: numbers and a trace."""


def executed_parts(
    stamp: Stamp, sent: Sent, calls: list[Call], outcomes: list[bytes], bytes_max: int
) -> Iterator[tuple[Executed, list[Call]]]:
    """Split the calls of one frame, all of which have ended, into consecutive records. Yields each record
    with its calls."""
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
    """Split calls into runs that have all ended, with their outcomes, and runs that all wait, with none."""
    begin = 0
    for _, run in groupby(outcomes, lambda outcome: outcome is None):
        alike = list(run)
        end = begin + len(alike)
        yield stamp.part(begin), calls[begin:end], [outcome for outcome in alike if outcome is not None]
        begin = end


def replied_parts(replies: list[Reply], bytes_max: int) -> list[Replied]:
    """Split the outcomes of calls that were ordered earlier into consecutive records."""
    if not replies:
        return []
    begin, parts = 0, []
    lengths = [len(each.client.encode()) + CALL_BYTES + len(each.outcome) for each in replies]
    for end in ends_of_portions(lengths, bytes_max):
        parts.append(Replied(replies[begin:end]))
        begin = end
    return parts
