"""Tests which reads a member answers from its own state at once (R1, S7), and what needs no member at all."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from fake_group import FakeClock
from msgspec import Raw, msgpack

from holdfast.authority.recipe import NoAnswer
from holdfast.execution.records import Call, Sent, encode_arguments, encode_calls, traced
from holdfast.groups.call_router import LOOK_UPS_MAX, CallRouter, Refusals
from holdfast.model.calls import Calls, Ping, Pong, Reads, RefusalCode, Seen, Turned
from holdfast.model.ids import ClientId, Epoch, GroupId, Position
from holdfast.model.traceparent import Traceparent
from holdfast.styles.call_log import LINES_MAX, CallLog

GROUP, EPOCH = GroupId(1), Epoch(3)
TIMERS = cast(Any, lambda _: None)
"""No call waits in these tests."""


class Group:
    """A primary that may read. Its object has reached *reached*, and everything up to position 10 is
    committed."""

    def __init__(self, reached: int) -> None:
        self.answered = 0
        self.is_primary = True
        self.has_claimed = self.is_taking_over = False
        self.style = self.replica = self
        self.view = None
        self.reached = Position(reached)
        self.member = SimpleNamespace(
            epoch=EPOCH, is_serving=True, is_lost=False, committed=Position(10), may_read=lambda: True
        )

    def on_stale_queries(self, *_: object) -> None:
        self.answered += 1

    def ask_turn(self) -> None:
        return None


@pytest.mark.parametrize(("reached", "answered"), [(10, 1), (9, 0)])
def test_a_primary_answers_stale_reads_once_its_object_holds_what_is_committed(
    reached: int, answered: int
) -> None:
    """A backup that takes over replays for a while what it had only logged. Its client has already seen those
    positions. Answered from the object as it is, the client would not find its own writes."""
    group, waiting = Group(reached), list[object]()
    serving = CallRouter(
        {GROUP: cast(Any, group)},
        cast(Any, SimpleNamespace(version=lambda *_: EPOCH, views={})),
        cast(Any, None),
        cast(Any, None),
        cast(Any, None),
        cast(Any, SimpleNamespace(read=lambda _, read: waiting.append(read))),
        cast(Any, SimpleNamespace(now=lambda: 0)),
        TIMERS,
    )
    calls = msgspec.Raw(encode_calls([]))
    asked = Reads(1, GROUP, EPOCH, Seen(EPOCH, Position(10)), 60_000, ClientId("c"), calls)
    serving.on_call(cast(Any, None), asked)
    assert (group.answered, len(waiting)) == (answered, 1 - answered)


@pytest.mark.covers("FTC-86")
def test_a_request_finds_its_group_by_its_own_name_for_it_and_not_by_the_version() -> None:
    """Two groups of one host have the same version, so the version cannot tell them apart."""
    first, second = Group(10), Group(10)
    serving = CallRouter(
        {GROUP: cast(Any, first), GroupId(2): cast(Any, second)},
        cast(Any, SimpleNamespace(version=lambda *_: EPOCH, views={})),
        *cast(Any, (None, None, None, None)),
        cast(Any, SimpleNamespace(now=lambda: 0)),
        TIMERS,
    )
    calls = msgspec.Raw(encode_calls([]))
    for frame, group in enumerate((2, 1, 2), start=1):
        asked = Reads(frame, GroupId(group), EPOCH, Seen(), 60_000, ClientId("c"), calls)
        serving.on_call(cast(Any, None), asked)
    assert (first.answered, second.answered) == (1, 2)


def test_a_host_reads_no_more_views_at_a_time_than_its_bound() -> None:
    """A host of a thousand groups dies, and clients know the new views before this host does. Reading each
    view would keep this host and the authority from more urgent work. A client that is turned away asks
    another host."""
    started, told = list[Any](), list[Any]()
    serving = CallRouter(
        {},
        cast(Any, SimpleNamespace(version=lambda *_: EPOCH, views={}, learn=lambda _: None)),
        cast(Any, None),
        cast(Any, None),
        cast(Any, SimpleNamespace(start=lambda recipe, then: started.append(then))),
        cast(Any, None),
        cast(Any, None),
        TIMERS,
    )
    client = cast(Any, SimpleNamespace(send=told.append))
    calls = msgspec.Raw(encode_calls([]))
    asked = Reads(1, GROUP, Epoch(EPOCH + 1), Seen(), 60_000, ClientId("c"), calls)
    for _ in range(LOOK_UPS_MAX):
        serving.on_call(client, asked)
    assert (len(started), told) == (LOOK_UPS_MAX, [])
    serving.on_call(client, asked)
    assert len(started) == LOOK_UPS_MAX
    assert [(type(each), each.code) for each in told] == [(Turned, RefusalCode.UNAVAILABLE)]
    started[0](NoAnswer("silence"))
    serving.on_call(client, asked)
    assert len(started) == LOOK_UPS_MAX + 1


@pytest.mark.covers("FTC-119", "FTC-120")
def test_a_heartbeat_is_answered_by_no_group() -> None:
    """Answering a ping looks at nothing the host has: no group, no catalog, no clock, no authority."""
    nothing, told = cast(Any, None), list[Any]()
    serving = CallRouter(nothing, nothing, nothing, nothing, nothing, nothing, nothing, TIMERS)
    for number in (7, 8):
        serving.on_call(cast(Any, SimpleNamespace(send=told.append)), Ping(number))
    assert told == [Pong(7), Pong(8)]


def test_what_is_turned_away_leaves_a_line_with_its_trace() -> None:
    """The frame is decoded only as far as the log has room for lines."""
    written: list[dict[str, Any]] = []
    lines = CallLog(lambda event, **fields: written.append({"event": event, **fields}), FakeClock())
    directory = SimpleNamespace(records={GROUP: SimpleNamespace(name="ledger")})
    refusals = Refusals(lines, cast(Any, directory))
    carried = Traceparent(bytes(range(16)), bytes(range(1, 9)), 1)
    call = Call(1, "deposit", encode_arguments((), {}), 1000)
    sent = Sent(ClientId("c"), 1, 1000, encode_calls([call, traced(call, carried.encoded())]))
    frame = Calls(1, GROUP, Epoch(1), Seen(), Raw(msgpack.encode(sent)))
    refusals.tell(frame, RefusalCode.OVERLOADED, "too much")
    first, second = written
    assert first["trace_id"] == Traceparent.derived("ledger", ClientId("c"), 1).trace_id
    assert second["trace_id"] == carried.trace_id
    assert (first["event"], first["code"], first["why"]) == ("a call was refused", "overloaded", "too much")
    refusals.tell(Calls(2, GROUP, Epoch(1), Seen(), Raw(b"\xc1")), RefusalCode.INVALID, "")
    for _ in range(LINES_MAX):
        refusals.tell(frame, RefusalCode.OVERLOADED, "too much")
    assert len(written) == LINES_MAX
