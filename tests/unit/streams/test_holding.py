"""What a member holds: in order, without repetitions, and within bounds (LOSS-100)."""

from hypothesis import given
from hypothesis import strategies as st
from stream_group import ORIGIN, message

from holdfast.streams.columns import read, write
from holdfast.streams.config import STREAMS_MAX
from holdfast.streams.holding import HeldStream, Holding
from holdfast.streams.message import Message, Origin
from holdfast.streams.runs import MESSAGE_BYTES, Listed, Run


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
    made.remove(held, 4, 9)
    assert (held.numbers, held.get(3), held.get(4)) == ([3], message(3), None)
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


def block(first: int, last: int) -> Run:
    """Messages as they come in a datagram."""
    sent = [message(number) for number in range(first, last + 1)]
    body = write(sent)
    found = read(body, 0, len(body), first)
    assert isinstance(found, Run)
    assert found == sent
    return found


def test_what_closes_a_gap_has_room_before_what_comes_after_it() -> None:
    """A source that is not paced has filled all room behind a gap."""
    made, held = holding_of(messages_max=10)
    made.take_run(held, block(5, 9), 1)
    made.take_run(held, block(10, 16), 1)
    assert (held.count, held.figures.refused) == (10, 2)
    assert made.take_run(held, block(2, 4), 2) == 3
    assert held.numbers == list(range(2, 10))
    assert (held.figures.refused, made.bytes) == (7, sum(MESSAGE_BYTES + 2 for _ in held.numbers))
    assert made.take(held, message(1), 2)
    made, held = holding_of(messages_max=2)
    made.take_run(held, block(5, 6), 1)
    assert made.take_run(held, block(1, 4), 1) == 2
    assert held.numbers == [1, 2]


def test_what_was_ordered_is_not_let_go_for_what_comes_before_it() -> None:
    """Where only the set counts, a leader orders what is there and takes what was missing when it comes."""
    made, held = holding_of(5, 6, 8, messages_max=3)
    assert made.take_run(held, block(3, 4), 1, ordered=6) == 1
    assert held.numbers == [3, 5, 6]
    assert made.take_run(held, block(4, 4), 1, ordered=6) == 0
    assert (held.numbers, held.figures.refused) == ([3, 5, 6], 3)


STEPS = st.one_of(
    st.tuples(st.sampled_from(("block", "listed")), st.integers(1, 40), st.integers(0, 9)),
    st.tuples(st.sampled_from(("release", "remove")), st.integers(0, 40), st.integers(0, 9)),
)


@given(st.lists(STEPS, max_size=30))
def test_runs_are_held_as_their_messages_one_by_one_would_be(steps: list[tuple[str, int, int]]) -> None:
    made, held = holding_of(messages_max=1000)
    model: dict[int, Message] = {}
    received = 0
    for step, first, more in steps:
        numbers = range(first, first + more + 1)
        match step:
            case "release":
                made.release(ORIGIN, first)
                gone = [each for each in model if each <= first]
                if gone:
                    assert held.at(max(gone)) == model[max(gone)]
                model = {number: each for number, each in model.items() if number > first}
            case "remove":
                made.remove(held, first, first + more)
                model = {number: each for number, each in model.items() if number not in numbers}
            case _:
                run = (
                    block(numbers[0], numbers[-1]) if step == "block" else Listed(block(first, first + more))
                )
                new = [number for number in numbers if number not in model]
                assert made.take_run(held, run, 5) == len(new)
                received += len(new)
                model |= {number: message(number) for number in new}
        there = sorted(model)
        assert (held.numbers, held.count, held.lowest) == (there, len(there), min(there, default=None))
        assert made.bytes == sum(len(each.payload) + MESSAGE_BYTES for each in model.values())
        assert held.figures.received == received
        for number in (first - 1, first, first + more, first + more + 1):
            assert held.get(number) == model.get(number)
            assert held.next_after(number) == min((each for each in there if each > number), default=None)
        lacking = [number for number in numbers if number not in model]
        assert [
            n for begin, end in held.missing(first, first + more) for n in range(begin, end + 1)
        ] == lacking
        row = list(held.runs_from(first, 8))
        expected = []
        while first + len(expected) in model:
            expected.append(first + len(expected))
        reached = [each.number for run in row for each in run]
        assert reached == expected[: len(reached)]
        assert bool(reached) == bool(expected)
        assert len(reached) <= 8
        assert [each.number for each in held.run(first, 5, 1 << 20)] == reached[
            : len(held.run(first, 5, 1 << 20))
        ]
