"""A destination of a group's outputs: ``hf.Destination(domain, group="book")``.

It is connected to every member and is served by the one that leads, or, where that is not heard, by another.
Each output comes once, in order. One that begins where another ended gives the id of the last that it has,
and goes on from there. What no member has any more is told as a gap. What is decided is decided in
:mod:`holdfast.streams.collecting`; this module has the connections and the time.
"""

import asyncio
import hmac
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Final, Literal, Self

import msgspec

from holdfast.client.member_links import MemberLinks
from holdfast.client.source import SourceDomain
from holdfast.execution.outputs import OutputId
from holdfast.machine.trace import LibraryLog
from holdfast.model.admin.streams import ListStreams, StreamList
from holdfast.model.errors import HoldfastError, Unavailable
from holdfast.net import Address, Connection, Kind, Reason, Receiver
from holdfast.net.udp import UdpSocket, one_by_one, open_udp
from holdfast.streams.collecting import (
    Asks,
    Collected,
    Collector,
    decode_batch,
    encode_output,
)
from holdfast.streams.datagram import TAG_BYTES, tag_of

LOOK_S: Final = 1.0
"""How often it is asked where the members are."""
TICK_S: Final = 0.1
HELD_MAX: Final = 20_000
"""Outputs that wait for their reader; beyond that, members are read no further."""

log: Final = LibraryLog("holdfast.destination")


class Destination:
    """Takes the outputs of one group; to be used by one event loop, within its context:
    ``async for output in destination``."""

    def __init__(
        self,
        domain: SourceDomain,
        *,
        group: str,
        after: OutputId | tuple[int, int] | None = None,
        of: Literal["leader", "all"] = "leader",
        transport: Literal["tcp", "udp"] = "tcp",
    ) -> None:
        """*after* is the id of the last output that is had already; without it, outputs begin with whatever
        the group still keeps. *of* says who sends them. With ``udp`` they come as datagrams, and what is lost
        is asked for again."""
        self._domain = domain
        self._group = group
        self._after = after if after is None or isinstance(after, OutputId) else OutputId(*after)
        self._of = of
        self._transport = transport
        self._secret = secrets.token_bytes(32) if transport == "udp" else b""
        self._collector: Collector | None = None
        self._wire: UdpSocket | None = None
        self._links = MemberLinks(domain.endpoint, self._on_up)
        self._held: deque[Collected] = deque()
        self._paused: dict[Connection, None] = {}
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def last(self) -> OutputId | None:
        """The id of the last output that came."""
        return self._after if self._collector is None else self._collector.last

    @property
    def repeated(self) -> int:
        """How many outputs came again and were dropped."""
        return 0 if self._collector is None else self._collector.repeated

    # --- its life

    async def __aenter__(self) -> Self:
        found = await self._members()
        udp = ""
        if self._transport == "udp":
            is_near = all(Address.parse(each).is_loopback for each in found)
            at = Address("127.0.0.1" if is_near else "0.0.0.0", 0)
            self._wire = open_udp(at, one_by_one(self._on_datagram))
            udp = str(self._wire.address)
        self._collector = Collector(
            self._group, self._after, is_all=self._of == "all", udp=udp, secret=self._secret
        )
        self._links.set_members(found)
        self._running = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        if self._wire is not None:
            self._wire.close()
        await self._links.close()
        self._changed.set()

    # --- for users

    async def __aiter__(self) -> AsyncIterator[Collected]:
        """The outputs, and gaps, as they come."""
        while True:
            yield await self.next()

    async def next(self) -> Collected:
        """The next output, or a gap. Raises ``Unavailable`` if closed."""
        while not self._held:
            if self._running is None:
                raise Unavailable("the destination is closed: use it within `async with`")
            self._changed.clear()
            await self._changed.wait()
        found = self._held.popleft()
        if len(self._held) < HELD_MAX // 2 and self._paused:
            for connection in self._paused:
                connection.resume_reading()
            self._paused.clear()
        return found

    # --- members

    async def _members(self) -> list[str]:
        found = await self._domain.submit(ListStreams(group=self._group), StreamList)
        return [each.tcp for each in found.members if each.tcp]

    def _on_up(self, member: str, connection: Connection) -> Receiver:
        assert self._collector is not None, "links are made after it"
        ask = self._collector.on_up(member, time.monotonic_ns())
        connection.send(Kind.OUTPUT_ASK, encode_output(ask))
        return _MemberReceiver(self, member)

    def on_down(self, member: str, connection: Connection) -> None:
        self._paused.pop(connection, None)
        if self._collector is not None:
            self._collector.on_down(member)

    # --- outputs

    def on_batch(self, member: str, data: bytes, connection: Connection | None = None) -> None:
        """Take what a member sent. Raises ``msgspec.DecodeError``."""
        if self._collector is None:
            return
        found, asks = self._collector.on_batch(member, decode_batch(data), time.monotonic_ns())
        self._ask(asks)
        if found:
            self._held += found
            self._changed.set()
        if connection is not None and len(self._held) > HELD_MAX:
            connection.pause_reading()
            self._paused[connection] = None

    def _on_datagram(self, sender: tuple[str, int], data: bytes) -> None:
        body, tag = data[:-TAG_BYTES], data[-TAG_BYTES:]
        if not hmac.compare_digest(tag_of(self._secret, body), tag) or len(self._held) > HELD_MAX:
            return  # a stranger's, or one too many: it is asked for again
        with suppress(msgspec.DecodeError):
            self.on_batch(str(Address(*sender)), body)

    def _ask(self, asks: Asks) -> None:
        for member, ask in asks:
            link = self._links.get(member)
            if link is not None:
                link.send(Kind.OUTPUT_ASK, encode_output(ask))

    async def _run(self) -> None:
        look_at = time.monotonic() + LOOK_S
        while True:
            await asyncio.sleep(TICK_S)
            if self._collector is not None:
                self._ask(self._collector.on_tick(time.monotonic_ns()))
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + LOOK_S
                try:
                    self._links.set_members(await self._members())
                except HoldfastError as error:
                    log.debug("nobody says where the members are", group=self._group, why=str(error))


class _MemberReceiver:
    """The receiver of what one member sends."""

    def __init__(self, destination: Destination, member: str) -> None:
        self._destination = destination
        self._member = member

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is not Kind.OUTPUT:
            raise msgspec.ValidationError(f"a member sends no {kind.name} to a destination")
        self._destination.on_batch(self._member, payload, connection)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._destination.on_down(self._member, connection)
