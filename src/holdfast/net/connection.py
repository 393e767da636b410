"""One TCP connection: moves bytes between a socket and a :class:`.session.Session`, within bounds.

Everything sent during one turn of the loop leaves as one write. Everything that arrives is passed on at once,
many frames per read, and nothing waits for an answer. Every connection ends exactly once, for one reason. The
receiver gets the reason, it is logged once, and it is sent to the peer as a Goodbye if possible.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from typing import cast

from holdfast.machine.trace import LibraryLog
from holdfast.model.errors import InvalidRequest
from holdfast.net.address import Address, address_of
from holdfast.net.connection_settings import ConnectionSettings
from holdfast.net.credentials import NONCE_BYTES, ProvenBy
from holdfast.net.flow import FLUSH_BYTES_FIRST, FLUSH_BYTES_MAX, LONG_FRAME_BYTES, Flow
from holdfast.net.frame import (
    HEADER,
    HEADERS,
    ON_PURPOSE,
    SHORT_BYTES,
    UNDECODABLE,
    Frame,
    Kind,
    NotConnected,
    Reason,
    Why,
    encode_frame,
)
from holdfast.net.frame_memory import FrameMemory, MemoryLoan
from holdfast.net.handshake import Agreed, PeerIdentity, encode_goodbye
from holdfast.net.layer import Bytes, LayerFailed, layer_for
from holdfast.net.limits import TICK_S_MIN, TICKS_PER_IDLE
from holdfast.net.receiver import Receiver
from holdfast.net.session import ALIVE_FRAME, Session

log = LibraryLog("holdfast.net")
_pack_header = HEADER.pack


Admit = Callable[["Connection", Agreed], FrameMemory | Reason]


class Connection(asyncio.Protocol):
    """A connection to one peer.

    Users need ``peer``, ``send``, ``drain``, ``close`` and the flags; the event loop calls the other public
    methods.
    """

    def __init__(
        self,
        endpoint: ConnectionSettings,
        *,
        is_connector: bool,
        on_open: "Callable[[Connection], Receiver]",
        on_gone: "Callable[[Connection], None]" = lambda _: None,
        admit: "Admit | None" = None,
    ) -> None:
        """*admit* decides at an accepting end whether a peer that has proved who it is may come in, and
        whose memory its long frames use."""
        self.reason: Reason | None = None
        """Why the connection ended; None while it is open."""
        self.address = Address("?", 0)
        """The peer's address."""
        self.peer: PeerIdentity
        """The identity of the peer, known from the handshake and, with TLS, from its certificate."""
        self.tls_generation = 0 if endpoint.tls is None else endpoint.tls.generation
        """Which certificates this end uses here (:attr:`.tls.Tls.generation`)."""
        self._endpoint = endpoint
        self._limits = endpoint.limits
        self._is_connector = is_connector
        self._on_open = on_open
        self._on_gone = on_gone
        self._admit = admit
        self._loan: MemoryLoan | None = None
        self._loop = asyncio.get_running_loop()
        self.opening: asyncio.Future[Reason | None] = self._loop.create_future()
        """Done when the handshake is: with None, or with the reason why it failed."""
        self._gone = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._layer = layer_for(endpoint.tls, is_connector=is_connector)
        self._is_plain = endpoint.tls is None
        """Whether an open connection need not ask the layer."""
        self._session: Session | None = None
        self._agreed: Agreed | None = None
        self._receiver: Receiver | None = None
        self._has_sent = False
        self._heard_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._tick_s = 0.0
        # The frames of this turn, and the size at which they must be written or a flush must be scheduled; 0
        # while no flush is scheduled.
        self._gathered = bytearray()
        self._flush_at = 0
        # The longest payload that may be sent now. It is negative while the connection is not open, so that
        # sending has only one condition to check.
        self._payload_bytes_max = -1
        self._flow = Flow(self._loop, is_connector=is_connector)

    # --- for the connection's users

    @property
    def proven_by(self) -> ProvenBy:
        """How the peer has proved that."""
        return cast(Agreed, self._agreed).proven_by

    @property
    def is_open(self) -> bool:
        return self._receiver is not None and self.reason is None

    @property
    def is_writable(self) -> bool:
        """Whether the peer keeps up. ``send`` works in any case, up to ``unsent_bytes_max``."""
        return self.is_open and self._flow.unwritable_since is None

    @property
    def unsent_bytes(self) -> int:
        """The bytes that were sent here and that the system has not yet taken."""
        waiting = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return waiting + len(self._gathered)

    def send(self, kind: Kind, payload: bytes) -> None:
        """Send one frame without waiting or a guarantee: on a connection that has ended, it does nothing.

        Raises ``InvalidRequest`` for a payload longer than the peer accepts.
        """
        length = len(payload)
        if length > self._payload_bytes_max:
            self._refuse_to_send(kind, length)
            return
        gathered = self._gathered
        gathered += HEADERS[kind][length] if length < SHORT_BYTES else _pack_header(length, kind)
        gathered += payload
        if length >= LONG_FRAME_BYTES:
            self._flush()
        elif not self._flush_at:
            self._flush_at = FLUSH_BYTES_FIRST
            self._loop.call_soon(self._flush)
        elif len(gathered) >= self._flush_at:
            flush_at = min(2 * self._flush_at, FLUSH_BYTES_MAX)
            self._flush()
            self._flush_at = flush_at

    async def drain(self) -> None:
        """Wait until the connection is writable. Raises ``NotConnected`` when it has ended."""
        self._flush()
        await self._flow.writable()

    def pause_reading(self) -> None:
        """Stop reading from the peer; the frames of the last read are still delivered."""
        self._flow.hold(is_consumer_full=True)

    def resume_reading(self) -> None:
        self._flow.hold(is_consumer_full=False)

    def close(self, reason: Reason | None = None) -> None:
        """End the connection: what was sent before still leaves, followed by a Goodbye with the reason."""
        reason = reason or Reason(Why.DONE, "closed")
        if self._session is not None:
            self._session.end(reason)
            reason = self._session.reason or reason
        self._finish(reason)

    def abort(self, reason: Reason | None = None) -> None:
        """Close at once: written bytes may be lost, and nobody waits for the socket."""
        self.close(reason)
        if self._transport is not None:
            self._transport.abort()

    async def wait_gone(self) -> None:
        """Wait until the socket of a closed connection is gone, at most ``linger_s``."""
        if self._transport is not None:
            await self._gone.wait()

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._flow.attach(
            self._transport, high=self._limits.unsent_bytes_high, low=self._limits.unsent_bytes_low
        )
        if self.reason is not None:
            self._transport.abort()  # it was given up before it began
            return
        wire = transport.get_extra_info("socket")
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = address_of(transport.get_extra_info("peername"))
        self._set_timer(self._limits.handshake_s, self._on_handshake_timeout)
        self._layer.begin()
        self._write_wire(self._layer.take_output())
        if self._layer.is_ready:
            self._begin_session()

    def data_received(self, data: bytes) -> None:
        """Deliver the frames in *data*, and write the answers."""
        if self.reason is not None:
            return  # lingering: the peer may still be sending, and nobody will read it
        self._heard_at = self._loop.time()
        early: Sequence[Frame] = ()
        if not self._is_plain or self._receiver is None:
            early, data = self._unwrap(data)
            if not early and not data:
                return
        receiver, session, kind = self._receiver, self._session, None
        assert receiver is not None  # for the type checker; a cast would be a call for every frame
        assert session is not None
        on_frame = receiver.on_frame
        # Answers given while frames are delivered leave together at the end, without a flush of their own.
        self._flush_at = FLUSH_BYTES_FIRST
        try:
            if not early and not session.decoder.hand_run(on_frame, self, data):
                early = session.take_rest()
            for kind, payload in early:
                if not self.is_open:
                    break
                on_frame(self, kind, payload)
        except UNDECODABLE as error:
            self.close(Reason(Why.MALFORMED, f"{(kind or session.current_kind).name}: {error}"))
        except Exception:
            name = (kind or session.current_kind).name
            log.exception("a frame's receiver failed", peer=str(self.peer), kind=name)
            self.close(Reason(Why.INTERNAL, f"{name} could not be handled"))
        self._flush_at = 0
        if self._gathered:
            self._flush()
        if session.reason is not None:
            self._finish(session.reason)

    def eof_received(self) -> bool:
        if self._session is not None:
            self._session.receive_eof()
            self._finish(cast(Reason, self._session.reason))  # an end is always one of the session, too
        else:
            self._finish(Reason(Why.TLS, "the connection was closed during the TLS handshake"))
        if self._transport is not None:
            self._transport.close()
        return True  # close() above sends the Goodbye first

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._finish(Reason(Why.LOST, str(exc) if exc is not None else "the connection was closed"))
        if self._timer is not None:
            self._timer.cancel()
        self._gone.set()
        self._on_gone(self)

    def pause_writing(self) -> None:
        self._flow.pause_writing()

    def resume_writing(self) -> None:
        self._flow.resume_writing()

    # --- receiving

    def _begin_session(self) -> None:
        address = self.address
        if not self._is_connector:
            address = address_of(cast(asyncio.Transport, self._transport).get_extra_info("sockname"))
        is_compared = not self._is_connector or (address.is_loopback and not self._endpoint.is_forwarded)
        self._session = Session(
            self._endpoint.identity,
            is_connector=self._is_connector,
            payload_bytes_max=self._limits.frame_bytes_max,
            idle_ms=round(self._limits.idle_s * 1000),
            expected=self._endpoint.expected,
            certified=self._layer.peer(),
            credentials=self._endpoint.credentials,
            nonce=os.urandom(NONCE_BYTES) if self._endpoint.tls is None else b"",
            address=str(address) if is_compared else "",
            admit=self._admitted,
        )
        self._write_plain(self._session.take_output())

    def _admitted(self, agreed: Agreed) -> Reason | None:
        verdict = cast(Admit, self._admit)(self, agreed)  # only an accepting end asks
        if isinstance(verdict, Reason):
            return verdict
        of, wait = (agreed.peer.role, agreed.peer.id), self._flow.wait_for_memory
        self._loan = MemoryLoan(verdict, of, wait, self._loop.time, self._limits.frame_s)
        return None

    def _unwrap(self, data: bytes) -> tuple[Sequence[Frame], bytes]:
        """Return the frames that came with the end of the handshake, and the bytes after it."""
        try:
            data = self._layer.receive(data)
            if self._session is None:
                self._write_wire(self._layer.take_output())
                if self._layer.is_ready:
                    self._begin_session()
        except LayerFailed as failure:
            self._finish(failure.reason, plain_goodbye=failure.plain_goodbye)
            return (), b""
        session = self._session
        if session is None or not data:
            return (), b""
        if self._receiver is not None:
            return (), data
        early = session.receive(data)
        self._write_plain(session.take_output())
        if session.agreed is not None:
            self._become_open(session, session.agreed)
        if self.is_open and early:
            return early, b""
        if session.reason is not None:
            self._finish(session.reason)
        return (), b""

    def _become_open(self, session: Session, agreed: Agreed) -> None:
        self._agreed, self.peer = agreed, agreed.peer
        self._payload_bytes_max = agreed.payload_bytes_max
        shorter_idle_s = min(self._limits.idle_s, agreed.idle_ms / 1000)
        self._tick_s = max(TICK_S_MIN, shorter_idle_s / TICKS_PER_IDLE)
        self._set_timer(self._tick_s, self._on_tick)
        try:
            self._receiver = self._on_open(self)
        except Exception:
            log.exception("a new connection's receiver failed", peer=str(self.peer))
            self.close(Reason(Why.INTERNAL, "the connection could not be served"))
            return
        if self.reason is not None:
            self._receiver.on_closed(self, self.reason)  # the receiver has closed the connection already
            return
        if not self.opening.done():
            self.opening.set_result(None)
        if self._loan is not None:
            session.watch_long_frames(self._on_long_frame)

    def _on_long_frame(self, length: int) -> None:
        refusal = cast(MemoryLoan, self._loan).on_long(length)
        if refusal is not None:
            self.close(refusal)

    # --- sending

    def _refuse_to_send(self, kind: Kind, length: int) -> None:
        if self._payload_bytes_max >= 0:
            raise InvalidRequest(f"{kind.name} of {length} bytes: the peer takes {self._payload_bytes_max}")

    def _flush(self) -> None:
        """Write the frames gathered so far. It ends the turn, unless the caller says that more may follow."""
        self._flush_at = 0
        gathered = self._gathered
        if not gathered:
            return
        self._gathered = bytearray()
        self._has_sent = True
        transport, data = self._transport, gathered if self._is_plain else self._layer.wrap(gathered)
        if data and transport is not None and not transport.is_closing():
            try:
                transport.write(data)
            except RuntimeError:
                return  # as in `_write_wire`, which is not called here to save a call for every frame
        if self._flow.unwritable_since is not None and self.unsent_bytes > self._limits.unsent_bytes_max:
            self.close(Reason(Why.TOO_SLOW, f"{self.unsent_bytes} bytes wait to be taken"))

    def _write_plain(self, data: Bytes) -> None:
        self._has_sent = True
        self._write_wire(self._layer.wrap(data))

    def _write_wire(self, data: Bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            try:
                self._transport.write(data)
            except RuntimeError:
                # uvloop raises on a write to a closed transport. When a transport was closed because
                # connecting was cancelled, is_closing() does not say so.
                return

    # --- time

    def _set_timer(self, delay_s: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = self._loop.time() + delay_s
        self._timer = self._loop.call_later(delay_s, callback)

    def _on_handshake_timeout(self) -> None:
        self.close(Reason(Why.HANDSHAKE_TIMEOUT, f"no handshake within {self._limits.handshake_s:g} s"))

    def _on_tick(self) -> None:
        now, idle_s = self._loop.time(), self._limits.idle_s
        if now - self._timer_due > self._tick_s:
            # This process stood still: bytes from the peer may be unread, so its silence proves nothing.
            self._heard_at = now
        heard_at = max(self._heard_at, self._flow.reading_since)
        if self._flow.is_reading and now - heard_at > idle_s:
            self.close(Reason(Why.IDLE, f"nothing was heard for {idle_s:g} s"))
        elif (since := self._flow.unwritable_since) is not None and now - since > idle_s:
            self.close(Reason(Why.TOO_SLOW, f"nothing could be sent for {idle_s:g} s"))
        elif self._loan is not None and (overdue := self._loan.overdue()) is not None:
            self.close(overdue)
        else:
            if not self._has_sent:
                self._write_plain(ALIVE_FRAME)
            self._has_sent = False
            self._set_timer(self._tick_s, self._on_tick)

    # --- the end

    def _finish(self, reason: Reason, *, plain_goodbye: bool = False) -> None:
        """End the connection once, send the Goodbye, and inform everyone who waits."""
        if self.reason is not None:
            return
        self.reason = reason
        self._payload_bytes_max = -1
        gathered, self._gathered = self._gathered, bytearray()
        self._write_plain(gathered)
        if plain_goodbye:
            self._write_wire(encode_frame(Kind.GOODBYE, encode_goodbye(reason)))
        elif self._session is not None:
            self._write_plain(self._session.take_output())
        if self._loan is not None:
            self._loan.end()
        self._flow.end(NotConnected(str(self.address), reason))
        self._linger()
        self._report_end()

    def _linger(self) -> None:
        """Give the peer some time to read what was written; then the socket is closed in any case."""
        if (transport := self._transport) is None:
            return
        self._set_timer(self._limits.linger_s, transport.abort)
        self._layer.close()
        self._write_wire(self._layer.take_output())
        if transport.is_closing():
            return
        if self.reason is not None and self.reason.by_peer:
            transport.close()
        else:
            try:
                transport.write_eof()
            except (OSError, RuntimeError):
                # The peer has reset the connection, or it is closed already: nobody will read anything.
                transport.abort()

    def _report_end(self) -> None:
        reason = cast(Reason, self.reason)
        who = str(self._agreed.peer) if self._agreed is not None else "unknown"
        note = log.debug if reason.why in ON_PURPOSE else log.info
        ours = str(self._endpoint.identity)
        note("connection ended", ours=ours, peer=who, address=str(self.address), reason=str(reason))
        if not self.opening.done():
            self.opening.set_result(reason)
        if self._receiver is not None:
            self._receiver.on_closed(self, reason)
