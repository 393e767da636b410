"""Messages that are ignored by rules, which begin and end at the same message everywhere (LOSS-66 to 70)."""

import pytest
from stream_group import ORIGIN, StreamGroup, message

import holdfast as hf
from holdfast.streams.message import Message, Origin
from holdfast.streams.rules import RULES_MAX

SILVER = Origin("mine", "silver", 1)


def ruled(rule: hf.Action) -> StreamGroup:
    """A group of which one message is lost and dropped; *rule* is registered with that."""

    class Book:
        streams = hf.StreamSettings(grace_ms=10)
        seen: list[str]
        notices: list[str]

        def __init__(self) -> None:
            self.seen = []
            self.notices = []

        def on_messages(self, batch: list[hf.StreamMessage]) -> None:
            self.seen += [f"{each.stream} {each.number}" for each in batch if each.number > 3]

        def on_loss(self, info: hf.LossInfo) -> hf.Action:
            return hf.Drop() & rule

        def on_action(self, notice: hf.Notice) -> None:
            self.notices.append(notice.kind)

    made = StreamGroup(Book)
    made.send("abc", message(1))
    made.send("abc", message(1), message(2), message(3), origin=SILVER)
    made.send("abc", message(3))
    made.run(30)
    return made


def choosing(answer: hf.Action) -> type:
    """A class that answers every loss so, and keeps the numbers that it was given."""

    class Chooser:
        streams = hf.StreamSettings(grace_ms=10)
        seen: list[int]

        def __init__(self) -> None:
            self.seen = []

        def on_messages(self, batch: list[hf.StreamMessage]) -> None:
            self.seen += [each.number for each in batch]

        def on_loss(self, info: hf.LossInfo) -> hf.Action:
            return answer

    return Chooser


def seen_of(made: StreamGroup, *messages: Message, origin: Origin = ORIGIN) -> list[int]:
    """Which of these are delivered; the same on every member."""
    made.send("abc", *messages, origin=origin)
    made.run(10)
    found = [each.seen for each in made.objects()]
    assert found.count(found[0]) == len(found)
    assert len(made.digests()) == 1
    return [int(each.split()[1]) for each in found[0] if each.startswith(origin.stream)]


@pytest.mark.covers("LOSS-64")
def test_what_is_lost_is_recovered_and_what_follows_is_ignored() -> None:
    made = StreamGroup(choosing(hf.Recover() & hf.Ignore(topic="asks")))
    made.send("abc", message(1))
    made.send("c", message(2))
    made.send("abc", message(3))
    made.run(100)
    assert [each.seen for each in made.objects()] == [[1, 2, 3]] * 3
    assert [len(made.ledger(name).rules) for name in "abc"] == [1, 1, 1]
    made.send("abc", message(4, topic="asks"), message(5))
    made.run(10)
    assert [each.seen for each in made.objects()] == [[1, 2, 3, 5]] * 3


@pytest.mark.covers("LOSS-64", "LOSS-74")
def test_a_rule_alone_means_that_what_is_lost_already_is_dropped() -> None:
    made = StreamGroup(choosing(hf.Ignore(topic="asks")))
    made.send("abc", message(1))
    made.send("c", message(2))  # it could be had
    made.send("abc", message(3), message(4, topic="asks"))
    made.run(100)
    assert [each.seen for each in made.objects()] == [[1, 3]] * 3
    assert made.ledger("b").streams["gold"].dropped == 1


@pytest.mark.covers("LOSS-49", "LOSS-50", "LOSS-60", "LOSS-62", "LOSS-64", "LOSS-67", "LOSS-77")
def test_a_stream_is_ignored_and_that_makes_no_gaps() -> None:
    made = ruled(hf.Ignore())
    assert seen_of(made, message(4), message(5, priority=0, topic="news")) == []
    assert seen_of(made, message(4), origin=SILVER) == [4]
    assert made.ledger("b").streams["gold"].ignored == 3  # 3 itself came after the rule
    assert made.ledger("b").streams["gold"].losses == 1
    assert made.object("c").notices == ["rule", "drop & ignore"]


