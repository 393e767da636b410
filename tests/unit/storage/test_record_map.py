"""The index of one group, compared with a simple list."""

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.ids import Epoch, Position
from holdfast.storage.batch import Place
from holdfast.storage.record import ORIGIN, Point
from holdfast.storage.record_map import GroupIndex, packed

ANCHOR = Place(1, 512)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 3), st.integers(0, 1)),
        st.tuples(st.just("drop"), st.integers(0, 6), st.just(0)),
        st.tuples(st.just("floor"), st.integers(0, 6), st.just(0)),
        st.tuples(st.just("jump"), st.integers(1, 9), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_the_index_agrees_with_a_list(steps: list[tuple[str, int, int]]) -> None:
    """After any steps, the floor, tail, points, places and sizes match those of a plain list of records."""
    index = GroupIndex(anchor=ANCHOR)
    floor, records = ORIGIN, list[tuple[int, Point, int]]()  # first position, end, size
    for number, (step, amount, other) in enumerate(steps):
        tail = records[-1][1] if records else floor
        points = [floor, *(point for _, point, _ in records)]
        if step == "add":
            end = Point(Position(tail.position + amount), Epoch(tail.epoch + other), number + 1)
            index.add(amount, end.epoch, end.checksum, packed(Place(1, number)), 10 + number)
            records.append((tail.position + 1, end, 10 + number))
        elif step == "jump":
            floor, records = Point(Position(tail.position + amount), tail.epoch, number + 1), []
            index.raise_floor(floor, Place(2, number))
        else:
            point = points[max(0, len(points) - 1 - amount)]
            if step == "drop":
                index.drop_after(point)
                records = [record for record in records if record[1].position <= point.position]
            else:
                index.raise_floor(point, Place(2, number))
                floor = point
                records = [record for record in records if record[1].position > point.position]
        agree(index, floor, records)


def agree(index: GroupIndex, floor: Point, records: list[tuple[int, Point, int]]) -> None:
    assert index.floor == floor
    assert index.tail == (records[-1][1] if records else floor)
    assert index.live_bytes == sum(size for _, _, size in records)
    for point in (floor, *(end for _, end, _ in records)):
        assert index.point_at(point.position) == point
    assert index.point_at(index.position + 1) is None
    if records:
        found = index.located(records[0][0], records[-1][1].position)
        assert [(item.first, item.size) for item in found] == [(first, size) for first, _, size in records]
        assert index.records == len(records)


def test_the_front_is_given_back() -> None:
    """A group that appends and trims forever does not grow."""
    index = GroupIndex(anchor=ANCHOR)
    for number in range(20_000):
        index.add(1, Epoch(1), number + 1, packed(Place(1, number)), 100)
        if number % 10 == 9:
            index.raise_floor(index.tail, ANCHOR)
    assert index.live_bytes == 0
    assert index.entries < 3000
