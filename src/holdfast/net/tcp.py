"""Listening (:func:`serve`) and connecting (:func:`connect`)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec

from holdfast.model.errors import Unavailable
from holdfast.model.validation import insist_valid
from holdfast.net.address import Address, require_safe
from holdfast.net.connection import Connection
from holdfast.net.connection_settings import ConnectionSettings
from holdfast.net.credentials import ProvenBy
from holdfast.net.frame import Kind, NotConnected, Reason, Why
from holdfast.net.frame_memory import FrameMemory
from holdfast.net.handshake import Admission, Agreed, PeerIdentity, Role, kinds_of, roles_in
from holdfast.net.places import Places
from holdfast.net.receiver import Receiver

BACKLOG: Final = 1024
"""Connections that wait in the kernel while the loop is busy; a peer that finds no room tries again later."""


Refusal = Callable[[PeerIdentity, ProvenBy], Reason | None]


class Server:
    """A listening socket and the connections accepted on it.

    A connection is a newcomer until its peer has proved who it is and has a place (:class:`.Places`).
    """

    def __init__(
        self,
        endpoint: ConnectionSettings,
        on_connection: Callable[[Connection], Receiver],
        refusal: Refusal = lambda peer, by: None,
    ) -> None:
        self._endpoint = endpoint
        self._refusal = refusal
        self._on_connection = on_connection
        # Dictionaries keep the order: connections are closed in the order they came.
        self._connections: dict[Connection, None] = {}
        self._newcomers: dict[Connection, None] = {}
        self._placed: dict[Connection, PeerIdentity] = {}
        self._places = Places(endpoint.limits)
        self._memory = FrameMemory(endpoint.limits.unfinished_bytes_max)
        self.clients_memory = FrameMemory(endpoint.limits.unfinished_bytes_max)
        self._listener: asyncio.Server | None = None
        self._all_gone = asyncio.Event()
        self._is_closing = False
        self._renewal: asyncio.TimerHandle | None = None
        self._renewed_at = 0.0
        self._tls_generation = 0

    @property
    def address(self) -> Address:
        """The address it listens on, with the actual port even when 0 was given."""
        sockets = self._listener.sockets if self._listener is not None else ()
        if not sockets:
            raise Unavailable("the server is closed")
        host, port = sockets[0].getsockname()[:2]
        return Address(host, port)

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The open connections, oldest first."""
        return tuple(connection for connection in self._connections if connection.is_open)

    async def listen(self, address: Address) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(
                self._accept, address.host, address.port, backlog=BACKLOG
            )
        except OSError as error:
            raise Unavailable(f"cannot listen on {address}: {error.strerror or error}") from error
        self._close_outdated()

    def _close_outdated(self) -> None:
        """Close, some time after files were replaced, the connections that were accepted with the old ones.

        Whoever connected may have kept its own certificate and does not notice.
        """
        tls, loop = self._endpoint.tls, asyncio.get_running_loop()
        if tls is None or self._is_closing:
            return
        if tls.generation != self._tls_generation:
            self._tls_generation, self._renewed_at = tls.generation, loop.time()
        elif loop.time() - self._renewed_at > tls.rotation.outdated_s:
            for connection in tuple(self._connections):
                if connection.tls_generation != self._tls_generation:
                    connection.close(RENEWED)
        self._renewal = loop.call_later(tls.rotation.renew_s, self._close_outdated)

    async def close(self, reason: Reason | None = None) -> None:
        """Stop listening, send a Goodbye on every connection, and wait at most ``linger_s``."""
        self._is_closing = True
        if self._renewal is not None:
            self._renewal.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in tuple(self._connections):
            connection.close(reason or Reason(Why.SHUTTING_DOWN, "the server is shutting down"))
        if self._connections:
            await self._all_gone.wait()
        if self._listener is not None:
            await self._listener.wait_closed()

    def _accept(self) -> asyncio.Protocol:
        if len(self._newcomers) >= self._endpoint.limits.handshakes_max:
            oldest = next(iter(self._newcomers))
            del self._newcomers[oldest]
            oldest.abort(Reason(Why.TOO_MANY_CONNECTIONS, "others wait to say who they are"))
        connection = Connection(
            self._endpoint,
            is_connector=False,
            on_open=self._on_connection,
            on_gone=self._forget,
            admit=self._admit,
        )
        self._connections[connection] = self._newcomers[connection] = None
        if self._is_closing:
            connection.close(Reason(Why.SHUTTING_DOWN, "the server is shutting down"))
        return connection

    def _admit(self, connection: Connection, agreed: Agreed) -> FrameMemory | Reason:
        peer = agreed.peer
        refusal = self._refusal(peer, agreed.proven_by) or self._places.take(peer)
        if refusal is not None:
            return refusal  # it stays a newcomer until its socket is gone
        self._placed[connection] = peer
        self._newcomers.pop(connection, None)
        return self.clients_memory if peer.role is Role.CLIENT else self._memory

    def _forget(self, connection: Connection) -> None:
        del self._connections[connection]
        self._newcomers.pop(connection, None)
        peer = self._placed.pop(connection, None)
        if peer is not None:
            self._places.leave(peer)
        if self._is_closing and not self._connections:
            self._all_gone.set()


