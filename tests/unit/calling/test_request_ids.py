"""Tests that a call whose expiration counted in a wrong time is made again with a new id, if it has not run
(X4)."""

import random
from collections.abc import Callable, Hashable

import msgspec
import pytest

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.ordered_lane import OrderedLane
from holdfast.calling.ports import Ended, RequestPorts
from holdfast.calling.requests import NO_ARGUMENTS, Requests
from holdfast.execution.records import Call, Sent, decode_calls
from holdfast.model.calls import CallOutcomeUnknown, Calls, Reads, Replies, Seen
from holdfast.model.ids import HOUR, SECOND, ClientId, Epoch, GroupId, HostId, Position
from holdfast.model.outcome import INVALID_POLICY, Refused, encode_outcome, encode_returned
from holdfast.model.ports import TimerId
from holdfast.model.reference import MemberAddress, Reference
from holdfast.sequence.retention import KEPT_S_MAX

A, B = HostId("a"), HostId("b")
GROUP = GroupId(1)
REFERENCE = Reference(
    GROUP, "ledger", Epoch(1), A, (MemberAddress(A, "127.0.0.1:1"), MemberAddress(B, "127.0.0.1:2"))
)
GUESS_NS = 1000 * SECOND
"""The time on a host whose clock is an hour behind."""
TIME_NS = GUESS_NS + HOUR
EXPIRED = encode_outcome(Refused("expired", "it has expired"))
TOO_LATE = encode_outcome(Refused(INVALID_POLICY, "it expires too late"))
POLICY = CallPolicy()


class Client:
    """A client that found the group through a host with a wrong clock; its own clock stands still."""

    def __init__(self, guess_ns: int = GUESS_NS) -> None:
        self.sent: list[tuple[str, object]] = []
        self.ended: dict[object, Ended] = {}
        ports = RequestPorts(
            clock=self,
            timers=lambda on_timer: self,
            network=self,
            random=self,
            trace=self,
            on_ended=lambda handle, how, _: self.ended.__setitem__(handle, how),
            later=lambda: None,
            on_reference=lambda reference: None,
        )
        self.group = Requests(REFERENCE, ClientId("me"), guess_ns, ports=ports, config=ClientConfig())
        self.group.on_connected(A)

    def now(self) -> int:
        return 0

    def wall(self) -> int:
        return 0

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        return TimerId(1)

    def cancel(self, timer: TimerId) -> None:
        return None

    def send(self, peer: str, message: object) -> None:
        self.sent.append((peer, message))

    def stream(self, name: str) -> random.Random:
        return random.Random(1)

    def note(self, event: str, **facts: object) -> None:
        return None

    def take_frames(self) -> list[list[Call]]:
        """Return the calls of every frame that leaves now."""
        self.sent.clear()
        self.group.flush()
        frames = [message for _, message in self.sent if isinstance(message, Calls)]
        return [decode_calls(msgspec.msgpack.decode(each.sent, type=Sent).calls) for each in frames]

    def answer(self, calls: list[Call], outcome: Callable[[Call], bytes]) -> None:
        numbers = [each.number for each in calls]
        outcomes = [outcome(each) for each in calls]
        seen = Seen(Epoch(1), Position(1))
        self.group.on_message(A, Replies(GROUP, numbers, outcomes, seen, TIME_NS))


def by_the_groups_time(call: Call) -> bytes:
    """Return the answer of the group's table to a call that it has not seen (X2)."""
    if call.expiration_s > TIME_NS // SECOND + KEPT_S_MAX:
        return TOO_LATE
    return EXPIRED if call.expiration_s * SECOND <= TIME_NS else encode_returned(call.method)


@pytest.mark.covers("FTC-95")
def test_a_call_reckoned_by_a_clock_that_is_years_ahead_is_made_anew() -> None:
    """A host with a wrong clock must not cause good calls to be refused: they get a new expiration, by the
    time that the refusal told (X4)."""
    client = Client(TIME_NS + 10_000 * 24 * HOUR)
    client.group.call("first", "deposit", NO_ARGUMENTS, POLICY)
    [refused] = client.take_frames()
    client.answer(refused, by_the_groups_time)
    assert client.ended == {}
    [again] = client.take_frames()
    assert again[0].expiration_s - TIME_NS // SECOND == (POLICY.duration_ns + POLICY.outcome_ns) // SECOND + 1
    client.answer(again, by_the_groups_time)
    assert client.ended == {"first": encode_returned("deposit")}


