"""Tests calls to groups of other domains (FTC-6): their names, which groups they reach, and their ids."""

from collections.abc import Callable, Hashable, Iterable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from fake_group import FakeClock

from holdfast.calling.config import ClientConfig
from holdfast.execution.effects import Outgoing
from holdfast.execution.nested_call import is_from_abroad, sent_abroad, sent_by
from holdfast.execution.records import Sent
from holdfast.groups.outbound.domains import DOMAINS_MAX, OutboundDomains
from holdfast.model.calls import (
    FollowHosts,
    HostAt,
    Locate,
    Located,
    Nested,
    RefusalCode,
    Replies,
    Request,
    Seen,
    Turned,
    Whereabouts,
)
from holdfast.model.deadlock import Root
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND, ClientId, Epoch, GroupId, HostId, Incarnation, Nonce, Position
from holdfast.model.outcome import Outcome, Refused, Returned, Unknown, decode_outcome, encode_outcome
from holdfast.model.ports import NoTrace
from holdfast.model.reference import MemberAddress, Reference, chain_abroad, group_abroad, parse_group_abroad
from holdfast.node.frame_dispatch import check_from_abroad

THERE = "holdfast://127.0.0.1:7400,127.0.0.1:7401/there"
STOCK = GroupId(3)
A, B = HostId("a"), HostId("b")
CALLER = Request(ClientId("c"), 7)


# --- names


def test_a_reference_says_where_the_domain_is_and_which_group_is_meant() -> None:
    found = parse_group_abroad(group_abroad(THERE, "stock / of bread"))
    assert found is not None
    assert (found.domain.name, found.name) == ("there", "stock / of bread")
    assert found.domain.addresses == ("127.0.0.1:7400", "127.0.0.1:7401")
    assert parse_group_abroad("stock") is None
    assert parse_group_abroad(THERE) is None


@pytest.mark.parametrize("url", ["there", "holdfast:///there", "holdfast://x/there", f"{THERE}/", THERE[:-6]])
def test_what_is_no_domain_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="must be holdfast://"):
        group_abroad(url, "stock")


def test_a_circle_through_two_domains_is_seen_where_it_closes() -> None:
    there = chain_abroad(("shop",), "home", "there")
    assert there == ("holdfast://home/shop",)
    assert chain_abroad((*there, "stock"), "there", "home") == ("shop", "holdfast://there/stock")
    assert chain_abroad(("shop",), "same", "same") == ("holdfast://same/shop",)


def outgoing(group: str = f"{THERE}/stock", *, may_have_left: bool = False) -> Outgoing:
    arguments = msgspec.Raw(b"\x90")
    return Outgoing(
        CALLER,
        1,
        group,
        "reserve",
        arguments,
        1000,
        ("shop",),
        Position(3),
        may_have_left,
        root=Root(5, "shop", *CALLER),
        deadline_ns=990 * SECOND,
    )


def test_the_id_of_a_call_is_of_the_calling_group_alone_and_of_no_group_there() -> None:
    """Two domains number their groups alike, and may have the same name."""
    one, other = (sent_abroad("home", Nonce(made), outgoing(), "there") for made in "xy")
    assert one.client != other.client
    assert one == sent_abroad("home", Nonce("x"), outgoing(may_have_left=True), "there")
    assert is_from_abroad(one.client)
    assert not is_from_abroad(sent_by(GroupId(1), outgoing()).client)


def test_a_client_carries_calls_of_other_domains_groups_and_not_of_this_ones() -> None:
    """Under the id of a group of this domain, the client would be told what that group was told."""

    def nested(sent: Sent) -> Nested:
        return Nested(1, STOCK, Epoch(1), Seen(), 1, msgspec.Raw(msgspec.msgpack.encode(sent)))

    check_from_abroad(nested(sent_abroad("home", Nonce("x"), outgoing(), "there")))
    with pytest.raises(msgspec.ValidationError, match="only hosts of this domain"):
        check_from_abroad(nested(sent_by(GroupId(1), outgoing())))


# --- calling


class Caller:
    """The calling group."""

    def __init__(self) -> None:
        self.told: list[Outcome] = []
        self.replica = self
        self.now_ns = 0
        self.record = SimpleNamespace(nonce=Nonce("made"))

    def on_nested_outcome(self, caller: Request, call: int, outcome: bytes) -> None:
        self.told.append(decode_outcome(outcome))

    def ask_turn(self) -> None:
        return None

    def time_ns(self, here_ns: Callable[[], int]) -> int:
        return self.now_ns


class Callees:
    """The connections to the other domain: the wanted addresses, and what was sent."""

    def __init__(self) -> None:
        self.connected: list[HostId] = []
        self.kept: list[str] = []
        self.sent: list[tuple[str, Any]] = []

    def keep(self, addresses: Iterable[str]) -> None:
        self.kept = list(addresses)

    def send(self, peer: str, message: object) -> None:
        self.sent.append((peer, message))

    def take(self, kind: type) -> list[tuple[str, Any]]:
        found = [each for each in self.sent if isinstance(each[1], kind)]
        self.sent = [each for each in self.sent if not isinstance(each[1], kind)]
        return found


