"""A group's part of the log, over a log in memory: points, ranges, dropping, installing (M3, S6)."""

import pytest

from holdfast.model.errors import Conflict, InvalidRequest
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.ports import Durability
from holdfast.sequence.store import RECENT_BYTES_MAX, GroupStore, order_of
from holdfast.storage.record import ORIGIN, Point

GROUP = GroupId(1)
MANY_BYTES = 1 << 20
E1, E2 = Epoch(1), Epoch(2)


def made(operations: int = 0) -> tuple[GroupStore, MemoryLog]:
    durability = Durability()
    log = MemoryLog(durability.on_durable)
    store = GroupStore(GROUP, log, durability)
    for number in range(operations):
        store.append(E1, b"%d" % number, 1)
    return store, log


def test_an_empty_store_ends_at_the_origin() -> None:
    store, _ = made()
    assert store.tail == ORIGIN
    assert store.point_at(Position(0)) == ORIGIN
    assert store.point_at(Position(3)) is None
    assert store.points() == (ORIGIN,)


def test_points_reach_back_ever_further_to_the_floor() -> None:
    """With few points, another member finds within a factor of two where the histories diverge (M3)."""
    store, _ = made(100)
    positions = [point.position for point in store.points()]
    assert positions == [100, 99, 98, 96, 92, 84, 68, 36, 0]


def test_points_are_ends_of_records() -> None:
    store, _ = made()
    for _ in range(5):
        store.append(E1, b"x", 10)
    assert all(point.position % 10 == 0 for point in store.points())
    assert store.boundary_below(Position(37)).position == 30


def test_what_is_sent_is_what_another_store_takes() -> None:
    """The bytes are the same on every member, from the cache or from the log (S5)."""
    store, _ = made(20)
    other, _ = made()
    position = Position(0)
    while position < 20:
        records, position = store.after(position, 3, MANY_BYTES)
        assert len(records) <= 3
        for encoded in records:
            other.append_received(encoded)
    assert other.tail == store.tail
    assert store.after(position, 3, MANY_BYTES) == ((), 20)


def test_what_is_sent_at_once_is_bounded_in_bytes() -> None:
    """One frame never holds more than asked for, except for a single longer record (S5)."""
    store, _ = made()
    for size in (400, 400, 400, 2000, 100):
        store.append(E1, bytes(size), 1)
    sent, position = [], Position(0)
    while position < 5:
        records, position = store.after(position, 10, 1000)
        sent.append((len(records), position))
    assert sent == [(2, 2), (1, 3), (1, 4), (1, 5)]


def test_a_long_log_is_read_little_by_little() -> None:
    """Records from the disk are sent within the same bounds, whatever their size (M4)."""
    store, _ = made(3000)
    store.append(E1, bytes(RECENT_BYTES_MAX), 1)  # drives all others out of the cache
    records, last = store.after(Position(0), 512, MANY_BYTES)
    assert (len(records), last) == (512, 512)
    records, last = store.after(Position(0), 512, 1000)
    assert sum(map(len, records)) <= 1000
    assert last == len(records) > 1


def test_a_record_that_does_not_continue_the_chain_is_refused() -> None:
    store, _ = made(3)
    other, _ = made()
    other.append(E1, b"another", 1)
    records, _ = store.after(Position(1), 5, MANY_BYTES)
    with pytest.raises(Conflict):
        other.append_received(records[0])


def test_what_was_dropped_is_not_sent() -> None:
    store, _ = made(5)
    store.drop(Position(3), E2)
    store.append(E2, b"new", 1)
    records, last = store.after(Position(3), 5, MANY_BYTES)
    assert (len(records), last) == (1, 4)
    assert store.followed() == E2


def test_what_is_at_hand_is_read_as_it_is_in_the_log() -> None:
    """Also from the middle of a record, and after others were dropped; what lies below the floor is not."""
    store, log = made()
    for body, count in ((b"a", 1), (b"b", 3), (b"c", 1), (b"d", 2), (b"e", 1)):
        store.append(E1, body, count)
    store.drop(Position(7), E1)
    spans = [(first, last) for first in range(1, 8) for last in range(first, 8)]
    for first, last in spans:
        held = log.read(GROUP, Position(first), Position(last))
        assert store.read(Position(first), Position(last)) == held
    log.read = None  # type: ignore[method-assign,assignment]  # it is not asked, and would raise
    assert [each.body for each in store.read(Position(2), Position(5))] == [b"b", b"c"]
    log.set_floor(GROUP, Position(4))
    with pytest.raises(TypeError):
        store.read(Position(4), Position(5))


def test_dropping_in_the_middle_of_a_record_is_refused() -> None:
    store, _ = made()
    store.append(E1, b"x", 4)
    with pytest.raises(InvalidRequest):
        store.drop(Position(2), E1)


def test_installing_beyond_the_tail_begins_anew() -> None:
    store, _ = made(5)
    point = Point(Position(50), E2, 1234)
    store.install(point)
    assert store.tail == store.floor == point
    store.append(E2, b"x", 1)
    assert store.tail.position == 51


def test_installing_a_point_of_another_history_forgets_ours() -> None:
    """A learner drops records of another history when it takes its primary's state (M3)."""
    store, _ = made(5)
    store.install(Point(Position(4), E2, 1234))
    assert store.tail.position == 4
    assert store.tail.checksum == 1234


def test_installing_a_point_of_our_history_keeps_what_follows() -> None:
    store, _ = made(5)
    point = store.point_at(Position(3))
    assert point is not None
    store.install(point)
    assert (store.floor.position, store.tail.position) == (3, 5)


def test_durable_is_told_after_the_flush_and_in_order() -> None:
    store, log = made()
    told: list[int] = []
    store.append(E1, b"1", 1)
    store.when_durable(lambda: told.append(1))
    store.append(E1, b"2", 1)
    store.when_durable(lambda: told.append(2))
    assert told == []
    log.flush()
    assert told == [1, 2]
    store.when_durable(lambda: told.append(3))
    assert told == [1, 2, 3]


def test_a_later_epoch_outweighs_a_longer_log() -> None:
    assert order_of(Point(Position(3), E2, 0)) > order_of(Point(Position(9), E1, 0))
