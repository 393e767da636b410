"""Tests nested calls (E3): which hosts they reach, and what the caller is told if it finds no group."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from fake_group import FakeClock

from holdfast.authority import keys
from holdfast.authority.groups import GroupRecord, NoSuchName, Placement
from holdfast.authority.recipe import Seen
from holdfast.authority.sessions import Session
from holdfast.authority.views import View, ViewMember
from holdfast.calling.config import ClientConfig
from holdfast.execution.effects import Outgoing
from holdfast.groups.catalog import GroupCatalog
from holdfast.groups.outbound.groups import OutboundCalls
from holdfast.model.calls import Nested, Request
from holdfast.model.deadlock import Root
from holdfast.model.ids import (
    SECOND,
    ClientId,
    Epoch,
    GroupId,
    HostId,
    Incarnation,
    Nonce,
    Opening,
    Position,
    Revision,
    StoreId,
)
from holdfast.model.outcome import Outcome, Refused, Unknown, decode_outcome
from holdfast.model.ports import NoTrace

STOCK = GroupId(3)
A, B = HostId("a"), HostId("b")


class Caller:
    """The calling group."""

    def __init__(self) -> None:
        self.told: list[Outcome] = []
        self.replica = self
        self.group = GroupId(1)

    def on_nested_outcome(self, caller: Request, call: int, outcome: bytes) -> None:
        self.told.append(decode_outcome(outcome))

    def ask_turn(self) -> None:
        return None

    def time_ns(self, here_ns: Callable[[], int]) -> int:
        return here_ns()


class Callees:
    """The connections of the calling host: the wanted addresses, and what was sent."""

    def __init__(self) -> None:
        self.connected: list[HostId] = []
        self.kept: list[str] = []
        self.sent: list[tuple[str, object]] = []

    def keep(self, addresses: Iterable[str]) -> None:
        self.kept = list(addresses)

    def send(self, peer: str, message: object) -> None:
        self.sent.append((peer, message))


def outgoing(*, may_have_left: bool = False) -> Outgoing:
    return Outgoing(
        Request(ClientId("c"), 7),
        1,
        "stock",
        "reserve",
        msgspec.Raw(b"\x90"),
        1110,
        ("shop",),
        Position(3),
        may_have_left,
        root=Root(5, "shop", ClientId("c"), 7),
        deadline_ns=1100 * SECOND,
    )


@pytest.mark.parametrize(("may_have_left", "expected"), [(False, Refused), (True, Unknown)])
def test_a_group_that_is_gone_was_not_called_unless_an_earlier_copy_may_have_left(
    may_have_left: bool, expected: type[Outcome]
) -> None:
    """A makes the call, which is executed, and dies before it has the answer. The called group is removed,
    and B makes the call again. To say "never run" would be a guess, and a wrong one."""
    recipes = SimpleNamespace(start=lambda _, then: then(NoSuchName("stock")))
    catalog = SimpleNamespace(find=lambda name: None)
    outbound_calls = OutboundCalls(
        ClientId("h:1"),
        cast(Any, catalog),
        cast(Any, None),
        cast(Any, recipes),
        cast(Any, SimpleNamespace(callees=None)),
        lambda _: cast(Any, None),
        ClientConfig(),
    )
    caller = Caller()
    outbound_calls.call(cast(Any, caller), outgoing(may_have_left=may_have_left))
    assert [type(each) for each in caller.told] == [expected]


def session(host: HostId) -> Session:
    return Session(host=host, incarnation=Incarnation(1), address=f"{host}:7400", nonce=Nonce(host))


def view(epoch: int, *hosts: HostId) -> View:
    members = tuple(
        ViewMember(host=host, store=StoreId(host), incarnation=Incarnation(1), opening=Opening(1))
        for host in hosts
    )
    return View(group=STOCK, epoch=Epoch(epoch), primary=hosts[0], members=members, nonce=Nonce("v"))


class Calling:
    """A host that calls the group ``stock``, which the authority describes when asked."""

    def __init__(self, standing: View) -> None:
        nothing = cast(Any, lambda *_, **__: None)
        self.callees = Callees()
        self.catalog = GroupCatalog(
            nothing, nothing, nothing, on_record=nothing, on_gone=nothing, on_view=self._on_view
        )
        self.catalog.records[STOCK] = record = GroupRecord(
            group=STOCK,
            class_name="shop:Stock",
            style="stateless",
            members=tuple(Placement(host=each.host, store=StoreId("")) for each in standing.members),
            nonce=Nonce("n"),
            name="stock",
        )
        self.clock = clock = FakeClock()
        ports = SimpleNamespace(
            clock=clock,
            callees=self.callees,
            random=SimpleNamespace(stream=lambda name: None),
            trace=NoTrace(),
            soon=lambda work: work(),
        )
        timers = SimpleNamespace(set=lambda delay_ns, tag: None, cancel=lambda tag: None, close=lambda: None)
        self.outbound_calls = OutboundCalls(
            ClientId("h:1"),
            self.catalog,
            cast(Any, SimpleNamespace(time_ns=clock.now)),
            cast(Any, SimpleNamespace(start=lambda _, then: then((record, standing)))),
            cast(Any, ports),
            lambda _: cast(Any, timers),
            ClientConfig(),
        )
        self.learn(standing)
        self.outbound_calls.call(cast(Any, Caller()), outgoing())

    def learn(self, standing: View) -> None:
        self.catalog.learn(Seen(keys.view(STOCK), standing, Revision(standing.epoch)))

    def meet(self, *hosts: HostId) -> None:
        self.catalog.sessions = {host: session(host) for host in hosts}
        self.outbound_calls.on_hosts()

    def _on_view(self, _: Seen[View]) -> None:
        reference = self.catalog.reference(STOCK)
        assert reference is not None
        self.outbound_calls.on_reference(reference)


def test_a_group_called_before_its_hosts_were_known_is_reached_when_they_are() -> None:
    """A host that has just started calls a group before it knows of any session. The view does not change, so
    no newer reference will bring the addresses."""
    calling = Calling(view(4, A, B))
    assert calling.callees.kept == []
    calling.meet(A, B)
    assert calling.callees.kept == ["a:7400", "b:7400"]
    calling.outbound_calls.on_up(A)
    assert [peer for peer, message in calling.callees.sent if isinstance(message, Nested)] == [A]


def test_a_member_whose_session_is_heard_of_after_its_view_is_reached() -> None:
    """B restarts and claims. Its view arrives before its session does."""
    calling = Calling(view(4, A))
    calling.meet(A)
    calling.learn(view(5, B, A))
    assert calling.callees.kept == ["a:7400"]
    calling.meet(A, B)
    assert sorted(calling.callees.kept) == ["a:7400", "b:7400"]
    calling.meet(B)
    assert sorted(calling.callees.kept) == ["a:7400", "b:7400"], "where it did listen is worth a try"


def test_a_call_whose_time_was_up_before_it_could_leave_does_not_leave() -> None:
    """The calling group was busy, or could not commit for so long. The call is not made, and its caller is
    told so."""
    calling = Calling(view(4, A))
    calling.meet(A)
    calling.outbound_calls.on_up(A)
    calling.callees.sent.clear()
    calling.clock.time_ns = 1200 * SECOND
    caller = Caller()
    calling.outbound_calls.call(cast(Any, caller), outgoing())
    assert [each for each in caller.told if isinstance(each, Refused)] == caller.told != []
    assert not [message for _, message in calling.callees.sent if isinstance(message, Nested)]
