"""Tests how a call between groups ends if it is not answered in time: never run, or unknown, without guessing
(X3)."""

import random
from collections.abc import Callable, Hashable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from fake_group import FakeClock

from holdfast.calling.config import ClientConfig
from holdfast.execution.context import OtherGroup
from holdfast.execution.effects import Job, Outgoing
from holdfast.execution.execution import REFUSALS
from holdfast.execution.nested_call import sent_by
from holdfast.execution.queue import SETTLING_S, deadline_ns, expiration_s
from holdfast.groups.outbound.calls import OutboundCall, OutboundGroups
from holdfast.model.calls import Nested, RefusalCode, Replies, Request, Seen, Settle, ToClient, Turned
from holdfast.model.deadlock import Root
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import MILLISECOND, SECOND, ClientId, Epoch, GroupId, HostId, Position
from holdfast.model.outcome import (
    CallRefused,
    NestedNotExecuted,
    NestedOutcomeUnknown,
    Outcome,
    Refused,
    Returned,
    Unknown,
    decode_outcome,
    encode_outcome,
    value_of,
)
from holdfast.model.ports import NoTrace
from holdfast.model.reference import MemberAddress, Reference
from holdfast.sequence.retention import NEVER

STOCK, SHOP, A = GroupId(3), GroupId(1), HostId("a")
CALLER = Request(ClientId("c"), 7)
REFERENCE = Reference(
    group=STOCK, name="stock", version=Epoch(4), primary=A, members=(MemberAddress(host=A, address="a:7400"),)
)


