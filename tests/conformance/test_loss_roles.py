"""Leaders that suspend themselves, new leaders, and backups that lack what was ordered (LOSS-58, 85, 90)."""

from types import SimpleNamespace
from typing import cast

import pytest
from loss_books import INFOS, answering
from stream_group import ORIGIN, StreamGroup, message

import holdfast as hf
from holdfast.groups.host_groups import HostGroups
from holdfast.model.ids import GroupId, HostId
from holdfast.node.streams.intake import Intakes
from holdfast.streams.message import Heartbeat, Origin
from holdfast.streams.peers import Holds, best_holder
from holdfast.streams.records import Decided, Lacked
from holdfast.streams.runs import MESSAGE_BYTES
from holdfast.styles.replica import Replica


@pytest.mark.covers("LOSS-2", "LOSS-58", "LOSS-62", "LOSS-78", "LOSS-86", "LOSS-97")
def test_a_leader_that_suspends_itself_hands_over_to_one_that_has_the_messages() -> None:
    made = StreamGroup(answering(hf.Suspend()))
    made.send("abc", message(1))
    made.send("c", message(2))
    made.send("abc", message(3))
    made.run(100)
    assert [(who, to) for who, to, _ in made.handed_over] == [("a", "c")]
    made.fail_over("c", is_crash=False)
    made.run(50)
    assert made.object("c").numbers == [1, 2, 3]
    assert made.replicas["a"].execution is None  # until it has taken the state of the leader
    assert "gold 2 to 2 is lost here" in made.replicas["a"].fitness().why
    state = made.replicas["c"].capture()
    assert state is not None
    made.replicas["a"].install(state)
    made.send("abc", message(4))
    made.run(50)
    assert [each.numbers for each in made.objects()] == [[1, 2, 3, 4]] * 3, "it is back, as a backup"
    assert len(made.digests()) == 1


@pytest.mark.covers("LOSS-86")
def test_one_that_gets_the_messages_while_a_stream_waits_leads_on() -> None:
    made = StreamGroup(answering(hf.Suspend(), status_ms=20))
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(60)
    assert made.handed_over == []
    made.send("c", message(2))
    made.run(60)
    assert [(who, to) for who, to, _ in made.handed_over][:1] == [("a", "c")]


@pytest.mark.covers("LOSS-86")
def test_of_two_that_have_some_of_the_messages_the_one_that_has_most_leads_on() -> None:
    made = StreamGroup(answering(hf.Suspend()))
    made.send("abc", message(1))
    made.send("b", message(2), message(3))
    made.send("c", message(3))
    made.send("abc", message(4))
    made.run(100)
    assert [(who, to) for who, to, _ in made.handed_over] == [("a", "b")]


@pytest.mark.covers("LOSS-86")
def test_a_server_that_owes_messages_is_not_handed_the_group() -> None:
    answers = {HostId(host): Holds(ORIGIN, 1, 9, count, (), owes) for host, count, owes in PEERS}
    assert best_holder(answers, [HostId(host) for host in "bcd"]) == "d"
    assert best_holder(answers, [HostId("b"), HostId("c")]) is None


PEERS = (("b", 9, True), ("c", 0, False), ("d", 3, False))


@pytest.mark.covers("LOSS-3", "LOSS-74", "LOSS-101")
def test_a_stream_waits_where_suspending_would_help_nobody() -> None:
    made = StreamGroup(answering(hf.Suspend()))
    made.send("abc", message(1))
    made.send("abc", message(3))
    other = Origin("exchange", "silver", 1)
    made.run(100)
    made.send("abc", message(1), origin=other)
    made.run(20)
    assert made.handed_over == []
    assert made.object("b").numbers == [1, 1]  # other streams flow (LOSS-61)
    assert made.object("b").notices[:1] == ["suspend 2-2"]
    decided = made.ledger("b").audit[0].decided
    assert isinstance(decided, Decided)
    assert decided.came_to == "no other server has any of them: the stream waits"
    made.send("a", message(2))
    made.run(20)
    assert made.object("b").numbers == [1, 1, 2, 3]


@pytest.mark.covers("LOSS-74", "LOSS-101")
def test_whether_it_is_the_only_server_is_said_before_the_choice_and_again_when_it_changes() -> None:
    """A stream waits because its leader would be suspended and nobody is better off. The other servers go:
    the application is asked again, and told that it is the only one now, and was not."""
    made = StreamGroup(answering(hf.Suspend(), status_ms=20))
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(100)
    assert [(each.is_only_server, each.was_only_server) for each in INFOS] == [(False, None)]
    made.crash("b")
    made.crash("c")
    made.run(300)
    assert (INFOS[-1].is_only_server, INFOS[1].was_only_server) == (True, False)
    decided = made.ledger("a").audit[-1].decided
    assert isinstance(decided, Decided)
    assert decided.came_to.endswith("the stream waits"), "a lone server that is to suspend itself says so"
    assert made.object("a").numbers == [1]


@pytest.mark.covers("LOSS-85")
def test_a_new_leader_goes_on_from_the_last_ordered_number() -> None:
    made = StreamGroup(answering(hf.Drop()))
    made.send("abc", message(1), message(2))
    made.send("abc", message(4))
    made.run(30)
    made.fail_over("b", is_crash=True)
    made.run(20)
    made.send("bc", message(3))  # dropped by the leader before
    made.send("bc", message(6))
    made.run(30)
    assert [each.numbers for each in made.objects()] == [[1, 2, 4, 6]] * 2
    assert [(each.first, each.last) for each in INFOS] == [(3, 3), (5, 5)]


