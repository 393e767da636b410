"""One HTTP connection: limits on how many there are, and on how slowly anybody may send or read.

Whoever opens connections and sends half a request, a byte at a time, must not keep others out. So at the
limit a new connection takes the place of the one that has waited longest for its own client: for the head or
the rest of a request, for the next request, or for its answer to be read. Only if all are being answered is
the new one refused. A client that sends its request at once is safe from this, however many others dawdle.
"""

import asyncio
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.net.handshake import CertifiedName
from holdfast.net.tls import parse_certificate_uri
from holdfast.web.app import CERTIFICATE
from holdfast.web.endpoint import problem_bytes
from holdfast.web.problems import busy, refuse
from holdfast.web.settings import CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_S, UNREAD_S


class HttpConnection(H11Protocol):
    """A connection, with a time limit for each head and the client's certified name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._waits_since = self.loop.time()
        """Since when it waits for its client, if it does."""
        self._is_evicted = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX and not self._take_place():
            transport.write(problem_bytes(busy(f"{CONNECTIONS_MAX} connections are open", "overloaded")))
            transport.close()
            return
        name = _certified(transport)
        if name is not None:
            self.app = _certifying(self.app, name)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        self._await_head()
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._waits_since = self.loop.time()
        if self.cycle is not None and not self.cycle.response_complete:
            self._have_head()

    def on_response_complete(self) -> None:
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._waits_since = self.loop.time()
        self._unread_timer = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._have_read()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._have_head()
        self._have_read()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or a head that is too long."""
        advice = f"Send HTTP/1.1 with a head of at most {HEAD_BYTES_MAX} bytes."
        self.transport.write(problem_bytes(refuse(400, "bad_http", "this is no HTTP request", advice)))
        self.transport.close()

    @property
    def waits_since(self) -> float | None:
        """Since when this connection waits for its client; None while the client waits for the host."""
        is_between = self.cycle is None or self.cycle.response_complete
        waits = is_between or self.cycle.more_body or self.flow.write_paused
        return self._waits_since if waits and not self._is_evicted else None

    def _take_place(self) -> bool:
        """Close the connection that has waited longest for its client; False if none waits."""
        waiting = [
            (since, each)
            for each in self.connections
            if isinstance(each, HttpConnection)
            and each is not self
            and (since := each.waits_since) is not None
        ]
        if not waiting:
            return False
        _, oldest = min(waiting, key=lambda each: each[0])
        oldest._is_evicted = True
        oldest.transport.abort()
        return True

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._give_up)

    def _have_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _have_read(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def _certifying(app: Any, name: CertifiedName) -> Any:
    async def certified(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, CERTIFICATE: name}, receive, send)

    return certified


def _certified(transport: asyncio.Transport) -> CertifiedName | None:
    """The name in the client's certificate, which our CA has signed, if there is one."""
    certificate: dict[str, Any] = transport.get_extra_info("peercert") or {}
    uris = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    return parse_certificate_uri(uris[0]) if len(uris) == 1 else None
