"""How many Python functions a message of a stream takes at its source and at every member, from the datagram
to the callback: what load cannot disturb.

The members are real replicas over the stand-in of the sequence, whose own work is not counted. The bounds are
a little above what is taken today; whoever must raise one says why in the commit, and whoever makes the way
shorter lowers it. What a datagram takes must not grow with the messages in it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import FrameType

import pytest
from stream_group import StreamGroup

import holdfast as hf
from holdfast.model.ids import GroupId
from holdfast.node.streams.intake import MemberIntake
from holdfast.streams.datagram import From
from holdfast.streams.encoding import EncodingConfig
from holdfast.streams.pacing import CreditConfig
from holdfast.streams.reception import Reception, StreamBinding
from holdfast.streams.sending import SourceConfig, StreamSource

COUNTED = ("holdfast/streams/", "holdfast/node/streams/")
DATAGRAMS = 40
ROUNDS = 4
BOUNDS = {
    1: {"source": 36, "leader receives": 32, "backup receives": 33, "all order and deliver": 26},
    100: {"source": 36, "leader receives": 32, "backup receives": 33, "all order and deliver": 48},
}
"""Per datagram of so many messages, of which forty come in each turn."""
JOINED = {"source": 36, "leader receives": 6, "backup receives": 6, "all order and deliver": 18}
"""Per datagram of one message, where the forty are taken together."""


class Meter:
    streams = hf.StreamSettings(grace_ms=5)

    def __init__(self) -> None:
        self.count = 0

    def on_messages(self, batch: list[hf.StreamMessage]) -> None:
        self.count += len(batch)


@dataclass
class Host:
    """What a host gives to its reception."""

    group: StreamGroup
    member: MemberIntake
    answers: list[bytes] = field(default_factory=list)

    def now(self) -> int:
        return self.group.clock.now()

    def intake(self, group: GroupId) -> MemberIntake:
        return self.member

    def answer(self, path: Hashable, data: bytes) -> None:
        self.answers.append(data)


def plainly(work: Callable[..., None]) -> Callable[..., None]:
    return work


@contextmanager
def counting(counts: Counter[str], what: str) -> Iterator[None]:
    """Count the functions of streams that are called in the context."""

    def on_event(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and any(each in frame.f_code.co_filename for each in COUNTED):
            counts[what] += 1

    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(("messages", "is_together"), [(1, False), (1, True), (100, False)])
def test_a_datagram_takes_few_python_functions(messages: int, is_together: bool) -> None:
    group = StreamGroup(Meter)
    receptions = {}
    for name in group.streams:
        host = Host(group, MemberIntake(group.streams[name], plainly))
        receptions[name] = Reception(host, CreditConfig(), Random(1))
        receptions[name].bind(
            [StreamBinding(stream="gold", number=7, group=GroupId(1), source="x", is_open=True)]
        )
    source = StreamSource(
        From(0, 7, 1), None, EncodingConfig(levels=2), SourceConfig(datagram_bytes=20_000), is_paced=False
    )
    counts: Counter[str] = Counter()
    for number in range(ROUNDS + 1):
        if number == 1:
            counts.clear()  # the first one begins the stream
        datagrams = []
        for _ in range(DATAGRAMS):
            with counting(counts, "source"):
                source.post_many([b"x" * 64] * messages, priority=1, now_ns=number)
                datagrams += source.take_batches(number)
        for name, reception in receptions.items():
            with counting(counts, f"{'leader' if name == group.primary else 'backup'} receives"):
                if is_together:
                    reception.on_datagrams([(each, "source") for each in datagrams])
                else:
                    for each in datagrams:
                        reception.on_datagram("source", each)
        with counting(counts, "all order and deliver"):
            group.run()
    sent = ROUNDS * DATAGRAMS
    assert all(each.count == source.highest for each in group.objects())
    counts["backup receives"] //= 2
    found = {what: count / sent for what, count in counts.items()}
    bounds = JOINED if is_together else BOUNDS[messages]
    over = [f"{what}: {found[what]:.1f}, at most {most}" for what, most in bounds.items()]
    assert all(0 < found[what] <= most for what, most in bounds.items()), over
