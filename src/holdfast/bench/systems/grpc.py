"""Unary gRPC calls on one HTTP/2 connection, and free ports for the processes of a peer.

It implements no more of either protocol than calling a peer needs, because an etcd client in Python would
measure itself. This one encodes a call's headers once, writes everything of one loop turn in one piece, and
reads frames without decoding their content: a unary call that fails has no message, so a message means
success. HPACK's table is switched off, so that no header need be understood.
"""

import asyncio
import socket
import struct
from collections import deque
from typing import Final, cast

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK, END_STREAM, END_HEADERS = 1, 1, 4
HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE = 1, 4
WINDOW: Final = 1 << 30
"""How much the server may send without asking: more than all its answers in a run."""
SEND_WINDOW: Final = 65_535
"""How much the client may send until told otherwise (RFC 9113, 6.9.2). Messages here are far below a stream's
limit."""
_HEADER: Final = struct.Struct(">HBBBI")
_PREFIX: Final = struct.Struct(">BI")


class CallFailed(Exception):
    """Raised when a call or its connection ended without a message."""


class GrpcConnection(asyncio.Protocol):
    """One connection to one method of one server."""

    def __init__(self, method: str, authority: str) -> None:
        self._headers = _header_block(method, authority)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._pending: dict[int, asyncio.Future[None]] = {}
        self._stream = 1
        self._is_flush_asked = False
        self._held: deque[tuple[int, bytes]] = deque()
        self._window = SEND_WINDOW
        self._rest = b""
        self._is_lost = False

    @classmethod
    async def connect(cls, host: str, port: int, method: str) -> "GrpcConnection":
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: cls(method, f"{host}:{port}"), host, port)
        return connection

    def call(self, message: bytes) -> asyncio.Future[None]:
        """Make a call; done when the server has answered with a message. Raises :class:`CallFailed`."""
        answered: asyncio.Future[None] = self._loop.create_future()
        if self._is_lost:
            answered.set_exception(CallFailed("the connection is gone"))
            return answered
        stream, self._stream = self._stream, self._stream + 2
        self._pending[stream] = answered
        self._held.append((stream, _PREFIX.pack(0, len(message)) + message))
        if not self._is_flush_asked:
            self._is_flush_asked = True
            self._loop.call_soon(self._flush)
        return answered

    def close(self) -> None:
        self._transport.abort()

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        settings = struct.pack(">HIHI", HEADER_TABLE_SIZE, 0, INITIAL_WINDOW_SIZE, WINDOW)
        update = struct.pack(">I", WINDOW - SEND_WINDOW)
        self._transport.write(
            PREFACE + _frame(SETTINGS, 0, 0, settings) + _frame(WINDOW_UPDATE, 0, 0, update)
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        for answered in self._pending.values():
            if not answered.done():
                answered.set_exception(CallFailed(f"the connection is gone: {exc}"))
        self._pending.clear()

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        offset, size = 0, len(data)
        while offset + 9 <= size:
            high, low, kind, flags, stream = _HEADER.unpack_from(data, offset)
            end = offset + 9 + (high << 8 | low)
            if end > size:
                break
            if kind == DATA:
                self._end(stream, None)
            elif kind == HEADERS:
                if flags & END_STREAM:
                    self._end(stream, CallFailed("the call ended without a message"))
            else:
                self._on_control(kind, flags, stream, data[offset + 9 : end])
            offset = end
        self._rest = data[offset:]

    def _on_control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == RST_STREAM:
            self._end(stream, CallFailed("the server reset the call"))
        elif kind == GOAWAY:
            self._transport.close()
        elif kind == WINDOW_UPDATE and stream == 0:
            self._window += int(struct.unpack(">I", payload)[0])
            self._flush()
        elif kind in (SETTINGS, PING) and not flags & ACK:
            self._transport.write(_frame(kind, ACK, 0, payload if kind == PING else b""))

    def _end(self, stream: int, error: CallFailed | None) -> None:
        answered = self._pending.pop(stream, None)
        if answered is None or answered.done():
            return
        if error is None:
            answered.set_result(None)
        else:
            answered.set_exception(error)

    def _flush(self) -> None:
        """Send the calls made in this loop turn, as far as the server's window permits."""
        self._is_flush_asked = False
        frames: list[bytes] = []
        while self._held and self._window >= len(self._held[0][1]):
            stream, message = self._held.popleft()
            self._window -= len(message)
            frames += (
                _frame(HEADERS, END_HEADERS, stream, self._headers),
                _frame(DATA, END_STREAM, stream, message),
            )
        if frames and not self._transport.is_closing():
            self._transport.write(b"".join(frames))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    length = len(payload)
    return _HEADER.pack(length >> 8, length & 0xFF, kind, flags, stream) + payload


def _header_block(method: str, authority: str) -> bytes:
    """Encode literal header fields that are not indexed (RFC 7541, 6.2.2).

    Numbers refer to its static table.
    """

    def text(value: str) -> bytes:
        return bytes([len(value)]) + value.encode()

    return b"".join(
        (
            b"\x83\x86",  # :method POST, :scheme http
            b"\x04" + text(method),
            b"\x01" + text(authority),
            b"\x0f\x10" + text("application/grpc"),
            b"\x00" + text("te") + text("trailers"),
        )
    )


def free_ports(count: int) -> list[int]:
    """Return ports on loopback at which nobody listened a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
