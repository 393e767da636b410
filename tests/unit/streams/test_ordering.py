"""A stream goes on: losses that change while they are seen to, and a leader that is full."""

from dataclasses import dataclass, field, replace

from stream_group import ORIGIN, StreamGroup, message

import holdfast as hf
from holdfast.model.errors import Overloaded
from holdfast.model.ids import MILLISECOND, Position
from holdfast.streams.message import Origin


@dataclass
class Store:
    """A source that has everything, and answers when it is told to."""

    asked: list[tuple[int, int]] = field(default_factory=list)

    def request(self, origin: Origin, first: int, last: int) -> bool:
        self.asked.append((first, last))
        return True


class Recovering:
    streams = hf.StreamSettings(grace_ms=5, late_join=False, recover_from=("source",), attempts=2)

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def on_messages(self, batch: list[hf.StreamMessage]) -> None:
        self.numbers += [each.number for each in batch]

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        return hf.Recover(within_ms=60) | hf.Drop()


def test_what_is_lost_during_a_recovery_is_recovered_as_well() -> None:
    """The source says that it has sent more while what was missing before is being fetched. What came is
    delivered and let go; that is no reason to ask for it again, and to drop what nobody has asked for."""
    group = StreamGroup(Recovering)
    store = Store()
    group.streams["a"].connect(source=store)
    group.beat("a", 10)
    group.run(20)
    assert store.asked == [(1, 10)]
    group.beat("a", 20)
    group.run(5)
    asked = len(store.asked)
    group.streams["a"].on_messages(ORIGIN, [message(each) for each in range(1, 11)], place="@source")
    group.run(20)
    assert group.object("a").numbers == list(range(1, 11))
    assert (11, 20) in store.asked
    group.streams["a"].on_messages(ORIGIN, [message(each) for each in range(11, 21)], place="@source")
    group.run(100)
    assert [each.numbers for each in group.objects()] == [list(range(1, 21))] * 3
    assert group.ledger().streams[ORIGIN.stream].dropped == 0
    assert all(first == 11 for first, _ in store.asked[asked:])


def test_a_loss_of_which_a_part_came_is_about_the_rest() -> None:
    group = StreamGroup(Recovering)
    store = Store()
    group.streams["a"].connect(source=store)
    group.send("abc", message(1), message(8))
    group.run(20)
    assert store.asked == [(2, 7)]
    group.streams["a"].on_messages(ORIGIN, [message(each) for each in (2, 3, 4)], place="@source")
    group.run(20)
    assert store.asked[1] == (5, 7)
    group.run(100)
    assert [each.numbers for each in group.objects()] == [[1, 2, 3, 4, 8]] * 3
    assert (1, 4) not in store.asked
    assert group.ledger().streams[ORIGIN.stream].dropped == 3


def test_what_the_group_could_not_take_is_ordered_a_moment_later() -> None:
    """Nothing else may happen meanwhile: the source waits for credit, and sends only what is known."""
    group = StreamGroup(Recovering)
    streams = group.streams["a"]
    group.send("abc", message(1))
    order, is_full = streams.ports.order, True

    def refuse(body: bytes) -> Position:
        if is_full:
            raise Overloaded("its log waits for checkpoints")
        return order(body)

    streams.bind(replace(streams.ports, order=refuse))
    group.send("abc", message(2))
    due = streams.next_ns()
    assert due is not None
    assert due <= group.clock.now() + 10 * MILLISECOND
    is_full = False
    group.run(10)
    assert [each.numbers for each in group.objects()] == [[1, 2]] * 3


class EachAlone:
    """Takes one message at a time: each takes a position."""

    streams = Recovering.streams

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def on_message(self, message: hf.StreamMessage) -> None:
        self.numbers.append(message.number)


def test_no_record_has_more_than_the_group_may_have_uncommitted() -> None:
    """A stream stood for a while, and has more messages than the group may have positions that are not
    committed yet: they are ordered in several records, however many there are."""
    group = StreamGroup(EachAlone)
    streams = group.streams["a"]
    order = streams.ports.order
    ordered: list[int] = []

    def limited(body: bytes) -> Position:
        positions = streams.positions(body)
        if positions > 20:
            raise Overloaded("0 positions are not committed yet")
        ordered.append(positions)
        return order(body)

    streams.bind(replace(streams.ports, order=limited))
    streams.on_messages(ORIGIN, [message(each) for each in range(1, 301)])
    group.run(400)
    assert [each.numbers for each in group.objects()] == [list(range(1, 301))] * 3
    assert len(ordered) < 60, "they are not ordered one by one"


class Strict(Recovering):
    streams = hf.StreamSettings(
        grace_ms=5, late_join=False, recover_from=("source",), hold_messages=6, recover_ms=100
    )

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        return hf.Recover() | hf.Suspend()


def test_a_gap_is_closed_although_there_is_no_room_for_more() -> None:
    """A source that is not paced sends more than a member can hold behind a gap. What is recovered takes the
    place of what comes later, and that is recovered in its turn."""
    group = StreamGroup(Strict)
    store = Store()
    group.streams["a"].connect(source=store)
    group.send("abc", message(1))
    for first in range(3, 30, 3):
        group.send("a", *(message(each) for each in range(first, first + 3)))
    group.beat("a", 29)
    for _ in range(60):
        group.run(5)
        for first, last in store.asked:
            found = [message(each) for each in range(first, min(last, 29) + 1)]
            group.streams["a"].on_messages(ORIGIN, found, place="@source")
        store.asked.clear()
    assert [each.numbers for each in group.objects()] == [list(range(1, 30))] * 3


class Joining(Recovering):
    streams = hf.StreamSettings(grace_ms=5)


def test_the_loss_of_all_that_a_source_has_sent_so_far_is_noticed() -> None:
    """A group that follows streams from the first message on hears of a source by its heartbeat before it
    sends anything, and then the leader loses everything."""
    group = StreamGroup(Joining)
    group.beat("abc", 0)
    group.send("bc", message(1), message(2))
    group.beat("abc", 2)
    group.run(100)
    assert [each.numbers for each in group.objects()] == [[1, 2]] * 3


def test_what_was_sent_before_a_source_was_heard_of_is_not_missed() -> None:
    group = StreamGroup(Joining)
    group.beat("abc", 1_000_000)
    group.run(20)
    assert group.ledger().streams[ORIGIN.stream].mark == 1_000_000
    group.send("a", message(1_000_001))
    assert [each.numbers for each in group.objects()] == [[1_000_001]] * 3
    assert group.ledger().streams[ORIGIN.stream].losses == 0
    group = StreamGroup(Joining)
    group.beat("abc", 7)
    group.send("a", message(6), message(7))
    group.run(20)
    assert [each.numbers for each in group.objects()] == [[6, 7]] * 3
