"""What an application does about lost messages, through a class of its own, and all replicas with it."""

import pytest
from loss_books import INFOS, RETAIN, Book, answering
from stream_group import ORIGIN, StreamGroup, described, message

import holdfast as hf
from holdfast.streams.information import decode_information
from holdfast.streams.message import Origin
from holdfast.streams.records import Deliver


@RETAIN
@pytest.mark.covers("LOSS-1", "LOSS-8", "LOSS-51", "LOSS-82", "LOSS-87")
def test_every_member_delivers_what_the_leader_has_ordered_in_stream_order(retain: str) -> None:
    made = StreamGroup(answering(hf.Drop(), retain=retain))
    made.send("bc", message(1), message(2), message(3), message(4))
    assert [each.numbers for each in made.objects()] == [[], [], []]  # the leader has not ordered them
    made.send("a", message(2), message(1))
    assert [each.numbers for each in made.objects()] == [[1, 2]] * 3
    made.send("a", message(4))  # it has overtaken another
    assert [each.numbers for each in made.objects()] == [[1, 2]] * 3
    made.send("a", message(3))
    assert [each.numbers for each in made.objects()] == [[1, 2, 3, 4]] * 3
    assert len(made.digests()) == 1


@RETAIN
@pytest.mark.covers("LOSS-59", "LOSS-71", "LOSS-75", "LOSS-76", "LOSS-88", "LOSS-89", "LOSS-91")
def test_a_dropped_message_is_dropped_by_those_who_have_it(retain: str) -> None:
    made = StreamGroup(answering(hf.Drop(), retain=retain))
    made.send("abc", message(1))
    made.send("b", message(2))
    made.send("abc", message(3))
    made.run(30)
    assert [each.numbers for each in made.objects()] == [[1, 3]] * 3
    assert [each.notices for each in made.objects()] == [["drop 2-2"]] * 3
    assert len(made.digests()) == 1
    assert made.streams["b"].held(ORIGIN, 2) is None, "it had that one, and has dropped it"
    assert [made.replicas[name].fitness().why for name in "bc"] == [""] * 2, "c lacks it, and nothing follows"


@pytest.mark.covers("LOSS-27", "LOSS-28", "LOSS-29", "LOSS-40", "LOSS-47")
def test_number_58_after_45_means_that_twelve_are_lost() -> None:
    made = StreamGroup(answering(hf.Drop()))
    made.send("abc", *(message(number) for number in range(1, 46)))
    made.send("abc", message(58))
    made.run(30)
    (info,) = INFOS
    assert (info.first, info.last, info.count, info.after) == (46, 57, 12, 58)
    assert (info.stream, info.source, info.attempt, info.losses_before) == ("gold", "exchange", 1, 0)
    assert made.object("b").numbers[-2:] == [45, 58]


@pytest.mark.covers("LOSS-37", "LOSS-72")
def test_what_comes_late_after_a_drop_is_discarded() -> None:
    made = StreamGroup(answering(hf.Drop()))
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(30)
    made.send("abc", message(2), message(2))
    assert [made.streams[name].held(ORIGIN, 2) for name in "abc"] == [None] * 3
    made.send("abc", message(4))
    assert made.object("a").numbers == [1, 3, 4]
    assert len(INFOS) == 1


@pytest.mark.covers("LOSS-37")
def test_messages_that_overtake_each_other_are_no_loss() -> None:
    made = StreamGroup(answering(hf.Drop()))
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(5)
    made.send("abc", message(2))
    made.run(30)
    assert made.object("c").numbers == [1, 2, 3]
    assert INFOS == []


@pytest.mark.covers("LOSS-37")
def test_the_loss_of_the_last_messages_is_noticed_by_the_sources_heartbeat() -> None:
    made = StreamGroup(answering(hf.Drop()))
    made.send("abc", message(1))
    made.beat("abc", 3)
    made.run(30)
    (info,) = INFOS
    assert (info.first, info.last, info.after) == (2, 3, None)
    made.send("abc", message(4))
    assert made.object("a").numbers == [1, 4]


@pytest.mark.covers("LOSS-37")
def test_a_stream_whose_first_messages_are_all_lost_is_noticed_too() -> None:
    made = StreamGroup(answering(hf.Drop(), late_join=False))
    made.beat("abc", 3)
    made.run(30)
    assert [(each.first, each.last) for each in INFOS] == [(1, 3)]


@pytest.mark.covers("LOSS-37")
def test_a_source_that_began_again_is_followed_from_its_first_number() -> None:
    made = StreamGroup(answering(hf.Drop()))
    made.send("abc", message(7), message(8))
    made.run(30)  # a stream that was never seen begins where it is
    assert made.object("a").numbers == [7, 8]
    again = Origin("exchange", "gold", 2)
    made.send("abc", message(2), origin=again)
    made.run(30)
    made.send("abc", message(9))
    assert made.object("a").numbers == [7, 8, 2]
    assert [(each.first, each.incarnation) for each in INFOS] == [(1, 2)]


