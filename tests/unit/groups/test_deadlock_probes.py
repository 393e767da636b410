"""Tests deadlock probes at one host: when they are sent on, and which news is too old (E10)."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from fake_group import FakeGroup
from group_classes import LATER_S, A, Spy, call, definition, sent
from style_groups import ALL, lines

from holdfast.execution.nested_call import client_of
from holdfast.groups.deadlock_probes import FIRST_NS, MESSAGES_MAX, DeadlockProbes
from holdfast.model.calls import Request
from holdfast.model.deadlock import PATH_MAX, GiveWay, Probe, Root, Waits
from holdfast.model.ids import ClientId, GroupId, HostId
from holdfast.model.outcome import Refused, Returned, decode_outcome, encode_outcome
from holdfast.styles.config import StyleConfig

HERE, CALLED = GroupId(1), GroupId(2)
ME, OTHER = HostId("me"), HostId("other")
FULL = pytest.mark.parametrize(
    "full", [StyleConfig(log_bytes_max=0), StyleConfig(in_line_max=0)], ids=["log", "line"]
)
"""Reasons for which calls of other groups are kept out. Found by seeds 228 and 450 of the scenario groups."""
YOUNG, OLD = Root(1 << 62, "far", A, 1), Root(1, "far", A, 1)


class Host:
    """A host that serves a group whose operation 1 waits for the group ``called``. Operation 2 is queued
    behind it. Another group waits for operation 2, unless it is a client's own."""

    def __init__(self, style: str, *, is_nested: bool = True) -> None:
        Spy.runs.clear()
        self.made = made = FakeGroup(style, definition(Spy), StyleConfig())
        made.clock.step_ns = 0
        self.replica = made.replicas["a"]
        self.replica.on_calls("t", sent(call(1, "ask", "asked")))
        second = sent(call(2, "write", "second"))
        chain = ("far",) if is_nested else ()
        self.replica.on_calls("t", msgspec.structs.replace(second, chain=chain))
        made.settle()
        ((_, self.outgoing),) = made.outgoing
        made.outgoing.clear()
        self.sent: list[tuple[str, Any]] = []
        self.soon: list[Any] = []
        hosted = SimpleNamespace(
            group=HERE,
            record=SimpleNamespace(name="here"),
            style=self.replica,
            replica=self.replica,
            member=self.replica.sequence,
            history=SimpleNamespace(note=lambda *_, **__: None),
            ask_turn=lambda: None,
            is_ready=True,
        )
        view = SimpleNamespace(value=SimpleNamespace(primary=OTHER))
        directory = SimpleNamespace(
            find=lambda name: CALLED, views=dict.fromkeys((HERE, CALLED, GroupId(7)), view)
        )
        ports = SimpleNamespace(clock=made.clock, network=self)
        timers = SimpleNamespace(set=lambda delay_ns, tag: 1, cancel=lambda timer: None, close=lambda: None)
        self.on_timer: Any = None

        def make(on_timer: Any) -> Any:
            self.on_timer = on_timer
            return timers

        guard = SimpleNamespace(soon=self.soon.append, timers=make)
        self.hosted = cast(Any, hosted)
        self.circling = DeadlockProbes(
            ME, {HERE: self.hosted}, cast(Any, directory), cast(Any, ports), cast(Any, guard)
        )

    def send(self, peer: str, message: object) -> None:
        self.sent.append((peer, message))

    def take(self) -> list[Any]:
        found, self.sent = [message for _, message in self.sent], []
        return found

    @property
    def own(self) -> Waits:
        """The operation that waits here."""
        return Waits(HERE, "here", A, 1, self.outgoing.call, self.outgoing.root, self.outgoing.expiration_s)

    def give_way(self, number: int, behind: Waits) -> None:
        self.circling.on_message(OTHER, GiveWay(HERE, A, number, LATER_S, behind, ("far", "here")))
        self.made.settle()

    def ends(self) -> dict[int, Any]:
        return {
            number: decode_outcome(outcome)
            for _, numbers, outcomes in self.made.answers
            for number, outcome in zip(numbers, outcomes, strict=True)
        }


def far(group: int, root: Root = OLD) -> Waits:
    return Waits(GroupId(group), "far", ClientId("f"), group, 1, root, LATER_S)


@pytest.fixture(params=ALL)
def host(request: pytest.FixtureRequest) -> Host:
    return Host(request.param)


@FULL
def test_a_question_goes_on_for_a_call_that_finds_no_room(host: Host, full: StyleConfig) -> None:
    """E10: the call is in no queue, yet it waits for the operation that waits here."""
    probe = Probe(HERE, A, 9, (far(7),))
    host.circling.on_message(OTHER, probe)
    assert host.take() == []
    host.replica.tune(full)
    host.circling.on_message(OTHER, probe)
    (found,) = host.take()
    assert (found.group, found.path[-1]) == (CALLED, host.own)
    assert found.path[0].is_unbegun


@FULL
def test_a_call_that_finds_no_room_gives_way_for_good(host: Host, full: StyleConfig) -> None:
    """E10: if both groups are full, no call of the circle is queued. What gave way is remembered: a copy that
    comes when there is room again is not executed."""
    host.give_way(9, host.own)
    assert 9 not in host.ends(), "there is room: the call will be queued when it comes"
    host.replica.tune(full)
    host.give_way(9, far(8))
    host.give_way(9, host.own)
    host.replica.tune(StyleConfig())
    host.replica.on_calls("t", sent(call(9, "write", "late")))
    host.made.settle()
    assert host.ends()[9].code == "call_cycle"