def test_a_lost_copy_that_expires_too_late_is_not_made_anew() -> None:
    """It does not run now, but nobody knows whether it will in years."""
    client = Client(TIME_NS + 10_000 * 24 * HOUR)
    client.group.call("first", "deposit", NO_ARGUMENTS, POLICY)
    client.take_frames()
    client.group.on_disconnected(A)
    client.group.on_connected(A)
    [repeated] = client.take_frames()
    client.answer(repeated, by_the_groups_time)
    assert isinstance(client.ended["first"], CallOutcomeUnknown)


def test_a_call_reckoned_in_the_time_of_a_wrong_clock_is_made_anew() -> None:
    """The user sees only the second request, which expires in the group's time."""
    client = Client()
    client.group.call("first", "deposit", NO_ARGUMENTS, POLICY)
    client.group.call("read", "balance", NO_ARGUMENTS, POLICY, is_query=True)
    [refused] = client.take_frames()
    client.answer(refused, by_the_groups_time)
    assert client.ended == {}
    [again] = client.take_frames()
    assert [each.method for each in again] == ["deposit", "balance"]
    assert not {each.number for each in again} & {each.number for each in refused}
    kept_s = again[0].expiration_s - TIME_NS // SECOND
    assert kept_s == (POLICY.duration_ns + POLICY.outcome_ns) // SECOND + 1
    client.answer(again, by_the_groups_time)
    assert client.ended == {"first": encode_returned("deposit"), "read": encode_returned("balance")}


def test_what_may_have_run_is_not_made_anew() -> None:
    """A copy was lost, and the group refuses the next: nobody knows whether the first ran."""
    client = Client()
    client.group.call("first", "deposit", NO_ARGUMENTS, POLICY)
    client.take_frames()
    client.group.on_disconnected(A)
    client.group.on_connected(A)
    [repeated] = client.take_frames()
    client.answer(repeated, by_the_groups_time)
    assert isinstance(client.ended["first"], CallOutcomeUnknown)
    assert client.take_frames() == []


def test_what_the_group_says_by_the_right_time_is_final() -> None:
    """A refusal that the group's time does not explain ends the call, because a new request would be refused
    again."""
    client = Client()
    client.group.call("any", "deposit", NO_ARGUMENTS, POLICY)
    client.answer(client.take_frames()[0], lambda call: encode_returned(1))
    client.group.call("once", "deposit", NO_ARGUMENTS, POLICY)
    [calls] = client.take_frames()
    client.answer(calls, by_the_groups_time)
    client.group.call("refused", "deposit", NO_ARGUMENTS, POLICY, is_query=True)
    client.answer(client.take_frames()[0], lambda call: EXPIRED)
    assert client.ended["refused"] == EXPIRED


def test_a_lane_keeps_its_order_when_its_first_call_is_made_anew() -> None:
    """Until the group has replied, its calls go one by one (X5)."""
    client, lane, ran = Client(), OrderedLane(), list[str]()

    def run(call: Call) -> bytes:
        outcome = by_the_groups_time(call)
        ran.extend([call.method] if outcome != EXPIRED else [])
        return outcome

    for name in ("a", "b", "c"):
        client.group.call(name, name, NO_ARGUMENTS, POLICY, lane=lane)
    for _ in range(8):
        for frame in client.take_frames():
            client.answer(frame, run)
    assert ran == ["a", "b", "c"]
    assert client.ended == {name: encode_returned(name) for name in "abc"}


def test_a_stale_read_does_not_tell_the_groups_time() -> None:
    """Any member answers a stale read, but only the primary's clock stamps."""
    client = Client()
    read = client.group.call("read", "balance", NO_ARGUMENTS, POLICY, stale_ms=1000)
    client.group.flush()
    assert [type(message) for _, message in client.sent[1:]] == [Reads]
    seen = Seen(Epoch(1), Position(1))
    client.group.on_message(B, Replies(GROUP, [read], [encode_returned(4)], seen, TIME_NS))
    assert client.group.time_s == GUESS_NS // SECOND
