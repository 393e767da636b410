"""The layers and parts of streams, each by itself, and the roles of members (LOSS sections A and L)."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from stream_group import ORIGIN, StreamGroup, described, message

import holdfast as hf
from holdfast.model.ids import MILLISECOND
from holdfast.streams import annex
from holdfast.streams.dropping import SelectiveDropper
from holdfast.streams.information import LossInfo
from holdfast.streams.ledger import Ledger
from holdfast.streams.message import Origin
from holdfast.streams.peers import Status, decode_told
from holdfast.streams.priorities import indication, is_lost
from holdfast.streams.records import Began, Deliver, Passed, RuleEnded
from holdfast.streams.rules import Rules, rule_of
from holdfast.streams.runs import Run

SILVER = Origin("mine", "silver", 1)
PACKAGE = Path(annex.__file__).parent
MESSAGING = ("datagram", "columns", "encoding", "sending", "pacing", "reception", "collecting")
"""What receives streams and sends output, and knows nothing of order and loss."""
TRANSPORT = ("annex", "deciding", "delivering", "dropping", "ledger", "ordering", "recovering", "suspending")
"""What elects (through the group's sequence), orders, drops and delivers, and knows nothing of sockets."""


class Book:
    """Notes in which order it gets what, and hears of everything that an application may hear of."""

    streams = hf.StreamSettings(grace_ms=10, recover_ms=60, retry_ms=10, attempts=1)

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.notices: list[str] = []

    def on_message(self, message: hf.StreamMessage) -> None:
        self.seen.append(f"{message.stream} {message.number}")

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        return hf.Drop() if info.count < 5 else hf.Recover() | hf.Drop()

    def on_action(self, notice: hf.Notice) -> None:
        self.notices.append(f"{notice.kind} {notice.first}-{notice.last}")


def imports_of(module: str) -> set[str]:
    """The modules that one of the package imports, by their names in it; foreign ones by their first part."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            own = name.removeprefix("holdfast.streams.")
            found.add(own if own != name else name.removeprefix("holdfast.").partition(".")[0])
    return found


@pytest.mark.covers("LOSS-15")
def test_messaging_and_transport_are_layers_of_their_own() -> None:
    """The messaging layer has no part of the order, the transport layer none of the wire; what they share is
    the message. Neither opens a socket: hosts and clients do, each with one layer at its side."""
    for module in MESSAGING:
        assert not imports_of(module) & {*TRANSPORT, "asyncio", "socket", "net", "node", "client"}, module
    for module in TRANSPORT:
        assert not imports_of(module) & {"datagram", "sending", "reception", "asyncio", "socket", "net"}, (
            module
        )
    assert imports_of("annex") >= {"message", "ordering", "suspending"}


@pytest.mark.covers("LOSS-4")
def test_one_server_fixes_the_order_and_another_does_when_it_leads() -> None:
    """Two streams reach each server in another order: all deliver in the leader's, whoever that is."""
    made = StreamGroup(Book)
    made.send("bc", message(1), origin=SILVER)
    made.send("bc", message(1))
    made.send("a", message(1))
    made.send("a", message(1), origin=SILVER)
    assert [each.seen for each in made.objects()] == [["gold 1", "silver 1"]] * 3
    made.fail_over("b", is_crash=False)
    made.run(20)
    made.send("ac", message(2))
    made.send("b", message(2), origin=SILVER)
    assert [each.seen[2:] for each in made.objects()] == [["silver 2"]] * 3
    made.send("b", message(2))
    assert [each.seen[2:] for each in made.objects()] == [["silver 2", "gold 2"]] * 3
    assert [made.streams[name].ordering.plan is not None for name in "abc"] == [False, True, False]


@pytest.mark.parametrize("retain", ["memory", "none"])
@pytest.mark.covers("LOSS-2")
def test_servers_come_go_suspend_themselves_and_return(retain: str) -> None:
    """While messages flow, one server crashes and returns with its disk, one is replaced by an empty one, and
    the last one of the first three goes: the rest are the same at every moment."""

    class Here(Book):
        streams = hf.StreamSettings(grace_ms=10, recover_ms=60, retry_ms=10, attempts=1, retain=retain)  # type: ignore[arg-type]

    made = StreamGroup(Here)
    made.send("abc", message(1))
    made.crash("c")
    made.send("ab", message(2))
    made.restart("c")
    made.run(100)
    made.send("abc", message(3))
    made.run(20)
    assert [each.seen for each in made.objects()] == [["gold 1", "gold 2", "gold 3"]] * 3
    made.crash("b")
    made.members["a"].floor = made.members["a"].committed  # the log is gone: a newcomer is given the state
    made.members["a"].log.clear()
    made.restart("b", is_wiped=True)
    made.run(20)
    made.fail_over("b", is_crash=True)
    made.run(20)
    made.send("bc", message(4))
    made.run(20)
    assert [each.seen[-2:] for each in made.objects()] == [["gold 3", "gold 4"]] * 2
    assert len(made.digests()) == 1


@pytest.mark.covers("LOSS-103")
def test_what_an_application_is_offered() -> None:
    """It is given messages in order, hears of a loss and chooses, gives its state and takes one, and hears on
    backups of what the leader's application chose."""
    made = StreamGroup(Book)
    made.send("abc", message(1))
    made.send("abc", message(3))
    made.run(30)
    assert [each.notices for each in made.objects()] == [["drop 2-2"]] * 3
    made.crash("c")
    made.members["a"].floor = made.members["a"].committed
    made.members["a"].log.clear()
    made.restart("c", is_wiped=True)
    made.run(20)
    assert made.object("c").seen == ["gold 1", "gold 3"]  # by the state alone: it got no message
    assert made.object("c").notices == ["drop 2-2"]
    made.send("c", message(9))
    made.send("ab", message(4))
    made.run(20)
    made.send("ab", message(9))
    made.run(200)
    assert [each.seen[-1] for each in made.objects()] == ["gold 9"] * 3
    assert [each.notices[-1] for each in made.objects()] == ["drop 5-8"] * 3


@pytest.mark.covers("LOSS-104")
class TestParts:
    """Each part works by itself, on values."""

    def test_the_determinator_of_priorities(self) -> None:
        sent = described([1, 0, 1, 1])
        assert is_lost(1, 4, sent[3].distances[0]) is hf.Lost.YES
        assert is_lost(2, 4, sent[3].distances[0]) is hf.Lost.NO

    def test_the_generator_of_information_asks_the_determinator(self) -> None:
        asked: list[LossInfo] = []

        class Asked(Book):
            def on_loss(self, info: hf.LossInfo) -> hf.Action:
                asked.append(info)
                return hf.Drop()

        made, sent = StreamGroup(Asked), described([1, 0, 1, 1])
        made.send("abc", sent[0])
        made.send("abc", sent[3])
        made.run(30)
        assert asked[0].priority == indication(1, sent[3])

    def test_the_selective_dropper_by_rule(self) -> None:
        rules = Rules()
        rules.add(rule_of(7, hf.Ignore(topic="asks", for_messages=2), ORIGIN, 0))
        dropper = SelectiveDropper("sync", delivering)
        topics = ["bids", "asks", "asks", "asks"]
        sent = [message(number, topic=topic) for number, topic in enumerate(topics, start=1)]
        assert list(dropper.entries(ORIGIN, sent, rules)) == [
            Deliver(ORIGIN, 1, 1),
            Passed(ORIGIN, 2, 3, 7),
            Deliver(ORIGIN, 4, 1),
        ]

    def test_the_selective_dropper_until_sync(self) -> None:
        rules = Rules()
        rules.add(rule_of(1, hf.Ignore(until_sync=True), ORIGIN, 0))
        sent = [message(1), message(2, topic="sync"), message(3)]
        assert list(SelectiveDropper("sync", delivering).entries(ORIGIN, sent, rules)) == [
            Passed(ORIGIN, 1, 1, 1),
            RuleEnded(1, "sync"),
            Deliver(ORIGIN, 2, 2),
        ]

    def test_the_dropper_by_what_the_order_says(self) -> None:
        ledger = Ledger()
        for entry in (Began(ORIGIN, 0), Deliver(ORIGIN, 1, 1), Deliver(ORIGIN, 4, 1)):
            ledger.apply_one(entry)
        assert (ledger.streams["gold"].mark, ledger.streams["gold"].dropped) == (4, 2)

    def test_the_total_order_determinator_and_the_change_of_role(self) -> None:
        made = StreamGroup(Book)
        made.send("abc", message(1))
        assert [each.ordering.plan is not None for each in made.streams.values()] == [True, False, False]
        made.fail_over("b", is_crash=False)
        made.run(10)
        assert [each.ordering.plan is not None for each in made.streams.values()] == [False, True, False]
        plan = made.streams["b"].ordering.plan
        assert plan is not None
        assert plan.streams["gold"].mark == 1

    def test_the_recovery_module_and_the_implementer_of_actions(self) -> None:
        class Recovering(Book):
            def on_loss(self, info: hf.LossInfo) -> hf.Action:
                return hf.Recover() | hf.Drop()

        made = StreamGroup(Recovering)
        made.send("abc", message(1))
        made.send("c", message(2))
        made.send("abc", message(4))
        made.run(200)
        assert [each.seen for each in made.objects()] == [["gold 1", "gold 2", "gold 4"]] * 3
        assert made.streams["a"].holding.newest("gold").figures.recovered == 1  # type: ignore[union-attr]
        assert [each.notices for each in made.objects()] == [["drop 3-3"]] * 3


def delivering(origin: Origin, runs: list[Run]) -> Deliver:
    return Deliver(origin, runs[0].first, runs[-1].last - runs[0].first + 1)


@pytest.mark.parametrize("retain", ["memory", "none"])
@pytest.mark.covers("LOSS-109")
def test_a_drop_costs_no_round_trip(retain: str) -> None:
    """Of a thousand messages ten are lost at the leader alone. Nobody is asked for them, the stream waits for
    nothing but the grace time, and what is ordered is what is ordered without loss and one record more for
    each loss."""

    class Dropping(Book):
        streams = hf.StreamSettings(grace_ms=5, retain=retain, status_ms=60_000)  # type: ignore[arg-type]

    def run(lost: set[int]) -> tuple[StreamGroup, int]:
        made, told = StreamGroup(Dropping), list[object]()
        made.deliver = counted(made, told)  # type: ignore[method-assign]
        for first in range(1, 1001, 20):
            sent = [message(number) for number in range(first, first + 20)]
            began_ns = made.clock.time_ns
            made.send("bc", *sent)
            made.send("a", *(each for each in sent if each.number not in lost))
            if lost & set(range(first, first + 20)):
                made.run(10)
                assert made.clock.time_ns - began_ns <= 10 * MILLISECOND
            assert [each.seen[-1] for each in made.objects()] == [f"gold {first + 19}"] * 3
        assert not [each for each in told if not isinstance(each, Status)], "nobody is asked for anything"
        return made, len(made.members["a"].log)

    lossless, plain = run(set())
    lossy, more = run(set(range(50, 1001, 100)))
    assert [len(each.seen) for each in lossy.objects()] == [990] * 3
    assert more - plain <= 2 * 10
    assert len(lossless.object("a").seen) == 1_000


def counted(made: StreamGroup, told: list[object]) -> Callable[[], None]:
    """Deliver as the group does, and note what members tell each other of messages."""
    deliver = made.deliver

    def noting() -> None:
        told.extend(decode_told(each.body) for _, _, each in made.peer_messages)
        deliver()

    return noting
