"""What a member holds: in order, without repetitions, and within bounds (LOSS-100)."""

from hypothesis import given
from hypothesis import strategies as st
from stream_group import ORIGIN, message

from holdfast.streams.config import STREAMS_MAX
from holdfast.streams.holding import MESSAGE_BYTES, HeldStream, Holding
from holdfast.streams.message import Origin


def holding_of(
    *numbers: int, messages_max: int = 100, bytes_max: int = 1 << 20
) -> tuple[Holding, HeldStream]:
    made = Holding(messages_max, bytes_max)
    held = made.held(ORIGIN)
    assert held is not None
    for number in numbers:
        made.take(held, message(number), number)
    return made, held


def test_what_comes_in_any_order_is_there_in_order_and_once() -> None:
    made, held = holding_of(3, 1, 3, 7, 2)
    assert held.numbers == [1, 2, 3, 7]
    assert (held.figures.received, held.figures.repeated, held.highest) == (4, 1, 7)
    assert [each.number for each in held.run(1, 10, 1 << 20)] == [1, 2, 3]
    assert [each.number for each in held.run(1, 2, 1 << 20)] == [1, 2]
    assert [each.number for each in held.run(1, 10, MESSAGE_BYTES + 3)] == [1]
    assert held.next_after(3) == 7
    assert held.numbers_within(2, 6) == [2, 3]
    assert held.missing(1, 9) == [(4, 6), (8, 9)]
    assert held.missing(1, 3) == []
    assert made.bytes == 4 * (MESSAGE_BYTES + 2)


def test_what_is_released_is_gone_with_its_bytes() -> None:
    made, held = holding_of(1, 2, 3, 4)
    made.release(ORIGIN, 2)
    assert held.numbers == [3, 4]
    made.remove(held, [4, 9])
    assert (held.numbers, list(held.messages)) == ([3], [3])
    made.release(ORIGIN, 100)
    assert (made.bytes, held.numbers) == (0, [])


def test_there_is_room_for_so_many_and_no_more() -> None:
    made, held = holding_of(1, 2, 3, messages_max=2)
    assert (held.numbers, held.figures.refused) == ([1, 2], 1)
    made, held = holding_of(1, 2, 3, bytes_max=2 * (MESSAGE_BYTES + 2))
    assert (held.numbers, held.figures.refused) == ([1, 2], 1)
    assert made.is_nearly_full(held)


def test_two_lives_of_a_stream_are_kept_and_earlier_ones_go() -> None:
    made, _ = holding_of(1, 2)
    later = [Origin(ORIGIN.source, ORIGIN.stream, number) for number in (2, 3)]
    for origin in later:
        held = made.held(origin)
        assert held is not None
        made.take(held, message(1), 1)
    assert made.life(ORIGIN) is None
    assert made.held(ORIGIN) is None
    assert made.bytes == 2 * (MESSAGE_BYTES + 2)
    made.release(later[1], 0)
    assert made.life(later[0]) is None


def test_there_are_at_most_so_many_streams() -> None:
    made = Holding(10, 1 << 20)
    for number in range(STREAMS_MAX):
        assert made.held(Origin("s", f"stream {number}", 1)) is not None
    assert made.held(Origin("s", "one more", 1)) is None


@given(st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=6), max_size=8), st.integers(1, 40))
def test_a_run_is_taken_as_its_messages_one_by_one_would_be(runs: list[list[int]], room: int) -> None:
    """Whatever comes, the quick way holds the same as the plain one, or declines and holds nothing."""
    quick, held = holding_of(messages_max=room)
    plain, other = holding_of(messages_max=room)
    for run in runs:
        given_ = tuple(message(number) for number in run)
        before = list(held.numbers)
        is_taken = quick.take_run(held, given_, 5)
        if not is_taken:
            assert held.numbers == before
            for each in given_:
                quick.take(held, each, 5)
        else:
            assert run == list(range(run[0], run[0] + len(run)))
        for each in given_:
            plain.take(other, each, 5)
        assert (held.numbers, held.messages, held.highest) == (other.numbers, other.messages, other.highest)
        assert (quick.bytes, held.figures) == (plain.bytes, other.figures)
