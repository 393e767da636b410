"""Another group decides what becomes of losses, and every member does as it says (LOSS-10, LOSS-84)."""

from dataclasses import dataclass, field, replace

import msgspec
import pytest
from loss_books import INFOS, RETAIN, Book, answering
from stream_group import StreamGroup, message

import holdfast as hf
from holdfast.model.errors import Overloaded
from holdfast.model.ids import MILLISECOND, Position
from holdfast.streams.actions import Action
from holdfast.streams.information import decode_information
from holdfast.streams.message import Origin
from holdfast.streams.records import Decided

NOBODY = {"grace_ms": 10, "decide_ms": 50, "retry_ms": 10, "attempts": 1, "recover_ms": 40}


@dataclass
class Judge:
    """What one member asks of the group that decides; it answers when it is told to."""

    member: str
    made: StreamGroup
    is_reached: bool = True
    tried: int = 0
    asked: list[tuple[int, hf.LossInfo, int]] = field(default_factory=list)

    def ask(self, number: int, info: hf.LossInfo, within_ms: int) -> bool:
        self.tried += 1
        if self.is_reached:
            self.asked.append((number, info, within_ms))
        return self.is_reached

    def answer(self, said: object, which: int = -1, why_not: str = "") -> None:
        number = self.asked[which][0]
        self.made.streams[self.member].on_decided(number, msgspec.msgpack.encode(said), why_not)
        self.made.run()


def judged(**settings: object) -> tuple[StreamGroup, dict[str, Judge]]:
    """A group whose losses another one decides about. It has an ``on_loss``, too, which nobody asks."""
    made = StreamGroup(answering(hf.Suspend(), **{**NOBODY, "decider_group": "judge", **settings}))
    judges = {name: Judge(name, made) for name in made.streams}
    for name, each in judges.items():
        made.streams[name].connect(decider=each)
    return made, judges


def lost_one(made: StreamGroup, ms: int = 20) -> None:
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(ms)


def decisions(made: StreamGroup, name: str = "") -> list[tuple[int, int, str, str]]:
    found = [each.decided for each in made.ledger(name).audit]
    return [(each.first, each.last, each.action, each.by) for each in found if isinstance(each, Decided)]


@RETAIN
@pytest.mark.covers("LOSS-10", "LOSS-46", "LOSS-84")
def test_another_group_decides_and_every_member_does_as_it_says(retain: str) -> None:
    made, judges = judged(retain=retain)
    lost_one(made)
    ((_, info, within_ms),) = judges["a"].asked
    assert (info.stream, info.first, info.last, within_ms) == ("gold", 2, 2, 50)
    assert [each.numbers for each in made.objects()] == [[1]] * 3, "it waits for the answer"
    judges["a"].answer(hf.Drop() & hf.Ignore(topic="asks"))
    assert [each.numbers for each in made.objects()] == [[1, 3]] * 3
    assert [each.notices for each in made.objects()] == [["rule 0-0", "drop & ignore 2-2"]] * 3
    assert [decisions(made, name) for name in "abc"] == [[(2, 2, "drop & ignore", "group judge")]] * 3
    assert INFOS == [], "the group's own object is not asked"
    assert [each.tried for each in judges.values()] == [1, 0, 0], "the leader alone asks"
    assert len(made.digests()) == 1


class Mute(Book):
    """It has no opinion of its own."""

    streams = hf.StreamSettings(decider_group="judge", grace_ms=10, decide_ms=50, default=hf.Recover())


@pytest.mark.covers("LOSS-84")
def test_a_class_without_an_opinion_may_leave_it_to_a_group() -> None:
    made = StreamGroup(Mute)
    judge = Judge("a", made)
    made.streams["a"].connect(decider=judge)
    lost_one(made)
    judge.answer(hf.Drop())
    assert [each.numbers for each in made.objects()] == [[1, 3]] * 3


@pytest.mark.covers("LOSS-61", "LOSS-73", "LOSS-84")
def test_a_group_that_is_silent_is_replaced_by_the_default_in_time() -> None:
    """The other streams flow meanwhile; what it says too late is about nothing any more."""
    made, judges = judged(default=hf.Drop())
    lost_one(made, 15)
    assert len(judges["a"].asked) == 1
    made.send("abc", message(1), message(2), origin=Origin("exchange", "silver", 1))
    assert [each.numbers for each in made.objects()] == [[1, 1, 2]] * 3
    due = made.streams["a"].next_ns()
    assert due is not None
    assert due <= made.clock.now() + 50 * MILLISECOND
    made.run(60)
    assert [each.numbers for each in made.objects()] == [[1, 1, 2, 3]] * 3
    assert decisions(made) == [(2, 2, "drop", "default: group judge did not answer in time")]
    made.send("abc", message(5))
    made.run(20)
    judges["a"].answer(hf.Suspend(), which=0)
    assert [each.numbers for each in made.objects()] == [[1, 1, 2, 3]] * 3, "that was another question"
    judges["a"].answer(hf.Drop())
    assert [each.numbers for each in made.objects()] == [[1, 1, 2, 3, 5]] * 3
    assert made.handed_over == []


