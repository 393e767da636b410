"""Listening and connecting: ``serve`` and ``connect``.

A link: keeps one connection to a peer, made anew whenever it ends.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final, cast

import msgspec

from holdfast.machine.trace import LibraryLog
from holdfast.model.errors import Unavailable
from holdfast.net.address import Address, require_safe
from holdfast.net.connection import Connection, Receiver
from holdfast.net.frame import Kind, NotConnected, Reason, Why
from holdfast.net.handshake import Admission, kinds_of, roles_in
from holdfast.net.tls import ConnectionSettings

REFUSALS_MAX: Final = 64
"""Connections beyond ``connections_max`` that are being told so; more are dropped without a word."""


class Server:
    """A listening socket and the connections accepted on it."""

    def __init__(self, endpoint: ConnectionSettings, on_connection: Callable[[Connection], Receiver]) -> None:
        self._endpoint = endpoint
        self._on_connection = on_connection
        # Dictionaries for their order: connections are closed in the order they came.
        self._connections: dict[Connection, None] = {}
        self._refused: dict[Connection, None] = {}
        self._listener: asyncio.Server | None = None
        self._all_gone = asyncio.Event()
        self._is_closing = False

    @property
    def address(self) -> Address:
        """Where it listens; the port is the real one even when 0 was asked for."""
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

    async def close(self, reason: Reason | None = None) -> None:
        """Listen no more, say Goodbye on every connection, and wait (``linger_s`` at most) for all to go."""
        self._is_closing = True
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


class _Dropped(asyncio.Protocol):
    """A connection that is not even refused."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


class _Doorkeeper:
    """Lets through to *receiver* what a peer may send."""

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
    """Listen on *address*. *on_connection* is called for each peer that completed the handshake and returns
    who receives its frames. *admits*: which kinds each role may send, any other ends the connection; who may
    send nothing does not come in. Raises ``InvalidRequest`` for an address that needs TLS and has none,
    ``Unavailable`` when the address cannot be had."""
    require_safe(address, has_tls=endpoint.tls is not None, insecure=insecure)
    endpoint.limits.validate()
    expected = replace(endpoint.expected, roles=endpoint.expected.roles & roles_in(admits))

    def keep_door(connection: Connection) -> Receiver:
        return _Doorkeeper(on_connection(connection), kinds_of(connection.peer.role, admits))

    server = Server(replace(endpoint, expected=expected), keep_door)
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
    """Connect and shake hands. *on_connection* is called once that is done, before any frame is delivered,
    and returns who receives them; *on_gone* once the socket is gone. Raises ``NotConnected`` with the reason,
    also when *deadline_s* has passed, and leaves no socket behind; ``InvalidRequest`` for an address that
    needs TLS and has none."""
    require_safe(address, has_tls=endpoint.tls is not None, insecure=insecure)
    endpoint.limits.validate()
    connection = Connection(endpoint, is_connector=True, on_open=on_connection, on_gone=on_gone)
    try:
        reason = await _open(connection, address, deadline_s)
        if reason is not None:
            connection.close()
            await connection.wait_gone()
            raise NotConnected(str(address), reason)
    except asyncio.CancelledError:
        # Nobody else knows of the connection, and the loop may end before it has lingered.
        connection.abort()
        raise
    return connection


async def _open(connection: Connection, address: Address, deadline_s: float) -> Reason | None:
    """Why it did not become open; None when it did."""
    try:
        async with asyncio.timeout(deadline_s):
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: connection, address.host, address.port)
            return await connection.opening
    except OSError as error:
        connection.abort()  # there is nobody to take a Goodbye
        if isinstance(error, TimeoutError):
            return Reason(Why.HANDSHAKE_TIMEOUT, f"no connection within {deadline_s:g} s")
        return Reason(Why.LOST, error.strerror or str(error))


log = LibraryLog("holdfast.net")


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before the next attempt: doubling to a bound, and jittered so that those who lost
    the same peer do not come back at the same moment."""

    first_s: float = 0.02
    most_s: float = 1.0

    def delay_s(self, failures: int, random: Random) -> float:
        """The wait after so many failures in a row: between half and all of the doubled time."""
        doubled: float = min(self.most_s, self.first_s * 2.0 ** min(failures, 30))
        return doubled * (0.5 + random.random() / 2)


class Link:
    """One peer, connected whenever it can be.

    *where* is asked before every attempt, since a restarted peer may listen elsewhere; None means not now.
    *on_up* is called for each new connection before any of its frames and returns who receives them.
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
        """The open connection, if there is one now."""
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
        self._lingering: dict[Connection, None] = {}
        """Connections whose sockets are not gone, the open one among them."""
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"link to {name}")

    def send(self, kind: Kind, payload: bytes) -> bool:
        """Send if connected now; says whether it was. No promise either way."""
        if self.connection is None:
            return False
        self.connection.send(kind, payload)
        return True

    @property
    def failure(self) -> str | None:
        """Why the last attempt failed, if it did."""
        return self._last_failure

    def hurry(self) -> None:
        """Try again now: something suggests that the peer is back or has moved."""
        self._hurry.set()

    async def close(self) -> None:
        """Stop, and close the connection."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for connection in list(self._lingering):
            if connection is self.connection:
                connection.close()
            else:
                connection.abort()  # it has said what it had to say
            await connection.wait_gone()

    async def _keep(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            if await self._connect_once():
                began = loop.time()
                await self._ended.wait()
                if loop.time() - began > self._backoff.most_s:
                    failures = 0  # one that ends at once is no better than one that fails
            await self._pause(self._backoff.delay_s(failures, self._random))
            failures += 1

    async def _connect_once(self) -> bool:
        address = self._where()
        if address is None:
            return False
        self._ended.clear()
        self._hurry.clear()
        try:
            await connect(
                address,
                self._up,
                self._endpoint,
                on_gone=lambda connection: self._lingering.pop(connection, None),
                deadline_s=self._deadline_s,
                insecure=self._insecure,
            )
        except NotConnected as error:
            self._note_failure(str(error))
            return False
        self._last_failure = None
        return True

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
        # The same failure every second is one event, not sixty a minute.
        if failure != self._last_failure:
            log.info("link is down", link=self.name, failure=failure)
        self._last_failure = failure


class _LinkReceiver:
    """Passes everything on, and lets the link know of the end."""

    def __init__(self, receiver: Receiver, on_down: Callable[[Connection], None]) -> None:
        self._receiver = receiver
        self._on_down = on_down
        self.on_frame = receiver.on_frame

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._on_down(connection)
        self._receiver.on_closed(connection, reason)
