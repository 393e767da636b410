"""What the application is told of a loss before it chooses (LOSS-39 to 47, 110).

The record is made from values alone, so the same situation gives the same record; it is encoded into the
order with the decision that was made on it, so that the decision can be looked at, and made again.
"""

from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.streams.ages import AgeInterval, age_of_lost
from holdfast.streams.gaps import Gap
from holdfast.streams.holding import Figures
from holdfast.streams.message import Message, Origin, StreamMessage, delivered
from holdfast.streams.priorities import PriorityIndication, indication

RECOVERED_MAX: Final = 64
"""The most recovered messages that are shown when the application is asked again."""


class Transport(Struct, frozen=True):
    """What this server has counted of the stream (LOSS-41)."""

    received: int = 0
    repeated: int = 0
    late: int = 0
    refused: int = 0
    asked: int = 0
    recovered: int = 0
    rate: float = 0.0
    """Messages per second."""

    @classmethod
    def of(cls, figures: Figures) -> "Transport":
        return cls(
            figures.received,
            figures.repeated,
            figures.late,
            figures.refused,
            figures.asked,
            figures.recovered,
            round(figures.rate(), 3),
        )


class Recovery(Struct, frozen=True):
    """Whether the lost messages can be had (LOSS-44)."""

    is_possible: bool | None = None
    """None if nobody was asked yet."""
    holders: tuple[str, ...] = ()
    """The other servers that have some of them."""
    at_holders: int = 0
    """How many of them the one that has most has."""
    has_log: bool = False
    has_source: bool = False
    estimated_ms: int | None = None
    """How long recoveries of this stream have taken lately; None if there were none."""


class LossInfo(Struct, frozen=True):
    """One loss, as the application is asked about it."""

    source: str
    stream: str
    incarnation: int
    first: int
    last: int
    count: int
    after: int | None
    """The number of the first message after the gap; None if none has come."""
    topic: str = ""
    """The topic of that message."""
    servers: int = 1
    """How many servers are active, with this one."""
    is_only_server: bool = True
    """Suspending would end the service (LOSS-39)."""
    was_only_server: bool | None = None
    """What the last question about this loss said of that; None if this is the first (LOSS-101)."""
    priority: PriorityIndication = PriorityIndication()
    age: AgeInterval = AgeInterval()
    next_messages: tuple[StreamMessage, ...] = ()
    recovery: Recovery = Recovery()
    transport: Transport = Transport()
    detected_ns: int = 0
    """When the gap counted as a loss, by this server's wall clock."""
    losses_before: int = 0
    """How many losses of this stream were decided before."""
    lost_before: int = 0
    """How many of its messages were dropped."""
    rules: tuple[str, ...] = ()
    """The rules that are in force, for people."""
    attempt: int = 1
    """How often the application has been asked of this loss, with this time."""
    recovered: tuple[StreamMessage, ...] = ()
    """What the failed recovery did get, up to some number (LOSS-57)."""
    failure: str = ""
    """Why it failed: not_stored, expired, peer_gone, timeout or refused; with whom."""


@dataclass(slots=True)
class Situation:
    """All that the information about a loss is made of."""

    origin: Origin
    gap: Gap
    now_ns: int
    detected_ns: int
    before_created_ns: int | None
    following: list[Message]
    """The messages after the gap, as many as are shown; empty if none has come."""
    servers: int
    was_only_server: bool | None
    figures: Figures
    recovery: Recovery
    peer_priorities: tuple[int, ...]
    is_all_at_peers: bool
    losses_before: int
    lost_before: int
    rules: tuple[str, ...]
    attempt: int
    recovered: list[Message]
    failure: str
    shown: int
    """How many of the following messages are shown."""


def information(on: Situation) -> LossInfo:
    """The loss information for a situation (F6)."""
    after = on.following[0] if on.following else None
    return LossInfo(
        source=on.origin.source,
        stream=on.origin.stream,
        incarnation=on.origin.incarnation,
        first=on.gap.first,
        last=on.gap.last,
        count=on.gap.count,
        after=after.number if after is not None else None,
        topic=after.topic if after is not None else "",
        servers=on.servers,
        is_only_server=on.servers == 1,
        was_only_server=on.was_only_server,
        priority=indication(on.gap.first - 1, after, on.peer_priorities, is_all_at_peers=on.is_all_at_peers),
        age=age_of_lost(on.gap.first - 1, on.before_created_ns, after, on.detected_ns, on.now_ns),
        next_messages=tuple(delivered(on.origin, each) for each in on.following[: on.shown]),
        recovery=on.recovery,
        transport=Transport.of(on.figures),
        detected_ns=on.detected_ns,
        losses_before=on.losses_before,
        lost_before=on.lost_before,
        rules=on.rules,
        attempt=on.attempt,
        recovered=tuple(delivered(on.origin, each) for each in on.recovered[:RECOVERED_MAX]),
        failure=on.failure,
    )


_encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(LossInfo)


def encode_information(info: LossInfo) -> bytes:
    return _encode(info)


def decode_information(encoded: bytes) -> LossInfo:
    """Raises ``msgspec.DecodeError``."""
    return _decoder.decode(encoded)
