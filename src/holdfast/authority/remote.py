"""The embedded authority as asynchronous code uses it: the client core on the native protocol."""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from holdfast.authority.client import NEVER_SEATED, AuthorityClient, ClientConfig
from holdfast.authority.contract import Compacted, Events, Request, Result, Unknown, WatchEvent
from holdfast.authority.wire import ClientMessage, decode_server_message, encode
from holdfast.machine import LogTrace, LoopTimers, MachineClock, MachineRandom
from holdfast.model.errors import Overloaded
from holdfast.model.ids import Revision
from holdfast.net import Address, Connection, ConnectionSettings, Kind, Link, Reason

WATCH_QUEUE_MAX: Final = 1024
"""Events kept for a slow consumer. A full queue stops the watch until they are consumed."""
IDLE_S: Final = 3.0
"""A connection silent for this long is closed; the core pings twice a second, so it is never merely idle."""


class RemoteAuthority:
    """An ``Authority`` at an address, kept connected. Create it in a running loop; close it at the end."""

    def __init__(
        self,
        address: Address | Callable[[], Address],
        endpoint: ConnectionSettings,
        *,
        config: ClientConfig | None = None,
        insecure: bool = False,
    ) -> None:
        """*address* may be a function, which is asked before every attempt to connect."""
        where: Callable[[], Address] = partial(_itself, address) if isinstance(address, Address) else address
        self._loop = asyncio.get_running_loop()
        self._tokens = itertools.count(1)
        self._asked: dict[Hashable, Callable[[Result], None]] = {}
        self._watches: dict[Hashable, _Watch] = {}
        self._timers: LoopTimers | None = None
        self._is_closed = False
        random = MachineRandom()
        self._core = AuthorityClient(
            server=str(where()),
            clock=MachineClock(),
            timers=self._make_timers,
            network=self,
            random=random,
            trace=LogTrace(process="authority client"),
            on_authority=self._on_authority,
            on_watch=self._on_watch,
            config=config,
        )
        limits = msgspec.structs.replace(endpoint.limits, idle_s=min(endpoint.limits.idle_s, IDLE_S))
        self._link = Link(
            "the authority",
            where,
            self._on_up,
            replace(endpoint, limits=limits),
            random=random.stream("authority-link"),
            insecure=insecure,
        )
        self._core.start()

    async def ask(self, request: Request) -> Result:
        """Return the result of *request* within the configured deadline.

        It is ``Unknown`` when there is no answer, or when too many requests are waiting: losing the authority
        stops nothing, however many groups ask it.
        """
        answer: asyncio.Future[Result] = self._loop.create_future()
        self.request(request, partial(_settle, answer))
        return await answer

    def request(self, request: Request, then: Callable[[Result], None]) -> None:
        """As :meth:`ask`, for a core: *then* is called with the result, without a task or a future between
        the frame that brings it and the core that waits for it."""
        if self._is_closed:
            self._loop.call_soon(then, Unknown("this client of the authority is closed"))
            return
        token = next(self._tokens)
        self._asked[token] = then
        try:
            self._core.request(request, token)
        except Overloaded as error:
            del self._asked[token]
            self._loop.call_soon(then, Unknown(str(error)))

    async def watch(
        self, prefix: str, revision: Revision, seat: Revision = NEVER_SEATED
    ) -> AsyncIterator[WatchEvent]:
        """Yield the changes below *prefix* from *revision* on; see :meth:`.recipe.Authority.watch`."""
        token = next(self._tokens)
        self._watches[token] = watch = _Watch(revision)
        self._core.watch(prefix, revision, token, seat)
        try:
            while not self._is_closed:
                while watch.events:
                    event = watch.events.popleft()
                    yield event
                    if isinstance(event, Compacted):
                        return
                if watch.is_stopped:
                    watch.is_stopped = False
                    self._core.watch(prefix, watch.next, token, seat)
                watch.arrived.clear()
                await watch.arrived.wait()
        finally:
            self._core.unwatch(token)
            del self._watches[token]

    async def close(self) -> None:
        self._is_closed = True
        if self._timers is not None:
            self._timers.close()
        asked, self._asked = self._asked, {}
        for then in asked.values():
            then(Unknown("this client of the authority was closed"))
        for watch in self._watches.values():
            watch.arrived.set()
        await self._link.close()

    @property
    def failure(self) -> str | None:
        """Why the authority could not be reached at the last attempt, if it could not."""
        return self._link.failure

    @property
    def is_refused(self) -> bool:
        """Whether that is because it refuses this process, or this process refuses it."""
        return self._link.is_refused

    # --- the core's network and callbacks

    def send(self, peer: str, message: object) -> None:
        if isinstance(message, ClientMessage):
            self._link.send(Kind.AUTHORITY_ASK, encode(message))

    def _make_timers(self, on_timer: Callable[[Hashable], None]) -> LoopTimers:
        self._timers = LoopTimers(self._loop, on_timer)
        return self._timers

    def _on_authority(self, token: Hashable, result: Result) -> None:
        then = self._asked.pop(token, None)
        if then is not None:
            then(result)

    def _on_watch(self, token: Hashable, event: WatchEvent) -> None:
        watch = self._watches[token]
        watch.events.append(event)
        watch.arrived.set()
        if isinstance(event, Events):
            watch.next = Revision(event.revision + 1)
        if len(watch.events) >= WATCH_QUEUE_MAX and isinstance(event, Events):
            watch.is_stopped = True
            self._core.unwatch(token)

    # --- the link's receiver

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is not Kind.AUTHORITY_ANSWER:
            raise msgspec.ValidationError(f"an authority sends no {kind.name}")
        self._core.on_message(self._link.name, decode_server_message(payload))

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        if not self._is_closed:
            self._core.on_disconnected()

    def _on_up(self, connection: Connection) -> "RemoteAuthority":
        # The connection can send only once it knows its receiver.
        self._loop.call_soon(self._core.on_connected)
        return self


def _itself(address: Address) -> Address:
    return address


def _settle(answer: "asyncio.Future[Result]", result: Result) -> None:
    if not answer.done():  # or whoever asked was cancelled
        answer.set_result(result)


class _Watch:
    """The events on their way from the core to the consumer of a watch."""

    def __init__(self, revision: Revision) -> None:
        self.events: deque[WatchEvent] = deque()
        self.arrived = asyncio.Event()
        self.next = revision
        """The first revision not yet received."""
        self.is_stopped = False
        """The core was told to stop because the queue was full."""
