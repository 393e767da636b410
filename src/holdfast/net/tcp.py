"""Listening (:func:`serve`), connecting (:func:`connect`) and reconnecting (:class:`Link`)."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, cast

import msgspec

from holdfast.machine.trace import LibraryLog
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.net.address import Address, require_safe
from holdfast.net.connection import Connection, Receiver
from holdfast.net.frame import Kind, NotConnected, Reason, Why
from holdfast.net.handshake import Admission, kinds_of, roles_in
from holdfast.net.tls import ConnectionSettings

REFUSALS_MAX: Final = 64
"""The most surplus connections that are refused with a reason; more are dropped silently."""


class Server:
    """A listening socket and the connections accepted on it."""

    def __init__(self, endpoint: ConnectionSettings, on_connection: Callable[[Connection], Receiver]) -> None:
        self._endpoint = endpoint
        self._on_connection = on_connection
        # Dictionaries keep the order: connections are closed in the order they came.
        self._connections: dict[Connection, None] = {}
        self._refused: dict[Connection, None] = {}
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
            self._listener = await loop.create_server(self._accept, address.host, address.port)
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
                    connection.close(_RENEWED)
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
        if self._connections or self._refused:
            await self._all_gone.wait()
        if self._listener is not None:
            await self._listener.wait_closed()

    def _accept(self) -> asyncio.Protocol:
        held, refusal = self._connections, None
        if self._is_closing:
            refusal = Reason(Why.SHUTTING_DOWN, "the server is shutting down")
        elif len(self._connections) >= self._endpoint.limits.connections_max:
            refusal = Reason(Why.TOO_MANY_CONNECTIONS, f"{len(self._connections)} connections are open here")
        if refusal is not None:
            held = self._refused
            if len(self._refused) >= REFUSALS_MAX:
                return _Dropped()

        def forget(connection: Connection) -> None:
            del held[connection]
            if self._is_closing and not self._connections and not self._refused:
                self._all_gone.set()

        connection = Connection(
            self._endpoint,
            is_connector=False,
            on_open=self._on_connection,
            on_gone=forget,
            refusal=refusal,
        )
        held[connection] = None
        return connection


REFUSALS: Final = frozenset({Why.REFUSED, Why.TLS, Why.VERSION})
"""The reasons that are about who the two ends are."""
_RENEWED: Final = Reason(Why.DONE, "its certificates have been renewed since")


class _Dropped(asyncio.Protocol):
    """A connection that is dropped without a reason."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


