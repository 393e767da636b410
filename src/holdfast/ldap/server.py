"""The LDAP door on sockets: LDAP with StartTLS, and LDAPS.

A connection is a :class:`.Session` and a transport. The driver pauses reading when the session wants no more,
takes turns among sessions that have work, and leaves clients that are idle for long or do not read.
"""

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, Final, cast

from holdfast.directory.results import ResultCode
from holdfast.ldap.quick_search import QuickSearches
from holdfast.ldap.service import Service
from holdfast.ldap.session import Session
from holdfast.ldap.tls_subject import subject_dn

LOOK_S: Final = 1.0
"""How often connections are looked at for being idle or slow."""
HANDSHAKE_S: Final = 30.0
BACKLOG: Final = 1024


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: "LdapServer", *, is_tls: bool) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._is_reading = True
        self._is_scheduled = False
        self.slow_since: float | None = None
        self.heard = server.service.ports.now()
        self._is_receiving = False
        self.session = Session(
            server.service,
            self,
            can_start_tls=server.context is not None and not is_tls,
            is_tls=is_tls,
            quick=server.quick,
        )

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast("asyncio.Transport", transport)  # uvloop's are no subclass of it
        self._adopt(made)
        if self.session.is_tls:
            self.session.certified = subject_dn(made)
        if not self._server.admit(self):
            self.session.disconnect(ResultCode.BUSY, "too many clients are connected")

    def data_received(self, data: bytes) -> None:
        self.heard = self._server.service.ports.now()
        self._is_receiving = True
        self.session.receive(data)
        self._is_receiving = False
        self._follow()

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.session.close()
        self._server.forget(self)

    def pause_writing(self) -> None:
        self.session.is_paused = True
        self.slow_since = self._server.service.ports.now()
        self._follow()

    def resume_writing(self) -> None:
        self.session.is_paused = False
        self.slow_since = None
        self.session.work()
        self._follow()

    def _adopt(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=self._server.service.limits.buffer_bytes)

    def _follow(self) -> None:
        """Read or not, and take another turn, as the session wants it."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self.session.wants_input != self._is_reading:
            self._is_reading = self.session.wants_input
            (transport.resume_reading if self._is_reading else transport.pause_reading)()
        if self.session.has_work and not self._is_scheduled:
            self._is_scheduled = True
            self._server.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        if self._transport is not None and self.session.has_work:
            self.session.work()
            self._follow()

    # --- the session's side

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
            if not self._is_receiving:
                # An answer that came from elsewhere may have made room for what had to wait.
                self._server.loop.call_soon(self._follow)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def start_tls(self) -> None:
        if self._transport is not None:
            self._is_reading = False
            self._transport.pause_reading()
            self._server.spawn(self._upgrade(self._transport))

    async def _upgrade(self, transport: asyncio.Transport) -> None:
        context = self._server.context
        assert context is not None, "the session was told that there is a certificate"
        try:
            made = await self._server.loop.start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
            )
        except (TimeoutError, OSError, ssl.SSLError, ConnectionError):
            transport.abort()
            return
        if made is None:
            return
        self._adopt(made)
        self._is_reading = True
        self.session.on_tls(subject_dn(made))
        self._follow()


class LdapServer:
    """The door: listens, bounds the number of clients, and looks after them."""

    def __init__(
        self, service: Service, loop: asyncio.AbstractEventLoop, context: ssl.SSLContext | None = None
    ) -> None:
        self.service = service
        self.loop = loop
        self.context = context
        self.quick = QuickSearches(service)
        """Shared by all connections: what one client asks, others ask too."""
        self._connections: dict[Connection, None] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int, *, is_tls: bool = False) -> int:
        """Accept clients at *host* and *port* (0: any that is free), and return the port."""
        server = await self.loop.create_server(
            lambda: Connection(self, is_tls=is_tls),
            host,
            port,
            ssl=self.context if is_tls else None,
            ssl_handshake_timeout=HANDSHAKE_S if is_tls else None,
            backlog=BACKLOG,
        )
        self._servers.append(server)
        if self._looking is None:
            self._looking = self.loop.call_later(LOOK_S, self._look)
        return int(server.sockets[0].getsockname()[1])

    @property
    def clients(self) -> Iterable[Connection]:
        return tuple(self._connections)

    def admit(self, connection: Connection) -> bool:
        self._connections[connection] = None
        self.service.connections = len(self._connections)
        return len(self._connections) <= self.service.limits.connections

    def forget(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self.service.connections = len(self._connections)

    def spawn(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _look(self) -> None:
        """Leave clients that say nothing for long, or do not read what they asked for."""
        limits, now = self.service.limits, self.service.ports.now()
        for each in tuple(self._connections):
            each.session.pages.expire(now)
            if each.slow_since is not None and now - each.slow_since > limits.slow_s:
                self.service.ports.note("ldap_slow_client_left")
                each.abort()
            elif each.session.is_idle and now - each.heard > limits.idle_s:
                each.session.disconnect(ResultCode.UNAVAILABLE, f"nothing was asked for {limits.idle_s} s")
        self._looking = self.loop.call_later(LOOK_S, self._look)

    async def close(self) -> None:
        """Stop listening, tell all clients, and leave them."""
        if self._looking is not None:
            self._looking.cancel()
        for server in self._servers:
            server.close()
        for each in tuple(self._connections):
            each.session.disconnect(ResultCode.UNAVAILABLE, "the server is stopping")
        for server in self._servers:
            await asyncio.wait_for(server.wait_closed(), timeout=5)