REFUSALS: Final = frozenset({Why.REFUSED, Why.TLS, Why.VERSION, Why.SECRET})
"""The reasons that are about who the two ends are."""
RENEWED: Final = Reason(Why.DONE, "its certificates have been renewed since")


class _AdmissionFilter:
    """Passes to *receiver* only the kinds of frames that the peer may send."""

    __slots__ = ("_admitted", "_receiver")

    def __init__(self, receiver: Receiver, admitted: frozenset[Kind]) -> None:
        self._receiver = receiver
        self._admitted = admitted

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind not in self._admitted:
            self._refuse(connection, kind)
        self._receiver.on_frame(connection, kind, payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._receiver.on_closed(connection, reason)

    def _refuse(self, connection: Connection, kind: Kind) -> None:
        raise msgspec.ValidationError(f"a {connection.peer.role} may not send {kind.name} here")


class _ClientFilter(_AdmissionFilter):
    """The same for a client, which is let go if it sends nothing within *first_frame_s*. Until then no kind
    is admitted, so that only the first frame costs a look at that."""

    __slots__ = ("_kinds", "_patience")

    def __init__(
        self, receiver: Receiver, admitted: frozenset[Kind], connection: Connection, first_frame_s: float
    ) -> None:
        super().__init__(receiver, frozenset())
        self._kinds = admitted
        reason = Reason(Why.IDLE, f"nothing was asked within {first_frame_s:g} s")
        loop = asyncio.get_running_loop()
        self._patience: asyncio.TimerHandle | None = loop.call_later(first_frame_s, connection.close, reason)

    def _refuse(self, connection: Connection, kind: Kind) -> None:
        self._wait_no_more()
        self._admitted = self._kinds
        if kind not in self._admitted:
            super()._refuse(connection, kind)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._wait_no_more()
        super().on_closed(connection, reason)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


async def serve(
    address: Address,
    on_connection: Callable[[Connection], Receiver],
    endpoint: ConnectionSettings,
    *,
    admits: Admission,
    refusal: Refusal = lambda peer, by: None,
    insecure: bool = False,
) -> Server:
    """Listen on *address* and call *on_connection* for each peer after its handshake.

    *on_connection* returns the receiver of the peer's frames. *admits* says which kinds each role may send:
    any other kind ends the connection, and a role that may send nothing is refused. *refusal* says why a peer
    that has proved itself is not admitted all the same. Raises ``InvalidRequest``
    when the address needs TLS and has none, or when *endpoint* could not tell who its peers are;
    ``Unavailable`` when it is not possible to listen on the address.
    """
    endpoint.require_proof(is_connector=False)
    require_safe(address, has_tls=endpoint.tls is not None, insecure=insecure or endpoint.insecure)
    insist_valid(endpoint.limits, "limits out of range")
    expected = replace(endpoint.expected, roles=endpoint.expected.roles & roles_in(admits))

    def filtered(connection: Connection) -> Receiver:
        receiver, kinds = on_connection(connection), kinds_of(connection.peer.role, admits)
        if connection.peer.role is Role.CLIENT:
            return _ClientFilter(receiver, kinds, connection, endpoint.limits.first_frame_s)
        return _AdmissionFilter(receiver, kinds)

    server = Server(replace(endpoint, expected=expected), filtered, refusal)
    await server.listen(address)
    return server


async def connect(
    address: Address,
    on_connection: Callable[[Connection], Receiver],
    endpoint: ConnectionSettings,
    *,
    on_gone: Callable[[Connection], None] = lambda _: None,
    deadline_s: float = 5.0,
    insecure: bool = False,
) -> Connection:
    """Connect and complete the handshake.

    Afterwards, before any frame is delivered, *on_connection* is called and returns the receiver; *on_gone*
    is called once the socket is gone. Raises ``NotConnected`` with the reason, also after *deadline_s*, and
    leaves no socket open; ``InvalidRequest`` when the address needs TLS and has none, or when *endpoint* has
    nothing to prove itself with.
    """
    endpoint.require_proof(is_connector=True)
    require_safe(address, has_tls=endpoint.tls is not None, insecure=insecure or endpoint.insecure)
    insist_valid(endpoint.limits, "limits out of range")
    connection = Connection(endpoint, is_connector=True, on_open=on_connection, on_gone=on_gone)
    try:
        reason = await _open(connection, address, deadline_s)
        if reason is not None:
            connection.close()
            await connection.wait_gone()
            is_about_us = reason.why in REFUSALS
            raise NotConnected(str(address), reason, str(endpoint.identity) if is_about_us else "")
    except asyncio.CancelledError:
        # Nobody else knows the connection, and the loop may end before its linger time is over.
        connection.abort()
        raise
    return connection


async def _open(connection: Connection, address: Address, deadline_s: float) -> Reason | None:
    """Open the connection; return why it failed, or None."""
    try:
        async with asyncio.timeout(deadline_s):
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: connection, address.host, address.port)
            return await connection.opening
    except OSError as error:
        connection.abort()  # there is no peer to receive a Goodbye
        if isinstance(error, TimeoutError):
            return Reason(Why.HANDSHAKE_TIMEOUT, f"no connection within {deadline_s:g} s")
        return Reason(Why.LOST, error.strerror or str(error))