@pytest.mark.covers("LOSS-73", "LOSS-84")
@pytest.mark.parametrize(
    ("said", "why_not", "by"),
    [
        ("whatever", "", "default: on_loss returns an action such as Drop() or Recover() | Suspend()"),
        (hf.Drop() | hf.Recover(), "", "default: nothing comes after Drop() |"),
        (None, "on_loss of judge: ValueError: I do not know", "default: on_loss of judge: ValueError"),
    ],
)
def test_an_answer_that_is_none_is_replaced_by_the_default_at_once(
    said: object, why_not: str, by: str
) -> None:
    made, judges = judged(default=hf.Drop(), decide_ms=10_000)
    lost_one(made)
    judges["a"].answer(said, why_not=why_not)
    assert [each.numbers for each in made.objects()] == [[1, 3]] * 3
    assert decisions(made)[0][3].startswith(by)


@pytest.mark.covers("LOSS-84")
def test_a_group_that_cannot_be_asked_yet_is_asked_as_soon_as_it_can() -> None:
    made, judges = judged(default=hf.Drop(), decide_ms=100, status_ms=600)
    judges["a"].is_reached = False
    lost_one(made)
    due = made.streams["a"].next_ns()
    assert due is not None
    assert due <= made.clock.now() + 10 * MILLISECOND, "not only with the next report to the others"
    judges["a"].is_reached = True
    made.run(10)
    ((_, info, _),) = judges["a"].asked
    assert info.was_only_server is None, "nobody has been told before"
    judges["a"].answer(hf.Drop())
    assert decisions(made)[0][3] == "group judge"


@pytest.mark.covers("LOSS-84", "LOSS-110")
def test_a_group_decides_about_what_it_was_told_and_that_is_what_is_recorded() -> None:
    """More is lost while it thinks: that is another question."""
    made, judges = judged(decide_ms=1_000)
    made.send("abc", message(1))
    made.beat("abc", 9)
    made.run(20)
    made.beat("abc", 30)
    made.run(20)
    ((_, told, _),) = judges["a"].asked
    assert (told.first, told.last) == (2, 9)
    judges["a"].answer(hf.Drop())
    assert made.ledger().streams["gold"].mark == 9, "nobody has decided about 10 to 30"
    (decided,) = [each.decided for each in made.ledger().audit]
    assert isinstance(decided, Decided)
    assert decode_information(decided.information) == told
    made.run(20)
    assert [(each.first, each.last) for _, each, _ in judges["a"].asked] == [(2, 9), (10, 30)]


@pytest.mark.covers("LOSS-84")
def test_what_is_decided_is_ordered_as_it_was_decided_also_when_that_takes_a_while() -> None:
    """The group has too much to do to order the decision at once, and more is lost meanwhile."""
    made = StreamGroup(answering(hf.Drop()))
    streams = made.streams["a"]
    order, is_full = streams.ports.order, False

    def refuse(body: bytes) -> Position:
        if is_full:
            raise Overloaded("its log waits for checkpoints")
        return order(body)

    streams.bind(replace(streams.ports, order=refuse))
    made.send("abc", message(1))
    is_full = True
    made.beat("abc", 3)
    made.run(30)
    made.beat("abc", 30)
    made.run(20)
    is_full = False
    made.run(30)
    assert [(each.first, each.last) for each in INFOS] == [(2, 3), (4, 30)]
    assert [each[:2] for each in decisions(made)] == [(2, 3), (4, 30)]


@pytest.mark.covers("LOSS-57", "LOSS-84")
def test_a_group_is_asked_again_when_the_recovery_that_it_chose_has_failed() -> None:
    made, judges = judged(decide_ms=1_000)
    lost_one(made)
    judges["a"].answer(hf.Recover())
    made.run(60)
    assert [(each.attempt, bool(each.failure)) for _, each, _ in judges["a"].asked] == [(1, False), (2, True)]
    judges["a"].answer(hf.Drop())
    assert [each.numbers for each in made.objects()] == [[1, 3]] * 3


@RETAIN
@pytest.mark.covers("LOSS-84", "LOSS-85")
def test_a_new_leader_asks_the_group_anew(retain: str) -> None:
    made, judges = judged(retain=retain, decide_ms=1_000)
    lost_one(made)
    made.fail_over("b", is_crash=True)
    made.run(30)
    assert [len(judges[name].asked) for name in "ab"] == [1, 1]
    judges["b"].answer(hf.Drop())
    assert made.object("b").numbers == made.object("c").numbers == [1, 3]


def test_one_decides_and_not_two() -> None:
    assert hf.StreamSettings(decider="b", decider_group="judge").problems() == [
        "decider, decider_group: one of them decides, not both"
    ]


def test_an_action_is_what_a_caller_gets_of_it() -> None:
    """A called group's answer comes as plain values."""
    plain = msgspec.to_builtins(hf.Recover() | hf.Drop())
    assert msgspec.convert(plain, Action) == hf.Recover() | hf.Drop()