class Calling:
    """A host of the domain ``home``, one of whose groups makes calls."""

    def __init__(self) -> None:
        self.callees, self.caller, self.timers = (
            Callees(),
            Caller(),
            dict[Hashable, Callable[[Hashable], None]](),
        )
        self._soon: list[Callable[[], None]] = []
        clock = FakeClock()
        ports = SimpleNamespace(
            clock=clock,
            random=SimpleNamespace(stream=lambda name: Random(1)),
            trace=NoTrace(),
            soon=self._soon.append,
            domain="home",
            abroad=self._open,
        )
        stamps = SimpleNamespace(time_ns=clock.now)
        self.abroad = OutboundDomains(
            ClientId("h:1"), cast(Any, stamps), cast(Any, ports), cast(Any, self._make_timers), ClientConfig()
        )

    def call(self, wanted: Outgoing) -> bool:
        is_abroad = self.abroad.call(cast(Any, self.caller), wanted)
        self._end_turn()
        return is_abroad

    def up(self, host: HostId) -> None:
        self.callees.connected.append(host)
        self.domain.on_up(host)

    def hear(self, host: HostId, message: object) -> None:
        self.domain.on_message(host, message)
        self._end_turn()

    def fire(self, tag: Hashable) -> None:
        self.timers[tag](tag)

    def _end_turn(self) -> None:
        while self._soon:
            self._soon.pop(0)()

    def _open(self, other: object, events: Any) -> Callees:
        self.domain = events
        return self.callees

    def _make_timers(self, on_timer: Callable[[Hashable], None]) -> Any:
        def set(delay_ns: int, tag: Hashable) -> None:
            self.timers[tag] = on_timer

        return SimpleNamespace(set=set, cancel=lambda tag: None, close=lambda: None)


def located(frame: int) -> Located:
    members = tuple(MemberAddress(host, f"{host}:1") for host in (A, B))
    return Located(frame, Reference(STOCK, "stock", Epoch(4), A, members), 5 * SECOND)


@pytest.mark.covers("FTC-6")
def test_a_host_there_is_asked_where_the_group_is_and_then_that_is_called() -> None:
    """The next call goes there at once, and the caller stays connected to all hosts there."""
    calling = Calling()
    assert calling.call(outgoing())
    assert calling.callees.kept == ["127.0.0.1:7400", "127.0.0.1:7401"]
    calling.up(A)
    assert calling.callees.take(FollowHosts) == [(A, FollowHosts())]
    ((peer, question),) = calling.callees.take(Locate)
    assert (peer, question.name) == (A, "stock")
    calling.hear(A, Whereabouts((HostAt(B, Incarnation(1), "b:1"),)))
    calling.hear(A, located(question.frame))
    assert calling.callees.kept == ["127.0.0.1:7400", "127.0.0.1:7401", "b:1", "a:1"]
    ((peer, nested),) = calling.callees.take(Nested)
    sent = msgspec.msgpack.decode(nested.sent, type=Sent)
    assert (peer, nested.group, sent.client) == (A, STOCK, "@home:made:c:7")
    assert sent.chain == ("holdfast://home/shop",)
    answer = Replies(STOCK, [nested.number], [encode_outcome(Returned(5))], Seen(), 5 * SECOND)
    calling.hear(A, answer)
    assert calling.caller.told == [Returned(5)]
    calling.call(outgoing())
    assert calling.callees.take(Locate) == []
    assert len(calling.callees.take(Nested)) == 1


@pytest.mark.parametrize(("may_have_left", "expected"), [(False, Refused), (True, Unknown)])
def test_a_group_that_is_not_there_was_not_called_unless_an_earlier_copy_may_have_left(
    may_have_left: bool, expected: type[Outcome]
) -> None:
    calling = Calling()
    calling.call(outgoing(may_have_left=may_have_left))
    calling.up(A)
    ((_, question),) = calling.callees.take(Locate)
    calling.hear(A, Turned(question.frame, GroupId(0), RefusalCode.NO_SUCH_GROUP))
    assert [type(each) for each in calling.caller.told] == [expected]


@pytest.mark.parametrize(("may_have_left", "expected"), [(False, Refused), (True, Unknown)])
def test_a_domain_that_does_not_answer_is_asked_on_until_the_call_expires(
    may_have_left: bool, expected: type[Outcome]
) -> None:
    calling = Calling()
    calling.call(outgoing(may_have_left=may_have_left))
    calling.up(A)
    calling.up(B)
    calling.callees.take(Locate)
    calling.fire("stock")
    calling.fire("stock")
    assert {peer for peer, _ in calling.callees.take(Locate)} == {A, B}
    calling.caller.now_ns = 1000 * SECOND
    calling.fire("stock")
    assert [type(each) for each in calling.caller.told] == [expected]


def test_a_group_that_was_removed_is_sought_again() -> None:
    """Another group may have its name now."""
    calling = Calling()
    calling.call(outgoing(may_have_left=True))
    calling.up(A)
    ((_, question),) = calling.callees.take(Locate)
    calling.hear(A, located(question.frame))
    ((_, nested),) = calling.callees.take(Nested)
    calling.hear(A, Turned(nested.frame, STOCK, RefusalCode.NO_SUCH_GROUP))
    assert [type(each) for each in calling.caller.told] == [Unknown], "an earlier copy may have run"
    calling.call(outgoing())
    assert len(calling.callees.take(Locate)) == 1


def test_groups_of_this_domain_are_not_meant_and_other_domains_are_bounded() -> None:
    calling = Calling()
    assert not calling.call(outgoing("stock"))
    for number in range(DOMAINS_MAX + 1):
        calling.call(outgoing(f"holdfast://127.0.0.1:7400/domain-{number}/stock"))
    assert [type(each) for each in calling.caller.told] == [Refused]
    calling.call(outgoing("holdfast://127.0.0.1:7400/one-more/stock", may_have_left=True))
    assert type(calling.caller.told[-1]) is Unknown, "another host may have sent it before"