@pytest.mark.covers("LOSS-61")
def test_while_one_stream_waits_for_a_decision_the_others_flow() -> None:
    made = StreamGroup(answering(hf.Recover(within_ms=400, attempts=9)))
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(40)
    made.send("abc", message(1), message(2), origin=Origin("exchange", "silver", 1))
    made.run(40)
    assert made.object("c").numbers == [1, 1, 2]


class Raising(Book):
    streams = hf.StreamSettings(grace_ms=10, recover_ms=20, retry_ms=5, attempts=1, default=hf.Drop())

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        raise ValueError("I do not know")


class Nonsense(Book):
    streams = Raising.streams

    def on_loss(self, info: hf.LossInfo) -> str:
        return "whatever"


class Silent(Book):
    """Decided by a server that is not there."""

    streams = hf.StreamSettings(grace_ms=10, decider="z", decide_ms=40, default=hf.Drop())

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        return hf.Suspend()


class Handlerless(Book):
    streams = Raising.streams


@pytest.mark.parametrize("cls", [Raising, Nonsense, Silent, Handlerless])
@pytest.mark.covers("LOSS-73")
def test_the_default_is_taken_where_there_is_no_answer(cls: type) -> None:
    made = StreamGroup(cls)
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(100)
    assert [each.numbers for each in made.objects()] == [[1, 3]] * 3
    assert made.ledger().audit[-1].decided.by.startswith("default: ")  # type: ignore[union-attr]


class Unset(Book):
    streams = hf.StreamSettings(grace_ms=10, recover_ms=20, retry_ms=5, attempts=1)


class UnsetLog(Book):
    streams = hf.StreamSettings(grace_ms=10, recover_ms=20, retry_ms=5, attempts=1, recover_from=("log",))


@pytest.mark.covers("LOSS-73")
def test_what_nothing_is_set_for_is_recovered_and_else_left_to_a_server_that_has_it() -> None:
    made = StreamGroup(Unset)
    made.send("abc", message(1))
    made.send("c", message(2))
    made.send("abc", message(3))
    made.run(100)
    assert [each.numbers for each in made.objects()] == [[1, 2, 3]] * 3
    made = StreamGroup(UnsetLog)  # there is no log: it cannot be recovered
    made.send("abc", message(1))
    made.send("c", message(2))
    made.send("abc", message(3))
    made.run(100)
    assert [(who, to) for who, to, _ in made.handed_over][:1] == [("a", "c")]
    assert made.object("b").numbers == [1]


@pytest.mark.covers("LOSS-3", "LOSS-39", "LOSS-73")
def test_the_only_server_has_a_default_of_its_own() -> None:
    made = StreamGroup(Unset, names="a")
    made.send("a", message(1))
    made.send("a", message(3))
    made.run(100)
    assert made.object("a").numbers == [1, 3]

    class Waiting(Book):
        streams = hf.StreamSettings(grace_ms=10, default=hf.Drop(), default_alone=hf.Suspend())

    made = StreamGroup(Waiting, names="a")
    made.send("a", message(1))
    made.send("a", message(3))
    made.run(100)
    assert made.object("a").numbers == [1], "it can be set"


@pytest.mark.covers("LOSS-10", "LOSS-46", "LOSS-84")
def test_another_server_may_decide() -> None:
    made = StreamGroup(answering(hf.Drop(), decider="c"))
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(60)
    assert [each.numbers for each in made.objects()] == [[1, 3]] * 3
    assert made.ledger().audit[-1].decided.by == "c"  # type: ignore[union-attr]


@pytest.mark.covers("LOSS-9")
def test_where_only_the_set_counts_a_gap_holds_up_nothing() -> None:
    made = StreamGroup(answering(hf.Drop(), order="set", grace_ms=30))
    made.send("abc", message(1))
    made.send("abc", message(4), message(5))
    assert made.object("b").numbers == [1, 4, 5]
    made.send("abc", message(3))
    assert made.object("b").numbers == [1, 4, 5, 3]
    made.run(60)
    made.send("abc", message(2))
    made.run(20)
    assert [each.numbers for each in made.objects()] == [[1, 4, 5, 3]] * 3
    assert len(made.digests()) == 1


@RETAIN
@pytest.mark.covers("LOSS-9")
def test_where_only_the_set_counts_each_part_that_is_left_of_a_loss_is_decided(retain: str) -> None:
    """Something from the middle of a loss comes late, so that two parts are left: each is decided, once."""
    made = StreamGroup(answering(hf.Recover() | hf.Drop(), order="set", retain=retain, ask_peers=True))
    made.send("abc", message(1))
    made.send("abc", message(7))
    made.run(10)
    made.send("abc", message(4))
    made.run(400)
    assert [each.numbers for each in made.objects()] == [[1, 7, 4]] * 3
    assert [(each.mark, each.holes, each.dropped) for each in made.ledger("b").streams.values()] == [
        (7, [], 4)
    ]
    assert {(each.first, each.last) for each in INFOS} <= {(2, 6), (2, 3), (5, 6)}
    assert len(INFOS) <= 3


