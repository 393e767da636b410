"""Datagrams: what is written is read back, and nothing else is taken."""

import itertools
import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import InvalidRequest
from holdfast.streams import datagram as wire
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
from holdfast.streams.message import DISTANCE_MAX, FURTHER, NONE_BEFORE, Ages, Message

KEY = bytes(range(32))
OPEN = From(0, 7, 3)
SEALED = From(1, 7, 3)


def key_of(key: int) -> bytes | None:
    return KEY if key == 1 else None


def read(data: bytes) -> Datagram:
    return decode(data, key_of, is_open=True)


distances = st.one_of(st.sampled_from([NONE_BEFORE, FURTHER, DISTANCE_MAX]), st.integers(1, DISTANCE_MAX))


@st.composite
def sent(draw: st.DrawFn) -> list[Message]:
    exact, sums = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    numbers = draw(
        st.one_of(
            st.tuples(st.integers(1, 1 << 40), st.integers(1, 30)).map(lambda at: range(at[0], sum(at))),
            st.lists(st.integers(1, 1 << 31), min_size=1, max_size=30, unique=True).map(sorted),
        )
    )
    is_dated, tables = draw(st.booleans()), draw(st.booleans())
    begun = draw(st.integers(0, 1 << 50))
    found = []
    for index, number in enumerate(numbers):
        later = draw(st.integers(0, 1 << 31)) if index else 0
        created = (begun + later) * 1000 if is_dated else None
        back = (1000, 5000, None, None) if tables and index == 0 else ()
        before = (1, None, 7, None) if tables and index == 0 else ()
        found.append(
            Message(
                number,
                draw(st.integers(0, 15)),
                draw(st.sampled_from(["", "bids", "ümlaut"])),
                draw(st.binary(max_size=60)),
                tuple(draw(distances) for _ in range(exact)),
                tuple(draw(distances) for _ in range(sums)),
                Ages(created, back, before),
            )
        )
    return found


@given(sent(), st.booleans())
def test_batches_are_read_back(messages: list[Message], is_sealed: bool) -> None:
    batch = Batch(SEALED if is_sealed else OPEN, messages)
    assert read(encode(batch, KEY if is_sealed else None)) == batch


OTHERS = [
    Beat(SEALED, 0, 1),
    Beat(SEALED, 9, 4, (1, NONE_BEFORE), (1, 1), is_last=True),
    Credit(SEALED, 4, 99, 12, is_leader=True),
    Credit(SEALED, 0, 0, 0),
    Request(SEALED, ((3, 1), (9, 400))),
    Notice(SEALED, 5, Refusal.BEYOND_CREDIT, "slower"),
]


@pytest.mark.parametrize("said", OTHERS, ids=lambda each: type(each).__name__)
def test_the_others_are_read_back(said: Datagram) -> None:
    assert read(encode(said, KEY)) == said


@pytest.mark.parametrize("said", [*OTHERS, Batch(SEALED, [Message(1, 0, "t", b"abc", (NONE_BEFORE,))])])
def test_one_changed_byte_is_noticed(said: Datagram) -> None:
    """Whatever is changed of a sealed datagram, it is refused."""
    data = encode(said, KEY)
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= 0x40
        with pytest.raises(Malformed):
            decode(bytes(changed), key_of)
    for length in range(len(data)):
        with pytest.raises(Malformed):
            decode(data[:length], key_of)


def test_a_stream_with_a_key_takes_nothing_without() -> None:
    """Off loopback a datagram without a key, or with one that nobody knows, is refused."""
    with pytest.raises(Malformed) as found:
        decode(encode(Beat(OPEN, 1, 1)), key_of)
    assert found.value.why == "unsealed"
    with pytest.raises(Malformed) as found:
        decode(encode(Beat(From(2, 7, 3), 1, 1), KEY), key_of)
    assert found.value.why == "key"
    with pytest.raises(InvalidRequest):
        encode(Beat(OPEN, 1, 1), KEY)


BAD = {
    "magic": b"XX" + encode(Beat(OPEN, 1, 1))[2:],
    "version": b"HF\x02" + encode(Beat(OPEN, 1, 1))[3:],
    "kind": b"HF\x01\x09" + encode(Beat(OPEN, 1, 1))[4:],
    "long": bytes(70_000),
    "short": b"HF\x01\x01",
}


@pytest.mark.parametrize("why", BAD)
def test_each_reason_has_a_word(why: str) -> None:
    with pytest.raises(Malformed) as found:
        read(BAD[why])
    assert found.value.why == why