@FULL
def test_a_call_is_asked_about_while_others_find_no_room(full: StyleConfig) -> None:
    """E10: no call of another group stands in line, as every one is refused."""
    host = Host("warm", is_nested=False)
    host.replica.tune(full)
    host.circling.watch(host.hosted, host.outgoing)
    host.made.clock.time_ns += FIRST_NS
    host.on_timer("ask")
    assert len(host.take()) == 1


def test_a_call_is_asked_about_when_it_has_waited_and_not_any_more_when_it_has_ended(host: Host) -> None:
    host.circling.watch(host.hosted, host.outgoing)
    assert host.take() == []
    host.made.clock.time_ns += FIRST_NS
    host.on_timer("ask")
    assert host.take() == [Probe(CALLED, client_of(HERE, Request(A, 1)), 1, (host.own,))]
    host.replica.on_nested_outcome(Request(A, 1), 1, encode_outcome(Returned("x")))
    host.made.settle()
    host.made.clock.time_ns += 10 * FIRST_NS
    host.on_timer("ask")
    assert host.take() == []


def test_nobody_is_asked_about_a_call_that_only_clients_wait_for() -> None:
    """Such a call is in no circle. Five hundred interleaved ones would otherwise be probed again and
    again."""
    host = Host("warm", is_nested=False)
    host.circling.watch(host.hosted, host.outgoing)
    host.made.clock.time_ns += FIRST_NS
    host.on_timer("ask")
    assert host.take() == []
    later = msgspec.structs.replace(sent(call(3, "write", "third")), chain=("far",))
    host.replica.on_calls("t", later)
    host.made.settle()
    host.made.clock.time_ns += 10 * FIRST_NS
    host.on_timer("ask")
    assert len(host.take()) == 1, "now another group waits for it"


def test_a_question_goes_on_from_a_call_in_line_to_whom_the_line_waits_for(host: Host) -> None:
    host.circling.on_message(OTHER, Probe(HERE, A, 2, (far(7),)))
    path = (msgspec.structs.replace(far(7), is_unbegun=True), host.own)
    assert host.take() == [Probe(CALLED, client_of(HERE, Request(A, 1)), 1, path)]
    host.circling.on_message(OTHER, Probe(HERE, A, 3, (far(7),)))
    assert host.take() == [], "no such call stands here"


@pytest.mark.parametrize(("root", "is_refused_here"), [(YOUNG, True), (OLD, False)])
def test_a_question_that_comes_round_has_the_youngest_give_way(
    host: Host, root: Root, is_refused_here: bool
) -> None:
    """The youngest call gives way, no matter in which of the two queues it is."""
    own = msgspec.structs.replace(host.own, is_unbegun=True)
    host.circling.on_message(OTHER, Probe(HERE, A, 2, (own, far(7, root))))
    (told,) = host.take()
    assert isinstance(told, GiveWay)
    if is_refused_here:
        assert (told.group, told.client) == (HERE, client_of(GroupId(7), Request(ClientId("f"), 7)))
        assert told.behind.is_same(own)
        assert told.circle == ("far", "here")
    else:
        assert (told.group, told.client) == (7, client_of(HERE, Request(A, 1)))
        assert told.behind.is_same(far(7))
        assert told.circle == ("here", "far")


def test_a_path_ends_somewhere(host: Host) -> None:
    path = tuple(far(each) for each in range(100, 100 + PATH_MAX))
    host.circling.on_message(OTHER, Probe(HERE, A, 2, path))
    assert host.take() == []


def test_what_a_host_sends_is_bounded(host: Host) -> None:
    for _ in range(2 * MESSAGES_MAX):
        host.circling.on_message(OTHER, Probe(HERE, A, 2, (far(7),)))
    assert len(host.take()) == MESSAGES_MAX
    host.made.clock.time_ns += FIRST_NS
    host.circling.on_message(OTHER, Probe(HERE, A, 2, (far(7),)))
    assert len(host.take()) == 1


def test_the_call_that_is_to_give_way_is_refused(host: Host) -> None:
    host.give_way(2, host.own)
    (outcome,) = host.ends().values()
    assert outcome == Refused("call_cycle", "the groups call each other in a circle: far -> here -> far")
    host.replica.on_nested_outcome(Request(A, 1), 1, encode_outcome(Returned("x")))
    host.made.settle()
    assert lines(host.made, "a") == ["asked"]


def test_old_news_refuses_nothing(host: Host) -> None:
    """The queue has moved on since, the call has begun, or the group has moved."""
    host.give_way(2, msgspec.structs.replace(host.own, call=2))
    host.give_way(2, far(7))
    host.give_way(1, host.own)
    host.hosted.is_ready = False
    host.give_way(2, host.own)
    assert host.ends() == {}
    host.replica.on_nested_outcome(Request(A, 1), 1, encode_outcome(Returned("x")))
    host.made.settle()
    assert lines(host.made, "a") == ["asked", "second"]
