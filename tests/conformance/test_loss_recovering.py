"""Lost messages that are had again: from whom, how hard it is tried, and what follows if it fails."""

import msgspec
import pytest
from loss_books import INFOS, RETAIN, answering
from stream_group import ORIGIN, StreamGroup, message

import holdfast as hf
from holdfast.model.ids import HostId
from holdfast.streams.message import Origin
from holdfast.streams.peers import GIVEN_BYTES_MAX, Given, decode_told


@RETAIN
@pytest.mark.covers("LOSS-44", "LOSS-56", "LOSS-79", "LOSS-94")
def test_a_recovered_message_is_delivered_in_its_place(retain: str) -> None:
    made = StreamGroup(answering(hf.Recover() | hf.Suspend(), retain=retain, ask_peers=True))
    made.send("abc", message(1))
    made.send("c", message(2))
    made.send("abc", message(3))
    made.run(60)
    assert [each.numbers for each in made.objects()] == [[1, 2, 3]] * 3
    (info,) = INFOS
    assert info.recovery.holders == ("c",)
    assert (info.recovery.is_possible, info.recovery.at_holders) == (True, 1)
    assert info.recovery.estimated_ms is None
    made.send("c", message(4))
    made.send("abc", message(5))
    made.run(60)
    assert INFOS[1].recovery.estimated_ms is not None, "how long the last one took"
    assert 0 <= INFOS[1].recovery.estimated_ms <= 60
    assert [each.numbers for each in made.objects()] == [[1, 2, 3, 4, 5]] * 3


@pytest.mark.covers("LOSS-56", "LOSS-94")
def test_a_recovery_that_is_chosen_may_try_harder_than_the_first_one() -> None:
    """Step 5 has failed, and so would step 9 if it tried as little: the message is at nobody yet."""
    harder = hf.Recover(within_ms=400, attempts=100) | hf.Drop()
    made = StreamGroup(answering(harder, recover_first=True))
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(30)
    assert len(INFOS) == 1
    assert "not_stored" in INFOS[0].failure
    made.send("c", message(2))
    made.run(100)
    assert [each.numbers for each in made.objects()] == [[1, 2, 3]] * 3


class Kept:
    """A place outside the group that has some messages."""

    def __init__(self, group: StreamGroup, place: str, *numbers: int) -> None:
        self.group, self.place, self.numbers = group, place, numbers
        self.asked: list[tuple[int, int]] = []

    def request(self, origin: Origin, first: int, last: int) -> bool:
        self.asked.append((first, last))
        return True

    def answer(self) -> None:
        for first, last in self.asked:
            found = [message(each) for each in self.numbers if first <= each <= last]
            self.group.streams["a"].on_messages(ORIGIN, found, place=self.place)
        self.asked.clear()


@pytest.mark.covers("LOSS-94")
def test_messages_are_had_from_the_log_from_other_servers_and_from_the_source() -> None:
    """Each of the three has one of the lost messages, and nobody has the last."""
    made = StreamGroup(answering(hf.Recover(within_ms=300, attempts=3) | hf.Drop()))
    places = (Kept(made, "@log", 2), Kept(made, "@source", 4))
    made.streams["a"].connect(log=places[0], source=places[1])
    made.send("abc", message(1))
    made.send("b", message(3))
    made.send("abc", message(6))
    for _ in range(60):
        made.run(5)
        for each in places:
            each.answer()
    assert [each.numbers for each in made.objects()] == [[1, 2, 3, 4, 6]] * 3


@pytest.mark.parametrize(
    "bounded", [hf.Recover(within_ms=40, attempts=100), hf.Recover(within_ms=60_000, attempts=2)]
)
@pytest.mark.covers("LOSS-96")
def test_a_recovery_is_bounded_in_time_and_in_attempts(bounded: hf.Recover) -> None:
    """Whichever comes first ends it, while everybody answers that there is nothing."""
    made = StreamGroup(answering(bounded | hf.Drop()))
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(15)
    assert made.object("a").numbers == [1]
    made.run(60)
    assert [each.numbers for each in made.objects()] == [[1, 3]] * 3


@pytest.mark.covers("LOSS-96")
def test_a_recovery_is_bounded_in_bytes_at_a_time() -> None:
    """A server that has much gives it in several answers, each asked for by itself."""
    made = StreamGroup(answering(hf.Recover()))
    large = [msgspec.structs.replace(message(number), payload=bytes(50_000)) for number in range(2, 14)]
    given: list[int] = []
    tell = made.members["c"].peer_messages.tell

    def noting(host: HostId, part: str, body: bytes) -> bool:
        told = decode_told(body)
        if isinstance(told, Given) and told.messages:
            given.append(sum(len(each.payload) for each in told.messages))
        return tell(host, part, body)

    made.members["c"].peer_messages.tell = noting  # type: ignore[method-assign]  # observes only
    made.send("abc", message(1))
    made.send("c", *large)
    made.send("abc", message(14))
    made.run(200)
    assert [each.numbers for each in made.objects()] == [list(range(1, 15))] * 3
    assert sum(given) == 600_000
    assert max(given) <= GIVEN_BYTES_MAX + 50_000


@pytest.mark.covers("LOSS-41", "LOSS-47", "LOSS-57", "LOSS-63", "LOSS-95", "LOSS-96")
def test_a_failed_recovery_is_asked_about_again_with_what_came_and_why_the_rest_did_not() -> None:
    made = StreamGroup(answering(hf.Recover(), hf.Drop()))
    made.send("abc", message(1))
    made.send("c", message(2), message(3))
    made.send("abc", message(6))
    made.run(300)
    assert [each.numbers for each in made.objects()] == [[1, 2, 3, 6]] * 3
    first, second = INFOS
    assert (first.first, first.last, first.attempt) == (2, 5, 1)
    assert (second.first, second.last, second.attempt) == (4, 5, 2)
    assert [each.number for each in second.recovered] == [2, 3]
    assert "not_stored" in second.failure
    assert (first.transport.asked, first.transport.recovered) == (0, 0)
    assert second.transport.asked >= 2
    assert second.transport.recovered == 2


@pytest.mark.covers("LOSS-56", "LOSS-57", "LOSS-63", "LOSS-65")
def test_the_second_choice_is_taken_when_the_first_fails_and_losses_are_answered_one_by_one() -> None:
    made = StreamGroup(answering(hf.Recover() | hf.Drop(), hf.Drop()))
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(200)
    made.send("abc", message(5))
    made.run(200)
    assert [each.numbers for each in made.objects()] == [[1, 3, 5]] * 3
    assert [each.attempt for each in INFOS] == [1, 1]


@pytest.mark.covers("LOSS-63")
def test_alternatives_are_tried_one_after_the_other() -> None:
    """Nobody has it, so it cannot be recovered, and nobody would lead on with it."""
    made = StreamGroup(answering(hf.Recover() | hf.Suspend() | hf.Drop()))
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(300)
    assert [each.numbers for each in made.objects()] == [[1, 3]] * 3
    assert (len(INFOS), made.handed_over) == (1, [])


@pytest.mark.covers("LOSS-52")
def test_what_is_recovered_first_is_never_asked_about() -> None:
    made = StreamGroup(answering(hf.Drop(), recover_first=True))
    made.send("abc", message(1))
    made.send("b", message(2))
    made.send("abc", message(4))
    made.run(200)
    assert [each.numbers for each in made.objects()] == [[1, 2, 4]] * 3
    assert [(each.first, each.last) for each in INFOS] == [(3, 3)]