def test_no_bytes_do_harm() -> None:
    """Anything is a datagram that is read back as it is written, or refused."""
    dice, seeds = Random(4), [encode(each, KEY) for each in OTHERS]
    seeds.append(
        encode(Batch(OPEN, [Message(n, n % 3, "t" * (n % 2), b"x" * n, (1, 2)) for n in range(1, 9)]))
    )
    for _ in range(4_000):
        data = bytearray(dice.choice(seeds))
        data[4:8] = bytes(4)  # no key: what is inside is read
        for _ in range(dice.randrange(4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        data = data[: dice.randrange(len(data) + 1)] if dice.random() < 0.3 else data
        try:
            found = read(bytes(data))
        except Malformed:
            continue
        assert read(encode(found)) == found


def test_more_than_a_datagram_takes() -> None:
    with pytest.raises(InvalidRequest):
        encode(Batch(OPEN, [Message(n, 0, "", b"x" * 50_000) for n in (1, 2)]))
    with pytest.raises(InvalidRequest):
        encode(Batch(OPEN, []))
    with pytest.raises(InvalidRequest):
        encode(Batch(OPEN, [Message(1, 0, "", b"", (1,)), Message(2, 0, "", b"", (1, 1))]))
    with pytest.raises(InvalidRequest):
        encode(Request(OPEN, ()))


def test_a_count_that_lies() -> None:
    """The count is believed only as far as there are bytes."""
    data = bytearray(encode(Batch(OPEN, [Message(1, 0, "", b"abc")])))
    struct.pack_into(">H", data, wire.HEADER.size, 4096)
    with pytest.raises(Malformed):
        read(bytes(data))


# --- datagrams that are read as one


@st.composite
def one_by_one(draw: st.DrawFn) -> list[Message]:
    """Messages of one source with consecutive numbers, each of which goes by itself; mostly alike."""
    exact, sums = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    first, is_dated = draw(st.integers(1, 1 << 40)), draw(st.booleans())
    topics = draw(st.sampled_from([("",), ("bids",), ("ümlaut",), ("", "bids", "news", "asks")]))
    lengths = draw(st.sampled_from([(8,), (0,), (0, 1, 60)]))
    found, now = [], draw(st.integers(0, 1 << 50))
    for number in range(first, first + draw(st.integers(2, 30))):
        now += draw(st.sampled_from([0, 0, 0, 7, 1 << 20, -1]))
        length = draw(st.sampled_from(lengths))
        found.append(
            Message(
                number,
                draw(st.integers(0, 15)),
                draw(st.sampled_from(topics)),
                draw(st.binary(min_size=length, max_size=length)),
                tuple(draw(distances) for _ in range(exact)),
                tuple(draw(distances) for _ in range(sums)),
                Ages(max(now, 0) * 1000 if is_dated else None, (), ()),
            )
        )
    return found


@given(one_by_one(), st.booleans())
def test_datagrams_that_are_read_as_one_say_what_each_says(messages: list[Message], is_sealed: bool) -> None:
    """Always if they are alike: one topic, and times that do not go back."""
    sender = SEALED if is_sealed else OPEN
    run = [encode(Batch(sender, [each]), KEY if is_sealed else None) for each in messages]
    assert all(wire.follows(later, before) for before, later in itertools.pairwise(run))
    found = wire.decode_joined(run, key_of, is_open=True)
    created = [each.ages.created_ns or 0 for each in messages]
    if len({each.topic for each in messages}) == 1 and created[0] == min(created):
        assert found is not None
        assert found.messages.body, "it is a block, with the bytes of a batch"  # type: ignore[attr-defined]
    if found is not None:
        assert found == Batch(sender, messages)


@given(one_by_one(), st.data())
def test_whatever_is_wrong_with_one_of_them_none_is_taken_for_another(
    messages: list[Message], data: st.DataObject
) -> None:
    """Bytes are changed, cut off or added in one datagram of an open stream. Either they are not read as one,
    or each would have been read so."""
    run = [encode(Batch(OPEN, [each])) for each in messages]
    index = data.draw(st.integers(0, len(run) - 1))
    changed = bytearray(run[index])
    at = data.draw(st.integers(wire.HEADER.size, len(changed) - 1))
    match data.draw(st.sampled_from(["change", "cut", "add"])):
        case "change":
            changed[at] = data.draw(st.integers(0, 255))
        case "cut":
            del changed[at:]
        case _:
            changed[at:at] = data.draw(st.binary(min_size=1, max_size=4))
    run[index] = bytes(changed)
    found = wire.decode_joined(run, key_of, is_open=True)
    if found is not None:
        alone = [read(each) for each in run]
        assert [each for batch in alone if isinstance(batch, Batch) for each in batch.messages] == list(
            found.messages
        )


def test_no_datagram_is_joined_without_its_tag() -> None:
    run = [encode(Batch(SEALED, [Message(number, 0, "", b"x")]), KEY) for number in range(1, 9)]
    forged = encode(Batch(SEALED, [Message(5, 0, "", b"y")]), b"o" * 32)
    assert wire.decode_joined(run, key_of, is_open=False) is not None
    assert wire.decode_joined([*run[:4], forged, *run[5:]], key_of, is_open=False) is None
    unsealed = [encode(Batch(OPEN, [Message(number, 0, "", b"x")])) for number in range(1, 9)]
    assert wire.decode_joined(unsealed, key_of, is_open=False) is None
