"""Tests the small parts of calling: floor, addresses, time, lanes, heartbeats, and the messages' bounds."""

from collections.abc import Callable, Hashable
from itertools import permutations

import msgspec
import pytest

from holdfast.calling.client_heartbeats import ClientHeartbeats
from holdfast.calling.deadline import DeadlineTimer, GroupTime
from holdfast.calling.in_flight import Outbox
from holdfast.calling.ordered_lane import OrderedLane
from holdfast.calling.request import PendingRequest, frame_of
from holdfast.calling.request_ids import Floor
from holdfast.calling.targets import Targets
from holdfast.execution.records import Call
from holdfast.model.calls import (
    CALLS_PER_FRAME_MAX,
    Ping,
    Replies,
    RequestId,
    Seen,
    Turned,
    decode_to_client,
    decode_to_host,
    encode_message,
)
from holdfast.model.errors import InvalidRequest, Rejected
from holdfast.model.ids import ClientId, Epoch, GroupId, HostId
from holdfast.model.ports import TimerId
from holdfast.model.reference import MemberAddress, Reference

A, B, C = HostId("a"), HostId("b"), HostId("c")


class Machine:
    """A clock and timers driven by hand."""

    def __init__(self) -> None:
        self.time = 0
        self.set_timers: dict[TimerId, tuple[int, Hashable]] = {}
        self.sent: list[tuple[str, object]] = []
        self.on_timer: Callable[[Hashable], None] = lambda tag: None

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return -1

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        timer = TimerId(len(self.set_timers) + 1)
        self.set_timers[timer] = (self.time + delay_ns, tag)
        return timer

    def cancel(self, timer: TimerId) -> None:
        self.set_timers[timer] = (-1, None)

    def send(self, peer: str, message: object) -> None:
        self.sent.append((peer, message))

    def timers(self, on_timer: Callable[[Hashable], None]) -> "Machine":
        self.on_timer = on_timer
        return self

    def due(self) -> list[int]:
        return [at for at, _ in self.set_timers.values() if at >= 0]


def reference(version: int, primary: HostId, group: int = 1) -> Reference:
    members = tuple(MemberAddress(host, f"{host}:1") for host in (A, B, C))
    return Reference(GroupId(group), "g", Epoch(version), primary, members)


def request(number: int, size: int = 1) -> PendingRequest:
    return PendingRequest(Call(number, "m", msgspec.Raw(b"\x90"), 100), None, size, 0, 1, 0)


# --- the floor


def test_the_floor_is_the_lowest_number_awaited() -> None:
    floor = Floor()
    assert floor.value({1: 1, 2: 2}, 3, 0) == 1
    assert floor.value({2: 2}, 3, 0) == 2
    assert floor.value({}, 3, 0) == 3
    assert floor.value({3: 3, 9: 9}, 10, 0) == 3


def test_the_floor_waits_for_an_unknown_outcome_until_it_is_known_or_has_expired() -> None:
    floor = Floor()
    floor.hold(2, expiration_s=50)
    floor.hold(4, expiration_s=60)
    assert floor.value({}, 6, 49) == 2
    assert floor.value({}, 6, 50) == 4
    floor.release(4)
    assert floor.value({}, 6, 50) == 6


def test_one_unknown_outcome_does_not_hold_the_floor_for_ever() -> None:
    floor = Floor(lag_max=10)
    floor.hold(1, expiration_s=50)
    assert floor.value({}, 11, 0) == 1
    assert floor.value({}, 12, 0) == 12


# --- addresses


@pytest.mark.covers("FTC-70", "FTC-71")
def test_every_connected_host_is_tried_once_in_a_round_the_primary_first() -> None:
    addresses = Targets(reference(1, B))
    assert addresses.target() is None
    for host in (A, B, C, HostId("d")):
        addresses.on_connected(host)
    tried = []
    while True:
        target = addresses.target()
        assert target is not None
        tried.append(target)
        if addresses.on_failed(target):
            break
    assert tried == ["b", "a", "c", "d"]
    assert addresses.target() == B


@pytest.mark.covers("FTC-72")
@pytest.mark.parametrize("order", list(permutations((A, B, C))), ids="".join)
@pytest.mark.parametrize("serves", [A, B, C])
def test_whoever_serves_is_found_in_whatever_order_the_addresses_come(
    order: tuple[HostId, ...], serves: HostId
) -> None:
    """The same host is tried again, even if it is the only one left or has just failed."""
    members = tuple(MemberAddress(host, f"{host}:1") for host in order)
    addresses = Targets(Reference(GroupId(1), "g", Epoch(1), order[0], members))
    for host in reversed(order):
        addresses.on_connected(host)
    tried = list[HostId]()
    while (target := addresses.target()) != serves:
        assert target is not None
        assert target not in tried, "nobody twice before all were tried"
        tried.append(target)
        addresses.on_failed(target)
    for other in tried:
        addresses.on_disconnected(other)
    for host in order:
        if host not in (serves, *tried):
            addresses.on_disconnected(host)
    assert addresses.on_failed(serves), "the round is over"
    assert addresses.target() == serves


def test_only_a_newer_reference_of_the_same_group_is_news() -> None:
    addresses = Targets(reference(5, A))
    assert not addresses.is_news(reference(5, B))
    assert not addresses.is_news(reference(4, B))
    assert not addresses.is_news(reference(6, B, group=2))
    assert addresses.is_news(reference(6, B))
    addresses.on_connected(B)
    addresses.on_connected(A)
    addresses.adopt(reference(6, B))
    assert addresses.target() == B


# --- time


