"""A connection from another master belongs to the suffix that its first word names, and to no other."""

from dataclasses import dataclass, field

import msgspec
import pytest

from holdfast.directory.hosting.arrivals import Arrival
from holdfast.directory.replication.messages import (
    CopyAsk,
    Have,
    Hello,
    Message,
    ShippedCopyAsk,
    encode_message,
)
from holdfast.model.ids import ReplicaId
from holdfast.net import Kind

HELLO = Hello(
    suffix="o=one",
    generation="g",
    replica=ReplicaId(1),
    vector="g",
    is_ready=True,
    window_updates=1,
    window_bytes=1,
)


@dataclass
class Links:
    """What a suffix's connections would hear."""

    accepted_: int = 0
    frames: list[bytes] = field(default_factory=list)
    ends: int = 0

    def accepted(self, connection: object) -> "Links":
        self.accepted_ += 1
        return self

    def on_frame(self, connection: object, kind: Kind, payload: bytes) -> None:
        self.frames.append(payload)

    def on_closed(self, connection: object, reason: object) -> None:
        self.ends += 1


class Wire:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self, reason: object) -> None:
        self.is_closed = True


def arrived(links: dict[str, Links], *messages: Message) -> Wire:
    wire = Wire()
    arrival = Arrival(links.get)  # type: ignore[arg-type]
    for each in messages:
        arrival.on_frame(wire, Kind.DIRECTORY, encode_message(each))  # type: ignore[arg-type]
    arrival.on_closed(wire, None)  # type: ignore[arg-type]
    return wire


@pytest.mark.parametrize(
    "first",
    [
        msgspec.structs.replace(HELLO, suffix="o=two"),
        CopyAsk(suffix="o=two", replica=ReplicaId(1), window=1),
        ShippedCopyAsk(suffix="o=two", replica=ReplicaId(1)),
    ],
)
def test_the_first_word_says_whose_it_is(first: Message) -> None:
    links = {"o=one": Links(), "o=two": Links()}
    later = Have("g", 1)
    assert not arrived(links, first, later).is_closed
    assert links["o=one"] == Links()
    assert links["o=two"] == Links(1, [encode_message(first), encode_message(later)], 1)


def test_a_suffix_that_is_not_here_is_refused() -> None:
    links = {"o=two": Links()}
    assert arrived(links, HELLO).is_closed
    assert links["o=two"] == Links()


def test_nobody_begins_with_anything_else() -> None:
    links = {"o=one": Links()}
    with pytest.raises(msgspec.ValidationError):
        arrived(links, Have("g", 1))
    with pytest.raises(msgspec.ValidationError):
        Arrival(links.get).on_frame(Wire(), Kind.DIRECTORY, b"\xc1")  # type: ignore[arg-type]
    assert links["o=one"] == Links()
