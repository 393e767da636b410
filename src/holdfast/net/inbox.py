"""A bounded queue between a connection and a task that consumes its frames at its own pace."""

import asyncio
from collections import deque
from typing import Final

from holdfast.net.connection import Connection
from holdfast.net.frame import Frame
from holdfast.net.kind import Kind
from holdfast.net.reason import NotConnected, Reason

FRAMES_MAX: Final = 1024
BYTES_MAX: Final = 4 * 1024 * 1024


class Inbox:
    """A receiver that keeps frames until they are taken.

    Full, it stops the connection from reading, so that the peer's sends fill up and the peer waits; half
    empty, it lets it go on. It may hold more than its bounds by what one read of the socket brings.
    """

    def __init__(self, *, frames_max: int = FRAMES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._frames: deque[Frame] = deque()
        self._connection: Connection | None = None
        self._reason: Reason | None = None
        self._arrived = asyncio.Event()
        self.held_bytes = 0

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        self._connection = connection
        self._frames.append((kind, payload))
        self.held_bytes += len(payload)
        if len(self._frames) >= self._frames_max or self.held_bytes >= self._bytes_max:
            connection.pause_reading()
        self._arrived.set()

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._connection = connection
        self._reason = reason
        self._arrived.set()

    async def take(self) -> Frame:
        """The next frame. Raises ``NotConnected`` once the connection has ended and all are taken."""
        while not self._frames:
            if self._reason is not None:
                where = str(self._connection.address) if self._connection is not None else "?"
                raise NotConnected(where, self._reason)
            self._arrived.clear()
            await self._arrived.wait()
        kind, payload = self._frames.popleft()
        self.held_bytes -= len(payload)
        if len(self._frames) <= self._frames_max // 2 and self.held_bytes <= self._bytes_max // 2:
            self._resume()
        return kind, payload

    def _resume(self) -> None:
        if self._connection is not None and self._reason is None:
            self._connection.resume_reading()
