"""The requests to one group on an event loop: futures on :class:`.invocation.Invocations`."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.client.config import CallPolicy, ClientConfig
from holdfast.client.hosts import Hosts
from holdfast.client.invocation import Invocations
from holdfast.client.lane import Lane
from holdfast.client.ports import Ended, InvocationPorts
from holdfast.machine.clock import MachineClock
from holdfast.machine.randomness import MachineRandom
from holdfast.machine.timers import LoopTimers
from holdfast.model.calls import Redirected, Replies, RequestId, Turned
from holdfast.model.errors import HoldfastError, Overloaded, Unavailable
from holdfast.model.ids import ClientId, HostId
from holdfast.model.outcome import Outcome, Returned, decode_outcome, value_of
from holdfast.model.ports import NoTrace
from holdfast.model.reference import Reference
from holdfast.model.units import SECOND

Answer = asyncio.Future[Any]
WAITING_MAX: Final = 100_000
"""Callers that wait for room in the window; beyond it they are told ``Overloaded`` all the same."""


class Caller:
    """One client's requests to one group. Everything happens in the loop's thread.

    A future that is cancelled does not take its call back: it may be executed, and counts until it ends.
    """

    def __init__(
        self,
        reference: Reference,
        client: ClientId,
        time_ns: int,
        *,
        hosts: Hosts,
        config: ClientConfig,
        on_reference: Callable[[Reference], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timers: list[LoopTimers] = []
        self._closed: HoldfastError | None = None
        ports = InvocationPorts(
            clock=MachineClock(),
            timers=self._make_timers,
            network=hosts,
            random=MachineRandom(),
            trace=NoTrace(),
            on_ended=_end,
            later=self._flush_soon,
            on_reference=on_reference,
        )
        self._invocations = Invocations(reference, client, time_ns, ports=ports, config=config)
        for host in hosts.connected:
            self._invocations.on_connected(host)

    @property
    def reference(self) -> Reference:
        return self._invocations.reference

    @property
    def in_flight(self) -> int:
        return self._invocations.awaited

    # --- requests

    def call(
        self,
        method: str,
        arguments: bytes,
        policy: CallPolicy,
        is_query: bool = False,
        stale_ms: int | None = None,
        lane: Lane | None = None,
    ) -> Answer:
        """Make a call; the future has its value, or the error it ended with."""
        if not self._waiters and self._closed is None:
            answer = self._loop.create_future()
            try:
                self._invocations.call(answer, method, arguments, policy, is_query, stale_ms, lane)
                return answer
            except Overloaded:
                pass
        return self._loop.create_task(self._call_later(method, arguments, policy, is_query, stale_ms, lane))

    async def outcome(self, about: RequestId, policy: CallPolicy) -> Any:
        """What became of a request."""
        await self._room(policy)
        answer = self._loop.create_future()
        self._invocations.ask_outcome(answer, about, policy)
        return await answer

    async def _call_later(
        self,
        method: str,
        arguments: bytes,
        policy: CallPolicy,
        is_query: bool,
        stale_ms: int | None,
        lane: Lane | None,
    ) -> Any:
        await self._room(policy)
        answer = self._loop.create_future()
        self._invocations.call(answer, method, arguments, policy, is_query, stale_ms, lane)
        return await answer

    async def _room(self, policy: CallPolicy) -> None:
        """Wait for room in the window, first come first served. Raises ``Overloaded`` by *policy*."""
        try:
            async with asyncio.timeout(policy.duration_ns / SECOND):
                while self._closed is None and (self._waiters or not self._invocations.room):
                    if not policy.waits_for_room or len(self._waiters) >= WAITING_MAX:
                        raise Overloaded(
                            f"{self.reference.name}: {self.in_flight} requests have no answer yet"
                        )
                    waiter: asyncio.Future[None] = self._loop.create_future()
                    self._waiters.append(waiter)
                    await waiter
                    if self._invocations.room:
                        break
        except TimeoutError:
            raise Overloaded(f"{self.reference.name}: no room for a call within its duration") from None
        if self._closed is not None:
            raise self._closed

    # --- events

    def on_up(self, host: HostId) -> None:
        self._invocations.on_connected(host)

    def on_down(self, host: HostId) -> None:
        self._invocations.on_disconnected(host)
        self._admit()

    def on_message(self, host: HostId, message: Replies | Redirected | Turned) -> None:
        self._invocations.on_message(host, message)
        if self._waiters:
            self._admit()

    def close(self) -> None:
        self._closed = Unavailable("the domain was closed")
        self._invocations.close(self._closed)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        for timers in self._timers:
            timers.close()

    # --- keeping

    def _admit(self) -> None:
        """Let in as many waiters as there is room for."""
        room = self._invocations.room
        while self._waiters and room > 0:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                room -= 1

    def _flush_soon(self) -> None:
        self._loop.call_soon(self._invocations.flush)

    def _make_timers(self, on_timer: Callable[[Any], None]) -> LoopTimers:
        def fired(tag: Any) -> None:
            on_timer(tag)
            self._admit()

        timers = LoopTimers(self._loop, fired)
        self._timers.append(timers)
        return timers


def _end(answer: Answer, how: Ended) -> None:
    if answer.done():
        return  # cancelled: nobody waits for it
    if not isinstance(how, bytes):
        answer.set_exception(how)
        return
    try:
        outcome: Outcome = decode_outcome(how)
        if type(outcome) is Returned:
            answer.set_result(outcome.value)
        else:
            answer.set_result(value_of(outcome))
    except (HoldfastError, msgspec.DecodeError) as error:
        answer.set_exception(error)
