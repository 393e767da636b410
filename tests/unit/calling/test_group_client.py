"""Tests requests that wait for room: each ends once, whatever happens while they begin."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.group_client import WAITING_BYTES_MAX, GroupClient, Make, RequestQueue
from holdfast.execution.records import Call, Sent, decode_calls
from holdfast.model.calls import CALLS_PER_FRAME_MAX, Calls, Replies, RequestId, Seen
from holdfast.model.errors import Overloaded
from holdfast.model.ids import MILLISECOND, SECOND, ClientId, Epoch, GroupId, HostId
from holdfast.model.outcome import encode_returned
from holdfast.model.reference import MemberAddress, Reference

_sent = msgspec.msgpack.Decoder(Sent)


class LateLoop:
    """An event loop whose clock is moved by hand, and whose timers have not run yet."""

    def __init__(self) -> None:
        self.now = 100.0
        self._loop = asyncio.get_running_loop()

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        return self._loop.call_later(1000, callback, *args)


def tell(story: Callable[[LateLoop, RequestQueue], Awaitable[None]]) -> None:
    async def run() -> None:
        loop = LateLoop()
        await story(loop, RequestQueue(loop, "g"))  # type: ignore[arg-type]  # as much of a loop as is used

    asyncio.run(run())


def test_a_request_whose_duration_is_over_before_its_timer_has_run_ends_as_late() -> None:
    """Room came in the same turn of the loop, before the timer ran. No request is made, and the caller is
    told."""

    async def story(loop: LateLoop, queueing: RequestQueue) -> None:
        made: list[object] = []
        answer = queueing.add(lambda *made_of: made.append(made_of), CallPolicy(duration_ns=MILLISECOND), 1)
        loop.now += 1
        queueing.admit()
        assert answer.done()
        assert isinstance(answer.exception(), Overloaded)
        assert (made, list(queueing.waiting)) == ([], [])

    tell(story)


def test_what_ends_a_connection_as_it_begins_begins_once() -> None:
    """The first frame that is too much for a connection ends it at once, and that triggers another check of
    who may begin."""

    async def story(loop: LateLoop, queueing: RequestQueue) -> None:
        begun: list[str] = []

        def make(name: str) -> Make:
            def begin(answer: asyncio.Future[Any], policy: CallPolicy) -> None:
                begun.append(name)
                queueing.admit()

            return begin

        for name in "abc":
            queueing.add(make(name), CallPolicy(), 1)
        queueing.admit()
        assert begun == ["a", "b", "c"]
        assert not queueing.waiting

    tell(story)


def test_what_finds_no_room_keeps_its_place_and_its_bytes() -> None:
    async def story(loop: LateLoop, queueing: RequestQueue) -> None:
        begun: list[int] = []
        room = 1

        def make(number: int) -> Make:
            def begin(answer: asyncio.Future[Any], policy: CallPolicy) -> None:
                if len(begun) == room:
                    raise Overloaded("full")
                begun.append(number)

            return begin

        half = WAITING_BYTES_MAX // 2
        answers = [queueing.add(make(number), CallPolicy(), half) for number in range(2)]
        queueing.admit()
        answers.append(queueing.add(make(2), CallPolicy(), half))
        refused = queueing.add(make(3), CallPolicy(), half)
        assert isinstance(refused.exception(), Overloaded)
        queueing.admit()
        assert begun == [0]
        room = 3
        queueing.admit()
        assert begun == [0, 1, 2]
        assert not any(answer.done() for answer in answers)

    tell(story)


class FragileHosts:
    """One host whose connection ends within ``send``, like one that has too much to write."""

    def __init__(self) -> None:
        self.connected = [HostId("a")]
        self.calls: list[Call] = []
        self.breaks = False
        self.caller: GroupClient | None = None

    def send(self, host: HostId, message: object) -> None:
        if not isinstance(message, Calls):
            return
        self.calls += decode_calls(_sent.decode(message.sent).calls)
        if self.breaks and self.caller is not None:
            self.breaks = False
            self.caller.on_down(host)


def caller_of(hosts: FragileHosts, config: ClientConfig) -> GroupClient:
    members = (MemberAddress(HostId("a"), "127.0.0.1:1"),)
    reference = Reference(GroupId(7), "g", Epoch(1), HostId("a"), members)
    return GroupClient(
        reference,
        ClientId("c"),
        SECOND,
        hosts=hosts,  # type: ignore[arg-type]  # as much of them as is used
        config=config,
        on_reference=lambda _: None,
    )


def test_a_connection_that_ends_in_the_midst_of_sending_makes_no_request_twice() -> None:
    async def run() -> None:
        hosts = FragileHosts()
        window = 2 * CALLS_PER_FRAME_MAX
        hosts.caller = caller = caller_of(hosts, ClientConfig(window_calls=window))
        encode, policy = msgspec.msgpack.encode, CallPolicy()
        answers = [caller.call("put", encode([n]), policy) for n in range(2 * window)]
        await asyncio.sleep(0)
        assert len(hosts.calls) == window
        numbers = [each.number for each in hosts.calls]
        hosts.breaks = True
        outcomes = [encode_returned(0)] * window
        caller.on_message(HostId("a"), Replies(GroupId(7), numbers, outcomes, Seen(), SECOND))
        assert not hosts.breaks
        caller.on_up(HostId("a"))
        await asyncio.sleep(0)
        under: dict[bytes, set[int]] = {}
        for each in hosts.calls:
            under.setdefault(bytes(each.arguments), set()).add(each.number)
        assert len(under) == 2 * window
        assert all(len(each) == 1 for each in under.values())
        caller.close()
        await asyncio.gather(*answers, return_exceptions=True)

    asyncio.run(run())


def test_calls_under_ids_of_others_count_by_their_bytes_too() -> None:
    async def run() -> None:
        caller = caller_of(FragileHosts(), ClientConfig(window_bytes=1000))
        arguments = msgspec.msgpack.encode(["x" * 1000])
        answer = caller.call_as(RequestId(GroupId(7), ClientId("d"), 1, 60), "put", arguments, CallPolicy())
        with pytest.raises(Overloaded):
            caller.call_as(RequestId(GroupId(7), ClientId("d"), 2, 60), "put", arguments, CallPolicy())
        caller.close()
        await asyncio.gather(answer, return_exceptions=True)

    asyncio.run(run())
