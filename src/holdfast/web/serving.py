"""uvicorn within a host: on the host's loop, without signals of its own, and with bounds on connections."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.model.errors import Unavailable
from holdfast.net import Address
from holdfast.net.handshake import CertifiedName
from holdfast.net.tls import parse_certificate_uri
from holdfast.web.answering import problem_bytes
from holdfast.web.app import CERTIFICATE
from holdfast.web.bounds import CLOSE_S, CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_S, KEEP_ALIVE_S
from holdfast.web.problems import busy, refuse

BACKLOG: Final = 128


async def bind(address: Address) -> socket.socket:
    """A socket that listens at *address*. Raises ``Unavailable``."""
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listening = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise Unavailable(f"cannot listen at {address}: {error}") from None
    listening.setblocking(False)
    return listening


class Serving:
    """Serves *app* on *listening*, from its making until it is closed."""

    def __init__(self, app: ASGIApp, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        config = uvicorn.Config(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=CLOSE_S,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            ssl_context_factory=None if tls is None else lambda config, default: tls,
        )
        self._server = _Server(config)
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets=[listening]))

    async def close(self) -> None:
        self._server.should_exit = True
        await asyncio.gather(self._task, return_exceptions=True)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the host's."""
        yield


class _Connection(H11Protocol):
    """One connection: among so many, with so long for each head, known by its certificate."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.write(problem_bytes(busy(f"{CONNECTIONS_MAX} connections are open", "overloaded")))
            transport.close()
            return
        name = _certified(transport)
        if name is not None:
            self.app = _certifying(self.app, name)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        self._await_head()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._have_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._have_head()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or a head that is too long."""
        advice = f"Send HTTP/1.1 with a head of at most {HEAD_BYTES_MAX} bytes."
        self.transport.write(problem_bytes(refuse(400, "bad_http", "this is no HTTP request", advice)))
        self.transport.close()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._give_up)

    def _have_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def _certifying(app: Any, name: CertifiedName) -> Any:
    async def certified(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, CERTIFICATE: name}, receive, send)

    return certified


def _certified(transport: asyncio.Transport) -> CertifiedName | None:
    """Whom the connection's certificate names, if there is one; our CA has signed it."""
    certificate: dict[str, Any] = transport.get_extra_info("peercert") or {}
    uris = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    return parse_certificate_uri(uris[0]) if len(uris) == 1 else None
