"""A source without a network: what it sends, keeps and sends again."""

import pytest

from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.model.ids import MILLISECOND
from holdfast.streams.columns import Malformed
from holdfast.streams.datagram import (
    Batch,
    Beat,
    Credit,
    Datagram,
    From,
    Notice,
    Refusal,
    Request,
    decode,
    encode,
)
from holdfast.streams.encoding import EncodingConfig
from holdfast.streams.message import NONE_BEFORE
from holdfast.streams.sending import SourceConfig, StreamSource

KEY = b"k" * 32
SENDER = From(1, 7, 3)


def opened(**options: int) -> StreamSource:
    return StreamSource(SENDER, KEY, EncodingConfig(levels=2), SourceConfig(**options))


def read(data: bytes) -> Datagram:
    return decode(data, lambda key: KEY)


def tell(source: StreamSource, said: Datagram, member: str = "a", now_ns: int = 0) -> list[Datagram]:
    return [read(each) for each in source.on_datagram(member, encode(said, KEY), now_ns)]


def numbers(datagrams: list[Datagram]) -> list[int]:
    assert all(isinstance(each, Batch) for each in datagrams)
    return [each.number for batch in datagrams if isinstance(batch, Batch) for each in batch.messages]


def lead(source: StreamSource, delivered: int, limit: int, epoch: int = 1) -> None:
    assert tell(source, Credit(SENDER, delivered, limit, epoch, is_leader=True)) == []


def test_nothing_is_sent_before_there_is_credit() -> None:
    """A source asks by a heartbeat, waits for the leader, and stops where its credit ends."""
    source = opened()
    assert read(source.heartbeat(0)) == Beat(SENDER, 0, 1, (NONE_BEFORE,), (NONE_BEFORE,))
    with pytest.raises(Overloaded):
        source.post(b"a")
    lead(source, 0, 2)
    assert [source.post(b"a"), source.post(b"b", priority=1)] == [1, 2]
    with pytest.raises(Overloaded):
        source.post(b"c")
    with pytest.raises(Overloaded):
        source.post_many([b"c"])
    assert source.room == 0
    (batch,) = map(read, source.take_batches(5))
    assert [each.payload for each in batch.messages] == [b"a", b"b"]  # type: ignore[union-attr]
    assert source.take_batches(6) == []
    beat = read(source.heartbeat(9))
    assert beat == Beat(SENDER, 2, 1, (2,), (2,))
    assert source.heartbeat_due_ns() == 9 + 100 * MILLISECOND


def test_what_a_member_lacks_is_sent_to_it_again() -> None:
    """Whatever the group has not delivered can be asked for, in batches as before."""
    source = opened()
    lead(source, 0, 1000)
    source.post_many([b"x" * 100] * 50)
    source.take_batches(0)
    again = tell(source, Request(SENDER, ((3, 2), (40, 100))))
    assert numbers(again) == [3, 4, *range(40, 51)]
    assert source.repeats == 13


def test_repetition_is_bounded() -> None:
    """No storm: within a time, one member gets so much and no more; another still gets its own."""
    source = opened(repeats_max=10)
    lead(source, 0, 1000)
    source.post_many([b"x"] * 100)
    asked = Request(SENDER, ((1, 100),))
    assert len(numbers(tell(source, asked))) == 10
    assert tell(source, asked) == []
    assert len(numbers(tell(source, asked, "b"))) == 10
    assert len(numbers(tell(source, asked, now_ns=10 * MILLISECOND))) == 10


def test_the_oldest_are_forgotten_first() -> None:
    """What is kept is bounded, and a heartbeat says what can still be asked for."""
    source = StreamSource(SENDER, KEY, EncodingConfig(), SourceConfig(kept_messages=20), is_paced=False)
    for _ in range(49):
        source.post(b"x")
    assert source.fits([b"x"]) == 1, "one that is not paced never waits"
    source.post_many([b"x"])
    beat = read(source.heartbeat(0))
    assert isinstance(beat, Beat)
    assert (beat.highest, beat.oldest) == (50, 31)
    assert numbers(tell(source, Request(SENDER, ((1, 1000),)))) == list(range(31, 51))


def test_what_members_refuse_is_told_apart() -> None:
    source = opened()
    tell(source, Notice(SENDER, 4, Refusal.BEYOND_CREDIT))
    tell(source, Notice(SENDER, 4, Refusal.NOT_HERE))
    assert (source.beyond, source.is_moved, source.refused) == (1, True, None)
    refused = Notice(SENDER, 4, Refusal.UNKNOWN_STREAM, "no such stream")
    tell(source, refused)
    assert source.refused == refused


def test_what_is_not_meant_for_this_source() -> None:
    """Another life's credit does nothing; another stream's, or a message, is refused."""
    source = opened()
    tell(source, Credit(From(1, 7, 2), 0, 99, 9, is_leader=True))
    assert not source.pacing.is_heard
    with pytest.raises(Malformed):
        tell(source, Credit(From(1, 8, 3), 0, 99, 9, is_leader=True))
    with pytest.raises(Malformed):
        tell(source, Beat(SENDER, 1, 1))
    with pytest.raises(Malformed):
        source.on_datagram("a", encode(Credit(From(0, 7, 3), 0, 99, 9, is_leader=True)), 0)


def test_a_wrong_message_takes_no_number() -> None:
    source = opened()
    lead(source, 0, 10)
    with pytest.raises(InvalidRequest):
        source.post(b"", priority=9)
    assert source.post(b"") == 1


def test_settings() -> None:
    assert SourceConfig().validate() == []
    wrong = SourceConfig(datagram_bytes=10, kept_messages=0, kept_bytes=1, heartbeat_ns=0)
    assert len(wrong.validate()) == 4


def test_what_is_not_delivered_is_kept_however_long_the_messages_are() -> None:
    """Credit counts messages. A source of long ones stops where it could no longer keep what members may ask
    for; otherwise a slow group would lose what no network has lost."""
    source = opened(kept_bytes=65_536)
    lead(source, 0, 1_000)
    long = b"x" * 30_000
    assert source.fits([long] * 3) == 2
    assert source.post_many([long] * 2) == 2
    for post in (lambda: source.post(long), lambda: source.post_many([long])):
        with pytest.raises(Overloaded):
            post()
    source.take_batches(0)
    assert numbers(tell(source, Request(SENDER, ((1, 2),)))) == [1, 2]
    lead(source, 1, 1_000)
    assert source.post(long) == 3
    assert numbers(tell(source, Request(SENDER, ((1, 3),)), now_ns=MILLISECOND)) == [2, 3]
    with pytest.raises(InvalidRequest, match="at most"):
        opened_and_led().post(b"x" * 60_001)


def opened_and_led() -> StreamSource:
    source = opened()
    lead(source, 0, 1_000)
    return source
