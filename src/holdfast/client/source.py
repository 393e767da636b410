"""A source of a stream: ``hf.Source(domain, stream="orders", group="book")``.

It asks any host where the members of the stream's group are, sends every message to all of them, and asks
again now and then, and at once when a member says that it is none any more. What the group has not delivered
yet is kept and sent again to members that ask for it, so a change of members, or of the leader, loses
nothing. It goes as fast as the leader lets it (:mod:`holdfast.streams.pacing`). What is sent, kept and
repeated is decided in :mod:`holdfast.streams.sending`; this module has the sockets and the time.

Messages that are sent in one turn of the event loop leave together. Each start of a source is a new
incarnation: members drop what is left of the last one.
"""

import asyncio
import time
from collections.abc import Awaitable, Hashable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Literal, Protocol, Self

from holdfast.client.admin_client import Given
from holdfast.client.source_wires import MulticastWire, TcpWire, UdpWire, Wire, address_of
from holdfast.machine.trace import LibraryLog
from holdfast.model.admin.groups import Order
from holdfast.model.admin.streams import ListStreams, OpenSource, SourceOpened, StreamInfo, StreamList
from holdfast.model.errors import HoldfastError, InvalidRequest, Overloaded, Unavailable
from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.model.validation import insist_valid
from holdfast.net import Address, ConnectionSettings
from holdfast.streams.columns import Malformed
from holdfast.streams.datagram import From, Refusal
from holdfast.streams.encoding import EncodingConfig
from holdfast.streams.sending import LOOPBACK_BYTES, MTU_BYTES, SourceConfig, StreamSource

Transport = Literal["udp", "multicast", "tcp"]

LOOK_S: Final = 1.0
"""How often it is asked where the members are."""
LOOKS_WITHOUT_GROUP: Final = 3
"""From so many answers in a row that know no group for a stream, its group is gone."""
BLOCKED_S: Final = 0.02
"""How often a source that waits for credit asks for it: the datagram with the last one may be lost."""
CLOSE_S: Final = 5.0
"""How long a source that ends waits for the group to deliver what it sent."""

WHY: Final = {
    Refusal.UNKNOWN_STREAM: "it knows no such stream; `holdfast stream list` names those that are bound",
    Refusal.OLD_INCARNATION: "the group has heard a later life of this stream; open the source anew",
    Refusal.VERSION: "it speaks another version of the wire; let both have the same version of Holdfast",
    Refusal.AUTHENTICATION: "the key is not one of this stream, or was taken back; open the source anew",
}
"""What a person can do about what is refused."""

log: Final = LibraryLog("holdfast.source")


class SourceRefused(InvalidRequest):
    """Raised when the members of a group refuse what a source sends, and a person must see to it."""

    code = "source_refused"


class SourceDomain(Protocol):
    """What a source needs of its domain."""

    @property
    def endpoint(self) -> ConnectionSettings: ...

    def submit(self, wanted: Order, kind: type[Given]) -> Awaitable[Given]: ...