@pytest.mark.covers("LOSS-90")
def test_a_backup_that_lacks_an_ordered_message_recovers_it_and_waits_for_nothing_else() -> None:
    made = StreamGroup(answering(hf.Drop(), retain="none"))
    made.send("ab", message(1))
    made.send("abc", message(2))
    assert made.object("b").numbers == [1, 2]  # nobody waits for c
    made.run(60)
    assert made.object("c").numbers == [1, 2]


@pytest.mark.covers("LOSS-90")
def test_a_backup_that_lacks_many_records_asks_for_all_that_is_missing_at_once() -> None:
    """It does not wait for each of them in turn: while a stream flows, it would never be done."""
    made = StreamGroup(answering(hf.Drop(), retain="none"))
    made.send("abc", message(1))
    for number in range(2, 42):
        made.send("ab", message(number))
    made.send("abc", message(42))
    made.run(20)
    assert made.object("c").numbers == list(range(1, 43))
    held = made.streams["c"].holding.newest("gold")
    assert held is not None
    assert held.figures.asked == 1


@pytest.mark.covers("LOSS-90", "LOSS-100")
def test_a_backup_that_cannot_recover_it_takes_the_leaders_state() -> None:
    made = StreamGroup(answering(hf.Drop(), retain="none", recover_from=("log",)))
    made.send("ab", message(1))
    made.run(60)
    assert made.replicas["c"].execution is None
    assert "gold 1 to 1 was ordered and is not here" in made.replicas["c"].fitness().why
    assert made.object("a").numbers == [1]


@pytest.mark.covers("LOSS-100")
def test_a_message_is_held_until_all_servers_have_delivered_it() -> None:
    """Where the order has only numbers, a server that is away finds the messages when it returns; then nobody
    holds them any more."""
    made = StreamGroup(answering(hf.Drop(), retain="none", status_ms=20))
    made.send("abc", message(1))
    made.run(300)
    assert [made.streams[name].held(ORIGIN, 1) for name in "abc"] == [None] * 3
    made.crash("c")
    made.send("ab", message(2))
    made.run(300)
    assert made.object("b").numbers == [1, 2]
    assert made.streams["a"].held(ORIGIN, 2) is not None
    made.restart("c")
    made.send("c", message(1))
    made.run(300)
    assert made.object("c").numbers == [1, 2]
    assert [made.streams[name].held(ORIGIN, 2) for name in "abc"] == [None] * 3


@pytest.mark.covers("LOSS-100")
def test_what_was_delivered_makes_room_for_what_comes() -> None:
    """Also between two reports to the other servers, of which this server waits for one."""
    made = StreamGroup(answering(hf.Drop(), retain="none", hold_messages=10, status_ms=60_000))
    for number in range(1, 41):
        made.send("abc", message(number))
    assert made.object("a").numbers == list(range(1, 41))
    held = [made.streams[name].holding.newest("gold") for name in "abc"]
    assert [each.figures.refused for each in held if each is not None] == [0, 0, 0]


@pytest.mark.covers("LOSS-99")
def test_a_server_without_its_object_holds_what_it_will_need() -> None:
    """While it waits for the leader's state, messages reach it: it needs none of them from elsewhere when it
    has the state. It holds the newest, as many as there is room for, which is more than usual."""
    room = {"hold_messages": 40, "hold_bytes": 60_000, "suspended_bytes": 10_000}
    made = StreamGroup(answering(hf.Drop(), retain="none", recover_from=("log",), **room))
    made.send("ab", message(1))
    made.run(60)
    assert made.replicas["c"].execution is None
    intake = Intakes(cast(HostGroups, Hosted(made.replicas["c"])), lambda *_: False).get(GroupId(1))
    assert intake is not None
    for number in range(2, 900):
        intake.on_messages(ORIGIN, [message(number)], is_answer=False)
        made.send("ab", message(number))
    held = made.streams["c"].holding.newest("gold")
    assert held is not None
    assert 40 < held.count * MESSAGE_BYTES <= 70_000
    assert held.missing(800, 899) == []


@pytest.mark.covers("LOSS-85")
def test_a_leader_that_has_let_go_of_what_it_ordered_says_that_it_is_gone() -> None:
    """Its source began two new lives before the range was committed, so nothing of the first is held. The
    leader serves already; whoever takes its state must not take it for one that lacks something."""
    made = StreamGroup(answering(hf.Drop(), retain="none", give_up_ms=0))
    leader = made.streams["a"]
    leader.on_messages(ORIGIN, [message(1)])
    made.replicas["a"].turn()
    for life in (2, 3):
        leader.on_heartbeat(Origin(ORIGIN.source, ORIGIN.stream, life), Heartbeat(0))
    assert leader.held(ORIGIN, 1) is None
    made.run(3_000)
    assert any(isinstance(each.decided, Lacked) for each in made.ledger("a").audit)
    assert made.ledger("a").lacked == []


class Hosted:
    """The groups of a host, of which there is one."""

    def __init__(self, replica: Replica) -> None:
        self.hosted = {GroupId(1): SimpleNamespace(style=replica)}
        self.guarded = lambda work: work