class Timers:
    """All timers of one test; moving the clock fires them."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.set_ones: dict[int, tuple[int, Callable[[Hashable], None], Hashable]] = {}
        self.number = 0

    def make(self, on_timer: Callable[[Hashable], None]) -> Any:
        def start(delay_ns: int, tag: Hashable) -> int:
            self.number += 1
            self.set_ones[self.number] = (self.clock.time_ns + delay_ns, on_timer, tag)
            return self.number

        return SimpleNamespace(set=start, cancel=lambda timer: self.set_ones.pop(timer, None))

    def pass_time(self, ns: int) -> None:
        until = self.clock.time_ns + ns
        while due := [(at, number) for number, (at, _, _) in self.set_ones.items() if at <= until]:
            at, number = min(due)
            self.clock.time_ns = max(self.clock.time_ns, at)
            _, on_timer, tag = self.set_ones.pop(number)
            on_timer(tag)
        self.clock.time_ns = until


class Calling:
    """A call of the group ``shop`` to ``stock``, which is waited for one second."""

    def __init__(self, *, may_have_left: bool = False) -> None:
        self.clock = FakeClock()
        self.timers = Timers(self.clock)
        self.told: list[Outcome] = []
        self.sent: list[Any] = []
        self.connected = [A]
        deadline = self.clock.time_ns + SECOND
        outgoing = Outgoing(
            CALLER,
            1,
            "stock",
            "reserve",
            msgspec.Raw(b"\x90"),
            expiration_s(deadline),
            ("shop",),
            Position(3),
            may_have_left,
            root=Root(5, "shop", *CALLER),
            deadline_ns=deadline,
        )
        ports = SimpleNamespace(
            clock=self.clock,
            random=SimpleNamespace(stream=lambda name: random.Random(7)),
            trace=NoTrace(),
            soon=lambda work: work(),
        )
        hosted = SimpleNamespace(
            replica=self, group=SHOP, ask_turn=lambda: None, time_ns=lambda _: self.clock.time_ns
        )
        self.called = OutboundGroups(
            ClientId("h:1"),
            cast(Any, self),
            cast(Any, ports),
            self.timers.make,
            ClientConfig(),
            None,
            lambda: None,
        )
        awaited = OutboundCall(cast(Any, hosted), outgoing)
        time_ns = self.clock.time_ns
        self.called.call(
            REFERENCE, awaited, sent_by(SHOP, outgoing), awaited.left_ns(lambda: time_ns), time_ns
        )

    def on_nested_outcome(self, caller: Request, call: int, outcome: bytes) -> None:
        self.told.append(decode_outcome(outcome))

    def keep(self, addresses: Iterable[str]) -> None:
        return None

    def send(self, peer: str, message: object) -> None:
        self.sent.append(message)

    def take(self, kind: type) -> list[Any]:
        found = [each for each in self.sent if isinstance(each, kind)]
        self.sent = [each for each in self.sent if not isinstance(each, kind)]
        return found

    def hear(self, message: ToClient) -> None:
        self.called.on_message(A, message)

    def answer(self, number: int, outcome: bytes) -> None:
        self.hear(Replies(STOCK, [number], [outcome], Seen(), self.clock.time_ns))

    def turn_all_away_for(self, ns: int) -> None:
        for _ in range(ns // (5 * MILLISECOND)):
            for each in self.take(Nested):
                self.hear(Turned(each.frame, STOCK, RefusalCode.UNAVAILABLE, "nobody serves"))
            self.timers.pass_time(5 * MILLISECOND)


def test_a_call_that_was_turned_away_every_time_was_not_executed() -> None:
    calling = Calling()
    calling.turn_all_away_for(1100 * MILLISECOND)
    assert calling.take(Settle) == [], "there is nothing to ask"
    (told,) = calling.told
    assert isinstance(told, Refused)
    with pytest.raises(NestedNotExecuted, match="nobody could serve it"):
        value_of(told)


def test_one_of_which_an_earlier_copy_may_have_left_is_asked_about() -> None:
    calling = Calling(may_have_left=True)
    calling.turn_all_away_for(1450 * MILLISECOND)
    assert calling.told == []
    (asked,) = calling.take(Settle)
    assert (asked.asked_client, asked.asked_number) == (f"{SHOP}:c:7", 1)
    assert asked.withdraws


@pytest.mark.parametrize(
    ("settled", "expected"),
    [(REFUSALS[NEVER], NestedNotExecuted), (encode_outcome(Refused("call_cycle", "")), CallRefused)],
)
def test_what_the_called_group_settles_is_the_end(settled: bytes, expected: type[Exception]) -> None:
    calling = Calling()
    calling.timers.pass_time(1020 * MILLISECOND)  # it was sent and not answered
    (asked,) = calling.take(Settle)
    calling.answer(asked.number, settled)
    (told,) = calling.told
    with pytest.raises(expected):
        value_of(told)


def test_an_outcome_that_comes_to_light_so_is_the_calls_own() -> None:
    calling = Calling()
    calling.timers.pass_time(1020 * MILLISECOND)
    (asked,) = calling.take(Settle)
    calling.answer(asked.number, encode_outcome(Returned(5)))
    assert calling.told == [Returned(5)]


def test_without_any_answer_it_is_unknown_and_soon() -> None:
    calling = Calling()
    calling.timers.pass_time(1700 * MILLISECOND)
    (told,) = calling.told
    assert isinstance(told, Unknown)
    with pytest.raises(NestedOutcomeUnknown):
        value_of(told)


def test_a_group_that_has_forgotten_it_leaves_it_unknown() -> None:
    calling = Calling()
    calling.timers.pass_time(1020 * MILLISECOND)
    (asked,) = calling.take(Settle)
    calling.answer(asked.number, encode_outcome(Unknown("the request has expired")))
    assert [type(each) for each in calling.told] == [Unknown]


def test_a_host_that_ends_says_nothing_of_the_calls_it_made() -> None:
    """The next primary makes the calls again. An end reported from here would be a needless record."""
    calling = Calling()
    calling.called.close()
    calling.timers.pass_time(3 * SECOND)
    assert calling.told == []


# --- expirations


def job(expiration: int, chain: tuple[str, ...] = ()) -> Job:
    return Job(ClientId("c"), 7, "buy", msgspec.Raw(b"\x90"), expiration, 100 * SECOND, chain)


def test_a_timeout_counts_from_when_the_call_is_made_and_never_beyond_the_operations_own_end() -> None:
    assert deadline_ns(job(200), 2 * SECOND, 150 * SECOND) == 152 * SECOND
    assert deadline_ns(job(200), 90 * SECOND, 150 * SECOND) == 200 * SECOND
    assert deadline_ns(job(200), None, 150 * SECOND) == 200 * SECOND


def test_the_called_group_knows_a_call_for_longer_than_it_is_waited_for() -> None:
    """Otherwise the called group could not say what became of the call."""
    assert expiration_s(1_500 * MILLISECOND) == 2 + SETTLING_S


def test_calls_within_calls_are_waited_for_as_long_as_the_outermost() -> None:
    outer = deadline_ns(job(200), None, 0)
    inner = deadline_ns(job(expiration_s(outer), ("shop",)), None, 0)
    assert inner == outer


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), 1e9])
def test_what_is_no_timeout_is_refused(timeout_s: float) -> None:
    with pytest.raises(InvalidRequest, match="timeout"):
        OtherGroup("stock", timeout_s=timeout_s)