class Source:
    """One stream's source; to be used by one event loop, within its context."""

    def __init__(
        self,
        domain: SourceDomain,
        *,
        stream: str,
        group: str = "",
        source: str = "",
        transport: Transport = "udp",
        interface: str = "127.0.0.1",
        ttl: int = 0,
        paced: bool | None = None,
        config: SourceConfig | None = None,
    ) -> None:
        """*group*, if given, must be the one that the stream is bound to. *source* is the name under which
        this source has a key; without it, the stream's own. *transport* says how messages travel: ``udp`` to
        each member, ``multicast`` to the stream's multicast group on *interface*, or ``tcp``, which loses
        none on the way. *paced*: wait for credit; by default as the stream was bound. Raises
        ``InvalidRequest`` for settings that cannot be."""
        insist_valid(config or SourceConfig(), "settings of a source")
        self._domain = domain
        self._stream = stream
        self._group = group
        self._source = source
        self._transport = transport
        self._interface = interface
        self._ttl = ttl
        self._paced = paced
        self._config = config
        self._core: StreamSource | None = None
        self._wire: Wire | None = None
        self._running: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._is_asked_to_flush = False
        self._progress: list[asyncio.Future[None]] = []
        self._room = LOOPBACK_BYTES
        self._posted_bytes = 0
        self._number = 0
        self._gone = ""
        """Why nobody will ever take this source's messages; empty while somebody may."""
        self._without_group = 0
        self.incarnation = 0
        """The number of this life."""

    # --- its life

    async def __aenter__(self) -> Self:
        opened = await self._domain.submit(OpenSource(name=self._stream, source=self._source), SourceOpened)
        info = opened.stream
        if self._group and info.group_name != self._group:
            raise InvalidRequest(
                f"the stream {self._stream!r} is bound to {info.group_name!r}, not to {self._group!r}"
            )
        self.incarnation, self._number = opened.incarnation, info.number
        self._core = self._made(opened)
        self._wire = self._connected(info)
        self._wire.set_members(info)
        self._say_alive()
        self._running = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(wait_s=0.0 if error is not None else CLOSE_S)

    async def close(self, *, wait_s: float = CLOSE_S) -> None:
        """Say that the stream ends here, after the group has delivered what was sent, or *wait_s*."""
        if self._core is None or self._wire is None:
            return
        if wait_s and self._core.pacing.is_heard:
            with suppress(TimeoutError, HoldfastError):
                await self.delivered(timeout_s=wait_s)
        core, wire, running = self._core, self._wire, self._running
        self._core, self._wire, self._running = None, None, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        for data in core.take_batches(time.time_ns()):
            wire.send_all(data)
        wire.send_all(core.heartbeat(time.time_ns(), is_last=True))
        await wire.close()
        self._wake()

    def _made(self, opened: SourceOpened) -> StreamSource:
        info = opened.stream
        is_near = all(address_of(each.udp).is_loopback for each in info.members if each.udp)
        self._room = LOOPBACK_BYTES if is_near or self._transport == "tcp" else MTU_BYTES
        config = self._config or SourceConfig(datagram_bytes=self._room)
        self._room = config.datagram_bytes
        encoding = EncodingConfig(
            levels=info.levels,
            exact=info.exact,
            cumulative=info.cumulative,
            created=info.created,
            back=info.back,
            before=info.before,
        )
        return StreamSource(
            From(opened.key, info.number, opened.incarnation),
            bytes.fromhex(opened.secret) or None,
            encoding,
            config,
            is_paced=info.is_paced if self._paced is None else self._paced,
        )

    def _connected(self, info: StreamInfo) -> Wire:
        if self._transport == "tcp":
            return TcpWire(self._domain.endpoint, self._on_datagram)
        is_near = all(address_of(each.udp).is_loopback for each in info.members if each.udp)
        at = Address("127.0.0.1" if is_near else "0.0.0.0", 0)
        if self._transport == "udp":
            return UdpWire(at, self._on_datagram)
        if not info.multicast:
            raise InvalidRequest(
                f"the stream {info.name!r} has no multicast group: "
                "`holdfast stream bind --multicast` gives it one"
            )
        return MulticastWire(at, self._on_datagram, info.multicast, self._interface, self._ttl)

    # --- sending

    async def send(self, payload: bytes, *, topic: str = "", priority: int = 0) -> int:
        """Send a message; returns its number. Waits while the group has not delivered enough to take it.
        Raises ``InvalidRequest`` for one that this stream does not take, ``SourceRefused``, ``Unavailable``
        if closed."""
        while True:
            try:
                return self.post(payload, topic=topic, priority=priority)
            except Overloaded:
                await self._credit()

    async def send_many(self, payloads: Sequence[bytes], *, topic: str = "", priority: int = 0) -> int:
        """Send messages of one topic and priority; returns the number of the last. Waits and raises as
        :meth:`send` does."""
        at = 0
        while at < len(payloads):
            core = self._opened()
            next_ones = payloads[at : at + 4096]
            room = core.fits(next_ones)
            if not room:
                await self._credit()
                continue
            core.post_many(next_ones[:room], topic=topic, priority=priority, now_ns=time.time_ns())
            at += room
            self._flush()
            if at < len(payloads):
                await asyncio.sleep(0)
        return self._opened().highest

    def post(self, payload: bytes, *, topic: str = "", priority: int = 0) -> int:
        """Send a message without waiting; returns its number. Raises ``Overloaded`` while the group cannot
        take it, and otherwise as :meth:`send` does."""
        number = self._opened().post(payload, topic=topic, priority=priority, now_ns=time.time_ns())
        self._posted_bytes += len(payload) + 16
        if self._posted_bytes >= self._room:
            self._flush()
        elif not self._is_asked_to_flush:
            self._is_asked_to_flush = True
            asyncio.get_running_loop().call_soon(self._flush)
        return number

    def flush(self) -> None:
        """Send what was posted now, not with the end of this turn of the loop."""
        self._flush()

    async def delivered(self, number: int | None = None, *, timeout_s: float | None = None) -> None:
        """Wait until the group has delivered every message up to *number*, or to the last one sent: from then
        on it is never lost. Raises ``TimeoutError``."""
        wanted = self._opened().highest if number is None else number
        self._flush()
        try:
            async with asyncio.timeout(timeout_s):
                while self._opened().pacing.delivered < wanted:
                    await self._credit()
        except TimeoutError:
            have = self._opened().pacing.delivered
            said = f"the group has delivered {have} of {wanted} messages after {timeout_s} s"
            raise TimeoutError(f"{said}; `holdfast stream show` says why") from None

    @property
    def highest(self) -> int:
        """The number of the last message."""
        return self._opened().highest

    @property
    def counts(self) -> dict[str, int]:
        """What this source has counted: messages sent and sent again, and how often it went too far."""
        core = self._opened()
        return {"sent": core.highest, "repeated": core.repeats, "beyond": core.beyond}

    def _opened(self) -> StreamSource:
        core = self._core
        if core is None:
            raise Unavailable("the source is closed: use it within `async with`")
        if self._gone:
            raise SourceRefused(self._gone)
        if core.refused is not None:
            notice = core.refused
            why = WHY.get(notice.refusal, notice.refusal.name.lower())
            raise SourceRefused(f"a member refuses this source: {why} {notice.text}".rstrip())
        return core

    def _flush(self) -> None:
        self._is_asked_to_flush, self._posted_bytes = False, 0
        core, wire = self._core, self._wire
        if core is not None and wire is not None:
            for data in core.take_batches(time.time_ns()):
                wire.send_all(data)

    # --- waiting

    async def _credit(self) -> None:
        """Wait for something to change, and ask for it now and then."""
        self._flush()
        changed = asyncio.get_running_loop().create_future()
        self._progress.append(changed)
        try:
            async with asyncio.timeout(BLOCKED_S):
                await changed
        except TimeoutError:
            self._say_alive()
        self._opened()

    def _wake(self) -> None:
        waiting, self._progress = self._progress, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _say_alive(self) -> None:
        if self._core is not None and self._wire is not None:
            self._wire.send_all(self._core.heartbeat(time.time_ns()))

    def _on_datagram(self, member: Hashable, data: bytes) -> None:
        core, wire = self._core, self._wire
        if core is None or wire is None:
            return
        try:
            answers = core.on_datagram(member, data, time.monotonic_ns())
        except Malformed as error:
            log.debug("a datagram of no member", member=str(member), why=error.why)
            return
        for each in answers:
            wire.send_to(member, each)
        if core.is_moved:
            core.is_moved = False
            self._moved.set()
        self._wake()

    # --- time

    async def _run(self) -> None:
        """Show that the source lives, and follow the members."""
        core = self._core
        assert core is not None, "it runs while it is open"
        loop = asyncio.get_running_loop()
        look_at = loop.time() + LOOK_S
        while True:
            now_ns = time.time_ns()
            if core.heartbeat_due_ns() <= now_ns:
                self._say_alive()
            wait_ns = max(MILLISECOND, min(core.heartbeat_due_ns() - now_ns, 100 * MILLISECOND))
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ns / SECOND):
                    await self._moved.wait()
            if self._moved.is_set() or loop.time() >= look_at:
                self._moved.clear()
                look_at = loop.time() + LOOK_S
                await self._look()

    async def _look(self) -> None:
        try:
            found = await self._domain.submit(ListStreams(name=self._stream), StreamList)
        except InvalidRequest as error:
            self._give_up(str(error))
            return
        except HoldfastError as error:
            log.debug("nobody says where the members are", stream=self._stream, why=str(error))
            return
        if not found.streams or self._wire is None:
            return
        (info,) = found.streams
        # A host may hear of a new group a little later than of its stream.
        self._without_group = 0 if info.group_name else self._without_group + 1
        if info.number != self._number:
            self._give_up(f"the stream {self._stream!r} was bound anew: begin another source")
        elif self._without_group >= LOOKS_WITHOUT_GROUP:
            self._give_up(f"the group of the stream {self._stream!r} was deleted")
        else:
            self._wire.set_members(info)

    def _give_up(self, why: str) -> None:
        """Tell whoever sends that it is in vain. *Without it:* a source of a stream that was unbound waits
        for credit for ever, and nobody learns why."""
        self._gone = why
        self._wake()