def test_the_groups_time_goes_on_between_replies_and_late_ones_do_not_turn_it_back() -> None:
    machine = Machine()
    time = GroupTime(machine, 1000)
    machine.time = 5
    assert 5 + time.ahead_ns == 1005
    time.learn(1100, Epoch(1))
    machine.time = 50
    time.learn(1101, Epoch(1))  # sent long ago
    assert 50 + time.ahead_ns == 1145
    time.learn(1120, Epoch(2))  # another primary's clock
    assert 50 + time.ahead_ns == 1120
    time.learn(9999, Epoch(1))
    assert 50 + time.ahead_ns == 1120


def test_an_alarm_goes_off_at_the_earliest_time_asked_for() -> None:
    machine = Machine()
    alarm = DeadlineTimer(machine, machine, "tag")
    alarm.by(100)
    alarm.by(200)
    assert machine.due() == [100]
    alarm.by(40)
    assert machine.due() == [40]
    alarm.rang()
    alarm.by(300)
    assert machine.due() == [40, 300]


# --- frames and lanes


def test_frames_are_cut_by_number_and_by_bytes() -> None:
    def cut(requests: list[PendingRequest], bytes_max: int) -> list[int]:
        outbox = Outbox(bytes_max)
        outbox.calls.extend(requests)
        return [len(each) for each in outbox.take_calls({each.number for each in requests})]

    assert cut([request(n) for n in range(600)], 1 << 20) == [256, 256, 88]
    assert cut([request(n, size=600) for n in range(3)], 1000) == [1, 1, 1]
    assert len(frame_of([request(n) for n in range(600)], 1 << 20)) == 256
    assert len(frame_of([request(n, size=600) for n in range(3)], 1000)) == 1
    assert CALLS_PER_FRAME_MAX == 256


def test_a_lane_has_one_frame_under_way_and_repeats_it_in_order() -> None:
    lane, requests = OrderedLane(), [request(n) for n in (1, 2, 3, 4)]
    for each in requests[:3]:
        lane.add(each)
    assert [each.number for each in lane.take(1000, 99)] == [1, 2, 3]
    lane.add(requests[3])
    assert lane.take(1000, 99) == []
    lane.on_ended(requests[0])
    lane.add(requests[2])
    lane.add(requests[1])
    assert [each.number for each in lane.take(1000, 99)] == [2, 3, 4]


def test_a_lane_stops_at_an_unknown_outcome_until_that_is_settled_or_expired() -> None:
    lane, unknown = OrderedLane(), RequestId(GroupId(1), ClientId("c"), 1, 50)
    lane.add(request(2))
    assert [each.number for each in lane.block(unknown)] == [2]
    with pytest.raises(Rejected):
        lane.check(49)
    lane.check(50)
    lane.block(unknown)
    lane.on_settled(unknown)
    lane.check(0)


# --- heartbeats


def beating(machine: Machine, given_up: list[HostId]) -> ClientHeartbeats:
    return ClientHeartbeats(
        clock=machine,
        timers=machine.timers,
        network=machine,
        give_up=given_up.append,
        interval_ns=10,
        timeout_ns=30,
    )


@pytest.mark.covers("FTC-116", "FTC-118")
def test_a_silent_host_is_given_up_and_a_speaking_one_is_not() -> None:
    machine, given_up = Machine(), list[HostId]()
    heartbeats = beating(machine, given_up)
    heartbeats.on_connected(A)
    heartbeats.on_connected(B)
    for _ in range(6):
        machine.time += 10
        heartbeats.on_heard(B)
        machine.on_timer("beat")
    assert given_up == [A]
    pings = [message for peer, message in machine.sent if peer == B]
    assert len(pings) == 6
    assert all(isinstance(each, Ping) for each in pings)


def test_a_connection_that_ends_as_it_is_pinged_does_not_keep_the_others_from_it() -> None:
    """A connection whose host reads nothing ends as soon as more is written to it."""
    machine, given_up = Machine(), list[HostId]()
    heartbeats = beating(machine, given_up)
    for host in (A, B, C):
        heartbeats.on_connected(host)

    def send(peer: str, message: object) -> None:
        machine.sent.append((peer, message))
        if peer == A:
            heartbeats.on_disconnected(A)

    machine.sent.clear()
    machine.send = send  # type: ignore[method-assign]  # on this instance only
    machine.time += 10
    machine.on_timer("beat")
    assert [peer for peer, _ in machine.sent] == [A, B, C]


def test_a_process_that_stood_still_does_not_blame_its_hosts() -> None:
    machine, given_up = Machine(), list[HostId]()
    heartbeats = beating(machine, given_up)
    heartbeats.on_connected(A)
    machine.time += 1000
    machine.on_timer("beat")
    assert given_up == []


# --- messages


def test_request_ids_are_read_as_they_are_printed() -> None:
    request_id = RequestId(GroupId(7), ClientId("c0ffee"), 12, 99)
    assert RequestId.parse(str(request_id)) == request_id
    for text in ("", "7/c/12", "7/c/x/99", "7/c/12/99/1", "-7/c/12/99"):
        with pytest.raises(InvalidRequest):
            RequestId.parse(text)


def test_messages_beyond_their_bounds_are_not_taken() -> None:
    seen = Seen()
    good = Replies(GroupId(1), [1], [b""], seen, 0)
    assert decode_to_client(encode_message(good)) == good
    for bad in (
        Replies(GroupId(1), [1, 2], [b""], seen, 0),
        Replies(GroupId(1), [*range(20_000)], [b""] * 20_000, seen, 0),
        Turned(1, GroupId(1), "no such code"),  # type: ignore[arg-type]  # on purpose
        Turned(1, GroupId(1), "invalid", "x" * 2000),  # type: ignore[arg-type]
    ):
        with pytest.raises(msgspec.DecodeError):
            decode_to_client(encode_message(bad))
    with pytest.raises(msgspec.DecodeError):
        decode_to_host(encode_message(good))