@pytest.mark.covers("LOSS-31", "LOSS-42", "LOSS-43")
def test_the_application_is_told_of_priorities_and_of_what_follows() -> None:
    made = StreamGroup(answering(hf.Drop(), next_messages=2))
    sent = described([1, 1, 0, 1, 0, 0, 0, 1, 1, 0])
    made.send("abc", sent[0])
    made.send("abc", sent[2], sent[3])  # 2 was low
    made.run(30)
    made.send("abc", sent[9])  # among 5 to 9 there are three high ones
    made.run(30)
    assert [each.priority.is_high_lost for each in INFOS] == [hf.Lost.NO, hf.Lost.YES]
    assert [[each.number for each in info.next_messages] for info in INFOS] == [[3, 4], [10]]
    assert INFOS[0].next_messages[0].payload == b"#3"
    edges = {"before": (3, 5), "within": (2, 4)}  # 3 is high: the last one before the gap, the only one in it
    for stream, numbers in edges.items():
        for number in numbers:
            made.send("abc", sent[number - 1], origin=Origin("exchange", stream, 1))
            made.run(30)
    told = {each.stream: each.priority.is_high_lost for each in INFOS}
    assert (told["before"], told["within"]) == (hf.Lost.NO, hf.Lost.YES)


@pytest.mark.covers("LOSS-36")
def test_other_servers_tell_the_priorities_that_no_message_tells() -> None:
    made = StreamGroup(answering(hf.Drop(), ask_peers=True))
    made.send("abc", message(1))
    made.send("b", message(2, priority=0))
    made.send("abc", message(3))
    made.run(60)
    assert INFOS[0].priority.from_peers == (0,)
    assert INFOS[0].priority.is_high_lost is hf.Lost.YES


@pytest.mark.covers("LOSS-110")
def test_a_decision_can_be_made_again_from_what_the_audit_keeps() -> None:
    made = StreamGroup(answering(hf.Drop()))
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(30)
    decided = made.ledger("c").audit[-1].decided
    assert decode_information(decided.information) == INFOS[0]  # type: ignore[union-attr]
    assert decided.origin == ORIGIN  # type: ignore[union-attr]


class Overtaken:
    """Takes for lost what three later messages have overtaken, however long that takes."""

    def __init__(self, grace_ns: int) -> None:
        self.seen: tuple[int, int] = (0, 0)

    def look(self, mark: int, next_held: int | None, highest: int, now: int) -> hf.Gap | None:
        if next_held is None or next_held == mark + 1 or highest < next_held + 2:
            return None
        return hf.Gap(mark + 1, next_held - 1)

    def due_ns(self) -> int | None:
        return None


class Broken(Overtaken):
    def look(self, mark: int, next_held: int | None, highest: int, now: int) -> hf.Gap | None:
        raise ValueError("no idea")


@pytest.mark.covers("LOSS-38")
def test_a_class_may_notice_losses_in_its_own_way() -> None:
    """What counts as a loss is its detector's word. One that fails is replaced by numbers and grace time, so
    that its stream goes on."""
    book = answering(hf.Drop())
    book.gap_detector = Overtaken  # type: ignore[attr-defined]
    made = StreamGroup(book)
    made.send("abc", message(1), message(3), message(4))
    made.run(500)
    assert (made.object("a").numbers, INFOS) == ([1], [])
    made.send("abc", message(5))
    assert [each.numbers for each in made.objects()] == [[1, 3, 4, 5]] * 3
    assert [(each.first, each.last) for each in INFOS] == [(2, 2)]
    book.gap_detector = Broken  # type: ignore[attr-defined]
    made = StreamGroup(book)
    made.send("abc", message(1), message(3))
    made.run(50)
    assert [each.numbers for each in made.objects()] == [[1, 3]] * 3
    book.gap_detector = 7  # type: ignore[attr-defined]
    with pytest.raises(hf.InvalidRequest, match="gap_detector"):
        StreamGroup(book)


@RETAIN
@pytest.mark.covers("LOSS-80")
def test_what_the_order_names_out_of_turn_drops_what_came_before(retain: str) -> None:
    """The order of a stream is law. A range that begins later than the next number says of those between that
    they are dropped for good: no member delivers them when they come."""
    made = StreamGroup(answering(hf.Recover(), retain=retain))
    made.send("abc", message(1))
    made.send("bc", message(2), message(3))
    later = message(4)
    made.send("bc", later)
    made.send("a", later)
    carried = (later,) if retain == "memory" else ()
    made.streams["a"].ordering.wish(Deliver(ORIGIN, 4, 1, carried))
    made.run()
    made.send("abc", message(2), message(3))
    made.run(200)
    assert [each.numbers for each in made.objects()] == [[1, 4]] * 3
    assert [made.ledger(name).streams[ORIGIN.stream].dropped for name in "abc"] == [2] * 3
    assert len(made.digests()) == 1