class _AdmissionFilter:
    """Passes to *receiver* only the kinds of frames that the peer may send."""

    __slots__ = ("_admitted", "_receiver")

    def __init__(self, receiver: Receiver, admitted: frozenset[Kind]) -> None:
        self._receiver = receiver
        self._admitted = admitted

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind not in self._admitted:
            raise msgspec.ValidationError(f"a {connection.peer.role} may not send {kind.name} here")
        self._receiver.on_frame(connection, kind, payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._receiver.on_closed(connection, reason)


async def serve(
    address: Address,
    on_connection: Callable[[Connection], Receiver],
    endpoint: ConnectionSettings,
    *,
    admits: Admission,
    insecure: bool = False,
) -> Server:
    """Listen on *address* and call *on_connection* for each peer after its handshake.

    *on_connection* returns the receiver of the peer's frames. *admits* says which kinds each role may send:
    any other kind ends the connection, and a role that may send nothing is refused. Raises ``InvalidRequest``
    when the address needs TLS and has none, ``Unavailable`` when it is not possible to listen on the address.
    """
    require_safe(address, has_tls=endpoint.tls is not None, insecure=insecure or endpoint.insecure)
    endpoint.limits.validate()
    expected = replace(endpoint.expected, roles=endpoint.expected.roles & roles_in(admits))

    def filtered(connection: Connection) -> Receiver:
        return _AdmissionFilter(on_connection(connection), kinds_of(connection.peer.role, admits))

    server = Server(replace(endpoint, expected=expected), filtered)
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
    leaves no socket open; ``InvalidRequest`` when the address needs TLS and has none.
    """
    require_safe(address, has_tls=endpoint.tls is not None, insecure=insecure or endpoint.insecure)
    endpoint.limits.validate()
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


log = LibraryLog("holdfast.net")


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait before the next attempt, which doubles up to a bound.

    Jitter keeps the processes that lost the same peer from all returning at the same moment.
    """

    first_s: float = 0.02
    most_s: float = 1.0

    def delay_s(self, failures: int, random: Random) -> float:
        """The wait after *failures* in a row: between half and all of the doubled time."""
        doubled: float = min(self.most_s, self.first_s * 2.0 ** min(failures, 30))
        return doubled * (0.5 + random.random() / 2)


class Link:
    """A connection to one peer that is reopened whenever it ends.

    *where* is called before every attempt, because a restarted peer may listen elsewhere; None means not now.
    *on_up* is called for each new connection before any of its frames and returns their receiver.
    """

    def __init__(
        self,
        name: str,
        where: Callable[[], Address | None],
        on_up: Callable[[Connection], Receiver],
        endpoint: ConnectionSettings,
        *,
        random: Random,
        backoff: Backoff | None = None,
        deadline_s: float = 5.0,
        insecure: bool = False,
    ) -> None:
        self.name = name
        self.connection: Connection | None = None
        """The open connection, if there is one."""
        self._where = where
        self._on_up = on_up
        self._endpoint = endpoint
        self._random = random
        self._backoff = backoff or Backoff()
        self._deadline_s = deadline_s
        self._insecure = insecure
        self._ended = asyncio.Event()
        self._hurry = asyncio.Event()
        self._last_failure: str | None = None
        self._is_refused = False
        self._lingering: dict[Connection, None] = {}
        """Connections whose sockets are still open, including the current one."""
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"link to {name}")

    def send(self, kind: Kind, payload: bytes) -> bool:
        """Send if connected now, and return whether it was. Delivery is not guaranteed either way."""
        if self.connection is None:
            return False
        self.connection.send(kind, payload)
        return True

    @property
    def failure(self) -> str | None:
        """Why the last attempt failed, if it did."""
        return self._last_failure

    @property
    def is_refused(self) -> bool:
        """Whether the last attempt failed because the two ends may not talk; trying again changes nothing."""
        return self._is_refused

    def hurry(self) -> None:
        """Try again now, because something suggests that the peer is back or has moved."""
        self._hurry.set()

    async def close(self) -> None:
        """Stop reconnecting and close the connection."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for connection in list(self._lingering):
            if connection is self.connection:
                connection.close()
            else:
                connection.abort()  # it has sent everything it had to send
            await connection.wait_gone()

    async def _keep(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            if await self._connect_once():
                began = loop.time()
                await self._until_ended()
                if loop.time() - began > self._backoff.most_s:
                    failures = 0  # a connection that ends at once counts as a failure
            await self._pause(self._backoff.delay_s(failures, self._random))
            failures += 1

    async def _connect_once(self) -> bool:
        address = self._where()
        if address is None:
            return False
        self._ended.clear()
        self._hurry.clear()
        try:
            is_made = await self._unless_moved(
                address,
                connect(
                    address,
                    self._up,
                    self._endpoint,
                    on_gone=lambda connection: self._lingering.pop(connection, None),
                    deadline_s=self._deadline_s,
                    insecure=self._insecure,
                ),
            )
        except (NotConnected, InvalidRequest) as error:
            self._is_refused = not isinstance(error, NotConnected) or error.reason.why in REFUSALS
            self._note_failure(str(error))
            return False
        self._last_failure, self._is_refused = None, False
        return is_made

    async def _unless_moved(self, address: Address, connecting: Coroutine[Any, Any, Connection]) -> bool:
        """Connect, but give up *address* as soon as the peer is known to be elsewhere.

        Nobody answers at the address of a machine that has moved, and waiting for that takes long. Returns
        whether it was connected; raises what *connecting* does.
        """
        attempt = asyncio.ensure_future(connecting)
        try:
            while not attempt.done():
                hurried = asyncio.ensure_future(self._hurry.wait())
                await asyncio.wait({attempt, hurried}, return_when=asyncio.FIRST_COMPLETED)
                hurried.cancel()
                if not attempt.done() and self._where() != address:
                    return False
                self._hurry.clear()
            attempt.result()
            return True
        finally:
            attempt.cancel()
            await asyncio.gather(attempt, return_exceptions=True)

    async def _until_ended(self) -> None:
        """Wait until the connection ends; end it when this end's certificates have been renewed."""
        tls = self._endpoint.tls
        while not self._ended.is_set():
            try:
                async with asyncio.timeout(None if tls is None else tls.rotation.renew_s):
                    await self._ended.wait()
            except TimeoutError:
                connection = self.connection
                if tls is not None and connection is not None and connection.tls_generation != tls.generation:
                    connection.close(_RENEWED)

    async def _pause(self, delay_s: float) -> None:
        try:
            async with asyncio.timeout(delay_s):
                await self._hurry.wait()
        except TimeoutError:
            return

    def _up(self, connection: Connection) -> Receiver:
        self.connection = connection
        self._lingering[connection] = None
        return _LinkReceiver(self._on_up(connection), self._down)

    def _down(self, connection: Connection) -> None:
        if self.connection is connection:
            self.connection = None
            self._ended.set()

    def _note_failure(self, failure: str) -> None:
        # A failure that repeats every second is logged once.
        if failure != self._last_failure:
            log.info("link is down", link=self.name, failure=failure)
        self._last_failure = failure


class _LinkReceiver:
    """Passes everything on, and tells the link when the connection ends."""

    def __init__(self, receiver: Receiver, on_down: Callable[[Connection], None]) -> None:
        self._receiver = receiver
        self._on_down = on_down
        self.on_frame = receiver.on_frame

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._on_down(connection)
        self._receiver.on_closed(connection, reason)
