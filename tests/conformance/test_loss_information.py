"""What an application is told of a loss, through a class of its own (LOSS sections D and E)."""

import pytest
from stream_group import ORIGIN, StreamGroup, described, message

import holdfast as hf
from holdfast.model.ids import SECOND
from holdfast.streams.message import DISTANCE_MAX, FURTHER, Ages, Message, Origin
from holdfast.streams.peers import Status, decode_told

INFOS: list[hf.LossInfo] = []


class Asked:
    """Drops everything, and remembers what it was told."""

    streams = hf.StreamSettings(grace_ms=0)
    got: list[tuple[str, int]]

    def __init__(self) -> None:
        self.got = []

    def on_messages(self, batch: list[hf.StreamMessage]) -> None:
        self.got += [(each.stream, each.number) for each in batch]

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        INFOS.append(info)
        return hf.Drop()


class AsksPeers(Asked):
    streams = hf.StreamSettings(grace_ms=0, ask_peers=True)


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    INFOS.clear()


def lose(made: StreamGroup, sent: list[Message], before: int, after: int, stream: str = "gold") -> None:
    """The leader gets the messages up to number *before*, and then number *after*."""
    origin = Origin("exchange", stream, 1)
    made.send("a", *sent[:before], origin=origin)
    made.send("a", sent[after - 1], origin=origin)
    made.run(5)


TABLES = (([1, 1, 0, 1, 0, 0, 0, 1, 1, 0], 2), ([1, 2, 0, 1, 2, 0, 0, 2, 1, 0], 3))


@pytest.mark.covers("LOSS-12", "LOSS-30", "LOSS-32", "LOSS-33", "LOSS-34", "LOSS-35")
@pytest.mark.parametrize(("priorities", "levels"), TABLES)
def test_all_36_gaps_of_the_tables_are_told_rightly(priorities: list[int], levels: int) -> None:
    sent = described(priorities, levels)
    made = StreamGroup(Asked, names="a")
    gaps = [(before, after) for after in range(3, 11) for before in range(1, after - 1)]
    for before, after in gaps:
        lose(made, sent, before, after, f"{before}-{after}")
    assert len(INFOS) == len(gaps) == 36
    for (before, after), info in zip(gaps, INFOS, strict=True):
        lost = priorities[before : after - 1]
        exact = tuple(hf.Lost.YES if level in lost else hf.Lost.NO for level in range(levels - 1))
        at_least = tuple(hf.Lost.YES if min(lost) <= level else hf.Lost.NO for level in range(levels - 1))
        assert (info.priority.levels, info.priority.at_least) == (exact, at_least)
        assert info.priority.only_lowest is (hf.Lost.NO if hf.Lost.YES in exact else hf.Lost.YES)
        for level, number in enumerate(info.priority.last):
            earlier = [at for at in range(1, after) if priorities[at - 1] == level]
            assert number == (earlier[-1] if earlier else None)


@pytest.mark.covers("LOSS-21")
def test_a_distance_beyond_the_longest_says_nothing_of_a_longer_gap() -> None:
    made = StreamGroup(Asked, names="a")
    made.send("a", message(1))
    made.send("a", message(5, distances=(FURTHER,)))
    made.run(5)
    made.send("a", message(DISTANCE_MAX + 100, distances=(FURTHER,)))
    made.run(5)
    assert [each.priority.is_high_lost for each in INFOS] == [hf.Lost.NO, hf.Lost.UNKNOWN]


@pytest.mark.covers("LOSS-45")
def test_the_age_of_lost_messages_is_told_as_an_interval() -> None:
    made = StreamGroup(Asked, names="a")
    now = made.clock.wall()
    made.send("a", message(1, ages=Ages(now - 9 * SECOND)))
    made.send("a", message(4, ages=Ages(now - 2 * SECOND, (SECOND, 3 * SECOND))))
    made.run(5)
    (info,) = INFOS
    assert info.age.methods == ("timestamps", "differences")
    assert 3 * SECOND <= info.age.least_ns <= 3.1 * SECOND
    assert info.age.most_ns is not None
    assert 5 * SECOND <= info.age.most_ns <= 5.1 * SECOND
    # Of 5 to 7 all were made 1 s before 8 or earlier, and none 10 s before.
    made.send("a", message(8, ages=Ages(now - 2 * SECOND, (), (7, 7, 7, 4))))
    made.run(5)
    assert INFOS[1].age.methods == ("timestamps", "numbers")
    assert 3 * SECOND <= INFOS[1].age.least_ns <= 3.1 * SECOND
    assert INFOS[1].age.most_ns is not None
    assert INFOS[1].age.most_ns <= 12.1 * SECOND


@pytest.mark.covers("LOSS-25", "LOSS-41", "LOSS-48", "LOSS-53", "LOSS-54", "LOSS-55")
def test_transport_figures_and_what_happened_before() -> None:
    made = StreamGroup(Asked)
    made.send("abc", message(1), message(1))
    made.send("abc", message(3, topic="asks"))
    made.run(5)
    made.send("abc", message(2), message(6, topic="news"))
    made.run(5)
    first, second = INFOS
    assert (first.source, first.stream, first.topic) == ("exchange", "gold", "asks")
    assert (first.transport.received, first.transport.repeated, first.losses_before) == (2, 1, 0)
    assert (second.topic, second.transport.late, second.losses_before, second.lost_before) == (
        "news",
        1,
        1,
        1,
    )
    assert second.detected_ns >= first.detected_ns > 0


