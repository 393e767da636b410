"""What a source says of its messages: exactly the tables of the source text, and ages that are true."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import MILLISECOND
from holdfast.streams.columns import COUNT_MAX
from holdfast.streams.datagram import From, encode_batch
from holdfast.streams.encoding import EncodingConfig, StreamEncoder, batches, room_of
from holdfast.streams.message import DISTANCE_MAX, FURTHER, NONE_BEFORE, Message

TABLE_1 = {"p": [1, 1, 0, 1, 0, 0, 0, 1, 1, 0], "d0": [-1, -1, -1, 1, 2, 1, 1, 1, 2, 3]}
TABLE_2 = {
    "p": [1, 2, 0, 1, 2, 0, 0, 2, 1, 0],
    "d0": [-1, -1, -1, 1, 2, 3, 1, 1, 2, 3],
    "d1": [-1, 1, 2, 3, 1, 2, 3, 4, 5, 1],
}


def made(priorities: list[int], **options: bool) -> list[Message]:
    encoder = StreamEncoder(EncodingConfig(levels=max(priorities) + 1, **options))
    return [encoder.message(b"", priority=each) for each in priorities]


@pytest.mark.covers("LOSS-18", "LOSS-19", "LOSS-20", "LOSS-26")
def test_the_first_table() -> None:
    """LOSS-26: two levels give exactly the row D."""
    messages = made(TABLE_1["p"])
    assert [each.number for each in messages] == list(range(1, 11))
    assert [each.distances for each in messages] == [(each,) for each in TABLE_1["d0"]]


@pytest.mark.covers("LOSS-22", "LOSS-26")
def test_the_second_table() -> None:
    """LOSS-26: three levels give exactly the rows D0 and D1; the lowest level needs none (LOSS-22)."""
    messages = made(TABLE_2["p"])
    rows = list(zip(TABLE_2["d0"], TABLE_2["d1"], strict=True))
    assert [each.distances for each in messages] == rows


@pytest.mark.covers("LOSS-20", "LOSS-22", "LOSS-23")
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_distances_say_where_the_last_one_was(priorities: list[int]) -> None:
    """Exact and cumulative distances are those found by looking back (LOSS-20, LOSS-22, LOSS-23)."""
    encoder = StreamEncoder(EncodingConfig(levels=4, cumulative=True))
    for index, priority in enumerate(priorities):
        message = encoder.message(b"", priority=priority)
        before = priorities[:index]
        for level in range(3):
            exact = [back for back in range(1, index + 1) if before[-back] == level]
            sums = [back for back in range(1, index + 1) if before[-back] <= level]
            assert message.distances[level] == (exact[0] if exact else NONE_BEFORE)
            assert message.cumulative[level] == (sums[0] if sums else NONE_BEFORE)


@pytest.mark.covers("LOSS-21")
def test_what_is_too_far_back() -> None:
    """LOSS-21: a distance that two bytes cannot tell is told to be further."""
    encoder = StreamEncoder(EncodingConfig(created=False))
    encoder.message(b"", priority=0)
    last = [encoder.message(b"", priority=1).distances for _ in range(DISTANCE_MAX + 1)]
    assert last[-2:] == [(DISTANCE_MAX,), (FURTHER,)]


@pytest.mark.covers("LOSS-24")
def test_ages() -> None:
    """LOSS-24: when a message was made, how long before it others were, and which were made when."""
    encoder = StreamEncoder(EncodingConfig(levels=1, back=True, before=True))
    start = 1_700_000_000_000 * MILLISECOND
    messages = [encoder.message(b"", now_ns=start + number * MILLISECOND) for number in range(1500)]
    ages = encoder.opening(messages[-1]).ages
    assert ages.created_ns == start + 1499 * MILLISECOND
    assert ages.back_ns == tuple(each * MILLISECOND for each in (1, 10, 100, 1000))
    assert ages.numbers_before == (1490, 1400, 500, None)
    early = encoder.opening(messages[5]).ages
    assert early.back_ns == (MILLISECOND, None, None, None)
    assert early.numbers_before == (None,) * 4
    assert messages[-1].ages.back_ns == ()


def test_a_clock_that_goes_back() -> None:
    """Later messages are never older."""
    encoder = StreamEncoder(EncodingConfig(back=True, before=True))
    encoder.message(b"", now_ns=5_000_000)
    late = encoder.opening(encoder.message(b"", now_ns=1_000_000))
    assert late.ages.created_ns == 5_000_000
    assert late.ages.back_ns[0] == 0


def test_what_no_stream_takes() -> None:
    encoder = StreamEncoder(EncodingConfig(levels=2))
    for wrong in ({"priority": 2}, {"priority": -1}, {"topic": "x" * 300}):
        with pytest.raises(InvalidRequest):
            encoder.message(b"", **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        encoder.message(b"x" * 70_000)
    assert encoder.highest == 0
    assert EncodingConfig(levels=0).validate()


@given(st.lists(st.tuples(st.integers(0, 900), st.sampled_from(["", "a", "bids"])), max_size=80))
def test_batches_fit(wanted: list[tuple[int, str]]) -> None:
    """Messages are cut into datagrams in their order, none longer than its room."""
    encoder = StreamEncoder(EncodingConfig())
    messages = [encoder.message(b"x" * length, topic=topic) for length, topic in wanted]
    found = list(batches(messages, room_of(1_472)))
    assert [each for batch in found for each in batch] == messages
    assert all(len(encode_batch(From(1, 1, 1), batch, bytes(32))) <= 1_472 for batch in found)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=12), st.booleans())
def test_many_at_once_are_as_one_by_one(runs: list[tuple[int, int]], looks_back: bool) -> None:
    """Messages that are made together say what they would say if each had been made alone."""
    config = EncodingConfig(levels=4, cumulative=True, back=looks_back, before=looks_back)
    one, many = StreamEncoder(config), StreamEncoder(config)
    for at, (priority, count) in enumerate(runs):
        now_ns = at * 7 * MILLISECOND
        alone = [one.message(b"x", priority=priority, topic="t", now_ns=now_ns) for _ in range(count)]
        together = many.messages([b"x"] * count, priority=priority, topic="t", now_ns=now_ns)
        assert together == alone
        assert many.opening(together[0]) == one.opening(alone[0])
        assert (many.distances, many.cumulative) == (one.distances, one.cumulative)


def test_no_batch_is_too_long() -> None:
    encoder = StreamEncoder(EncodingConfig(created=False))
    messages = [encoder.message(b"") for _ in range(COUNT_MAX + 1)]
    assert [len(each) for each in batches(messages, 1 << 20)] == [COUNT_MAX, 1]
    topics = [encoder.message(b"", topic=f"t{number}") for number in range(300)]
    assert [len(each) for each in batches(topics, 1 << 20)] == [255, 45]
