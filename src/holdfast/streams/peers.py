"""What a member knows of the other members of its group: who is active, how far they are, what they hold; and
what the streams of two members tell each other (W1): hints, which decide nothing.

New fields of messages get defaults and go last.
"""

from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.execution.annex import AnnexPorts
from holdfast.model.ids import Epoch, HostId
from holdfast.sequence.peer_messages import Peer
from holdfast.streams.config import STREAMS_MAX
from holdfast.streams.message import Message, Number, Origin

GIVEN_MAX: Final = 4096
"""The most messages in one answer."""
GIVEN_BYTES_MAX: Final = 256 << 10
"""How many bytes of content one answer has, about: what is more is asked for again."""


Marks = dict[str, tuple[int, int]]
"""For each stream: the source's incarnation, and the mark."""


class Status(Struct, frozen=True, array_like=True, tag=1):
    """How far a member is."""

    has_object: bool
    marks: Annotated[Marks, Meta(max_length=STREAMS_MAX)] = {}
    """How far it is; without its object, what the state that it takes has at least."""
    leads: bool = False
    """Whether it leads and takes calls."""


class Wanted(Struct, frozen=True, array_like=True, tag=2):
    """These messages are wanted; :class:`Given` answers."""

    origin: Origin
    first: Number
    last: Number


class Given(Struct, frozen=True, array_like=True, tag=3):
    """What a member has of what was wanted, from *first* on."""

    origin: Origin
    first: Number
    last: Number
    messages: Annotated[tuple[Message, ...], Meta(max_length=GIVEN_MAX)] = ()


class WhoHas(Struct, frozen=True, array_like=True, tag=4):
    """Who has how many of these messages? :class:`Holds` answers (LOSS-102)."""

    origin: Origin
    first: Number
    last: Number


class Holds(Struct, frozen=True, array_like=True, tag=5):
    origin: Origin
    first: Number
    last: Number
    count: int
    priorities: Annotated[tuple[int, ...], Meta(max_length=16)] = ()
    """The levels of those it has (LOSS-36)."""
    owes: bool = False
    """Whether it waits for the content of what was ordered (``retain="none"``): it could not lead on."""


class Question(Struct, frozen=True, array_like=True, tag=6):
    """What shall be done about a loss? The member that decides answers (LOSS-10)."""

    number: int
    information: bytes


class Answer(Struct, frozen=True, array_like=True, tag=7):
    number: int
    action: msgspec.Raw
    """What ``on_loss`` returned, encoded; nil if it could not be asked."""
    why_not: str = ""


Told = Status | Wanted | Given | WhoHas | Holds | Question | Answer
_decoder: Final[msgspec.msgpack.Decoder[Told]] = msgspec.msgpack.Decoder(Told)
_encode: Final = msgspec.msgpack.Encoder().encode


def encode_told(message: Told) -> bytes:
    return _encode(message)


def decode_told(body: bytes) -> Told:
    """Raises ``msgspec.DecodeError``."""
    return _decoder.decode(body)


@dataclass(slots=True)
class Peers:
    """The other members, as the streams of one member know them. All of it is hints (W1)."""

    ports: AnnexPorts
    status: dict[HostId, Status] = field(default_factory=dict)
    _leader: tuple[Epoch, HostId] | None = None
    """Who has said that it leads, and in which epoch."""

    def tell(self, host: HostId, message: Told) -> bool:
        return self.ports.tell(host, encode_told(message))

    def tell_all(self, message: Told) -> list[HostId]:
        """Tell every member that was heard of lately; returns whom."""
        return [each.host for each in self.heard() if self.tell(each.host, message)]

    def on_status(self, host: HostId, status: Status) -> None:
        self.status[host] = status
        if status.leads:
            self._leader = (self.ports.epoch(), host)

    @property
    def are_led(self) -> bool:
        """Whether another member is known to lead now, so that this one can take a state from it."""
        leader = self._leader
        return (
            leader is not None
            and leader[0] == self.ports.epoch()
            and any(each.host == leader[1] for each in self.heard())
        )

    def without_object(self) -> list[HostId]:
        """The listed members that have said that they take a state, and are heard."""
        return [
            each.host
            for each in self.ports.peers()
            if each.is_listed and each.is_heard and not self._has_object(each.host)
        ]

    def heard(self) -> list[Peer]:
        return [each for each in self.ports.peers() if each.is_heard]

    def active(self) -> list[HostId]:
        """The other servers that work: listed, heard of, and not known to be without their object (O3)."""
        return [
            each.host
            for each in self.ports.peers()
            if each.is_listed and each.is_heard and self._has_object(each.host)
        ]

    def stable_mark(self, origin: Origin) -> int | None:
        """The number up to which every listed member has delivered that life of a stream; None if nothing
        holds it back because there is no other listed member."""
        marks: list[int] = []
        for each in self.ports.peers():
            if not each.is_listed:
                continue
            status = self.status.get(each.host)
            incarnation, mark = status.marks.get(origin.stream, (-1, 0)) if status is not None else (-1, 0)
            if incarnation > origin.incarnation:
                continue
            marks.append(mark if incarnation == origin.incarnation else 0)
        return min(marks) if marks else None

    def has_delivered(self, host: HostId, origin: Origin, number: int) -> bool:
        """Whether that member has said that its object has all of a stream up to *number*."""
        status = self.status.get(host)
        if status is None or not status.has_object:
            return False
        incarnation, mark = status.marks.get(origin.stream, (-1, 0))
        return incarnation > origin.incarnation or (incarnation == origin.incarnation and mark >= number)

    def _has_object(self, host: HostId) -> bool:
        status = self.status.get(host)
        return status is None or status.has_object


def best_holder(answers: dict[HostId, Holds], among: list[HostId]) -> HostId | None:
    """The one of *among* that has most of what was asked for and could lead on; None if none has any."""
    told = [(answers[host], host) for host in among if host in answers]
    found = [(each.count, host) for each, host in told if each.count and not each.owes]
    return max(found, key=lambda each: (each[0], each[1]))[1] if found else None