class ToldAll(Asked):
    streams = hf.StreamSettings(grace_ms=0, ask_peers=True, next_messages=2)

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        INFOS.append(info)
        return hf.Drop() & hf.Ignore(topic="noise", stream="silver")


@pytest.mark.covers("LOSS-41", "LOSS-47", "LOSS-53")
def test_all_that_the_section_lists_is_gathered_for_one_loss() -> None:
    """How many servers, how many messages, from where, how the transport does, priorities, what follows,
    whether they can be had, how old they are; and what happened before."""
    made = StreamGroup(ToldAll)
    now = made.clock.wall()
    made.send("abc", message(1))
    made.send("abc", message(3, ages=Ages(now - 9 * SECOND)))
    made.run(100)
    made.send("b", message(4), message(5))
    following = message(6, topic="news", distances=(2,), cumulative=(2,), ages=Ages(now - 2 * SECOND))
    made.send("abc", following, message(7))
    made.run(100)
    before, info = INFOS
    assert (before.losses_before, before.rules) == (0, ())
    assert (info.servers, info.is_only_server) == (3, False)
    assert (info.first, info.last, info.count, info.after) == (4, 5, 2, 6)
    assert (info.source, info.stream, info.topic) == ("exchange", "gold", "news")
    assert info.transport.received == 4
    assert info.priority.is_high_lost is hf.Lost.YES
    assert [each.number for each in info.next_messages] == [6, 7]
    assert (info.recovery.is_possible, info.recovery.holders, info.recovery.at_holders) == (True, ("b",), 2)
    assert info.age.least_ns >= 2 * SECOND
    assert info.detected_ns > now
    assert (info.losses_before, info.lost_before, info.attempt) == (1, 1, 1)
    assert info.rules == ("rule 1: stream silver topics noise",)


@pytest.mark.covers("LOSS-39", "LOSS-3")
def test_it_is_told_how_many_servers_are_active_and_goes_on_with_the_last_one() -> None:
    made = StreamGroup(Asked)
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(5)
    made.crash("b")
    made.crash("c")
    made.send("a", message(5))
    made.run(5)
    assert [(each.servers, each.is_only_server) for each in INFOS] == [(3, False), (1, True)]
    assert made.object("a").got[-1] == ("gold", 5)


@pytest.mark.covers("LOSS-102")
def test_the_servers_are_asked_who_has_the_messages() -> None:
    made = StreamGroup(AsksPeers)
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(100)
    made.send("b", message(4), message(5))
    made.send("c", message(5))
    made.send("abc", message(7))
    made.run(100)
    nobody, some = (each.recovery for each in INFOS)
    assert (nobody.is_possible, nobody.holders) == (False, ())
    assert (some.is_possible, some.holders, some.at_holders) == (True, ("b", "c"), 2)


@pytest.mark.covers("LOSS-17", "LOSS-92")
def test_a_drop_asks_nobody_else_and_no_backup_decides() -> None:
    made = StreamGroup(Asked)
    told = []
    tell = made.members["a"].peer_messages.tell
    made.members["a"].peer_messages.tell = (  # type: ignore[method-assign]  # observes only
        lambda host, part, body: told.append(decode_told(body)) or tell(host, part, body)
    )
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(10)
    assert made.object("c").got == [("gold", 1), ("gold", 3)]
    assert len(INFOS) == 1
    made.crash("c")
    made.restart("c")
    made.run(5)
    made.send("bc", message(5))  # they see a gap; the leader has not seen it
    made.run(50)
    assert len(INFOS) == 1
    assert [each for each in told if not isinstance(each, Status)] == []


class BySource(Asked):
    """Sources differ in reliability: what a phone loses is dropped, a server's messages are not."""

    streams = hf.StreamSettings(grace_ms=0, recover_ms=30, retry_ms=5, attempts=1)

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        return hf.Drop() if info.source == "phone" else hf.Recover() | hf.Suspend()


@pytest.mark.covers("LOSS-6", "LOSS-11", "LOSS-62")
def test_each_source_is_treated_in_its_own_way_and_feeds_any_number_of_streams() -> None:
    made = StreamGroup(BySource)
    origins = [Origin("phone", "calls", 1), Origin("phone", "texts", 1), Origin("server", "orders", 1)]
    for origin in origins:
        made.send("abc", message(1), origin=origin)
        made.send("abc", message(3), origin=origin)
    made.run(60)
    expected = [("calls", 1), ("calls", 3), ("texts", 1), ("texts", 3), ("orders", 1)]
    assert sorted(made.object("b").got) == sorted(expected)
    made.send("a", message(2), origin=origins[2])
    made.run(10)
    assert made.object("b").got[-2:] == [("orders", 2), ("orders", 3)]
    assert ORIGIN.stream not in made.streams["a"].marks()