@pytest.mark.covers("LOSS-67")
@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (hf.Ignore(topic="bids"), [5, 6, 7, 8]),
        (hf.Ignore(topic=("asks", "news")), [4, 6, 8]),
        (hf.Ignore(related_to="bids"), [5, 7, 8]),
        (hf.Ignore(priority=0), [4, 5, 6, 8]),
        (hf.Ignore(priority=(1, 2), topic="asks"), [4, 6, 7, 8]),
        (hf.Ignore(source="exchange", topic="bids.gold"), [4, 5, 7, 8]),
        (hf.Ignore(source="another"), [4, 5, 6, 7, 8]),
        (hf.Ignore(stream="silver"), [4, 5, 6, 7, 8]),
        (hf.Ignore(stream="*", topic="news"), [4, 5, 6, 8]),
    ],
)
def test_messages_are_ignored_by_source_stream_topic_related_topics_and_priority(
    rule: hf.Ignore, kept: list[int]
) -> None:
    made = ruled(rule)
    sent = (
        message(4, 1, "bids"),
        message(5, 2, "asks"),
        message(6, 1, "bids.gold"),
        message(7, 0, "news"),
        message(8, 1, "bidsmanship"),
    )
    assert seen_of(made, *sent) == kept


@pytest.mark.covers("LOSS-68", "LOSS-69")
def test_a_rule_for_some_messages_counts_those_that_it_keeps_back() -> None:
    made = ruled(hf.Ignore(topic="asks", for_messages=2))
    sent = [message(number, topic="asks" if number % 2 else "bids") for number in range(4, 11)]
    assert seen_of(made, *sent) == [4, 6, 8, 9, 10]
    assert made.object("a").notices == ["rule", "drop & ignore"]
    assert list(made.ledger("c").rules) == []


@pytest.mark.covers("LOSS-68", "LOSS-69", "LOSS-81")
def test_a_rule_for_some_time_ends_where_the_leader_has_ordered_its_end() -> None:
    made = ruled(hf.Ignore(for_s=1.0))
    assert seen_of(made, message(4)) == []
    made.streams["b"].ports.clock.time_ns += 2_000_000_000  # type: ignore[attr-defined]  # passes for all
    for name in "bc":
        made.streams[name].turn()  # a backup's clock ends nothing
    assert [len(made.ledger(name).rules) for name in "abc"] == [1, 1, 1]
    assert seen_of(made, message(5)) == [5]
    assert made.object("c").notices == ["rule", "drop & ignore", "rule ended"]


@pytest.mark.covers("LOSS-66", "LOSS-68")
def test_a_rule_lasts_until_a_sync_puts_source_and_application_into_step() -> None:
    made = ruled(hf.Ignore(until_sync=True))
    assert seen_of(made, message(4, topic="sync"), origin=SILVER) == [4]
    assert seen_of(made, message(4)) == [], "another stream is in step, and this one is not"
    assert seen_of(made, message(5, topic="sync"), message(6)) == [5, 6]


@pytest.mark.covers("LOSS-70")
def test_a_rule_can_be_listed_and_ended_by_request_at_an_ordered_point() -> None:
    made = ruled(hf.Ignore(until_sync=True))
    assert [str(each) for each in made.streams["b"].rules()] == ["rule 1: stream gold"]
    assert not made.streams["b"].end_rule(1)  # the leader alone orders
    assert not made.streams["a"].end_rule(7)  # there is none
    assert made.streams["a"].sync("gold") == 1
    made.run(10)
    assert made.streams["c"].rules() == []
    assert seen_of(made, message(4)) == [4]


@pytest.mark.covers("LOSS-83", "LOSS-85", "LOSS-98", "LOSS-99")
def test_a_new_leader_and_a_new_member_have_the_rules_and_the_marks() -> None:
    made = ruled(hf.Ignore(topic="asks", for_messages=5))
    assert seen_of(made, message(4, topic="asks")) == []
    made.crash("c")
    made.members["a"].floor = made.members["a"].committed  # the log is gone: c is given a state
    made.members["a"].log.clear()
    made.restart("c", is_wiped=True)
    made.run(20)
    assert len(made.digests()) == 1
    made.fail_over("c", is_crash=True)  # it knows of the rule, and of what was dropped, by the state alone
    made.run(20)
    made.send("bc", message(2), *(message(number, topic="asks") for number in range(5, 11)))
    made.run(20)
    assert [each.seen for each in made.objects()] == [["gold 9", "gold 10"]] * 2


def test_there_are_at_most_so_many_rules() -> None:
    made = ruled(hf.Ignore(topic="never"))
    for number in range(5, 5 + 2 * RULES_MAX + 10, 2):
        made.send("abc", message(number))
        made.run(20)
    assert len(made.ledger("a").rules) == len(made.ledger("b").rules) == RULES_MAX
    assert len(made.digests()) == 1
