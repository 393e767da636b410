"""The back-pressure of one connection in both directions: when it reads, when its senders wait, and how much
it gathers before it writes."""

import asyncio
from typing import Final

from holdfast.net.frame import NotConnected

FLUSH_BYTES_FIRST: Final = 2 * 1024
FLUSH_BYTES_MAX: Final = 64 * 1024
"""The frames of one turn are written when they reach this size, so that the peer can begin while the rest is
made. The size starts small and doubles each time, because every write has the same cost."""

LONG_FRAME_BYTES: Final = 1024
"""A frame this long is written at once: it holds many calls, and the peer can begin with them."""


class Flow:
    """Reads unless the consumer is full, memory for a long frame is lacking or, on the accepting end, the
    peer does not take its answers.

    Only the accepting end waits for its peer. If both did, two ends with much to send would wait for each
    other to read first, forever.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, is_connector: bool) -> None:
        self.unwritable_since: float | None = None
        """When the unsent bytes exceeded the high mark; None once they are below the low mark."""
        self.is_reading = True
        self.reading_since = 0.0
        """When reading last started or stopped. Silence before that says nothing about the peer."""
        self._loop = loop
        self._is_connector = is_connector
        self._is_consumer_full = False
        self._lacks_memory = False
        self._end: NotConnected | None = None
        self._transport: asyncio.Transport | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def attach(self, transport: asyncio.Transport, *, high: int, low: int) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high, low)

    def pause_writing(self) -> None:
        self.unwritable_since = self._loop.time()
        self._apply()

    def resume_writing(self) -> None:
        self.unwritable_since = None
        self._apply()
        for waiter in self._take_waiters():
            waiter.set_result(None)

    def hold(self, *, is_consumer_full: bool) -> None:
        self._is_consumer_full = is_consumer_full
        self._apply()

    def wait_for_memory(self, lacks_memory: bool) -> None:
        self._lacks_memory = lacks_memory
        self._apply()

    async def writable(self) -> None:
        """Wait until the peer keeps up. Raises ``NotConnected`` when the connection has ended."""
        if self._end is not None:
            raise NotConnected(self._end.where, self._end.reason)
        if self.unwritable_since is not None:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def end(self, error: NotConnected) -> None:
        """The connection has ended: release all waiters, and read and drop whatever still arrives."""
        self._end = error
        self._apply()
        for waiter in self._take_waiters():
            waiter.set_exception(NotConnected(error.where, error.reason))

    def _apply(self) -> None:
        is_blocked = self.unwritable_since is not None and not self._is_connector
        is_held = self._is_consumer_full or self._lacks_memory or is_blocked
        wanted = self._end is not None or not is_held
        if self._transport is None or self._transport.is_closing() or wanted is self.is_reading:
            return
        self.is_reading = wanted
        self.reading_since = self._loop.time()
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _take_waiters(self) -> list[asyncio.Future[None]]:
        waiters = [waiter for waiter in self._waiters if not waiter.done()]
        self._waiters.clear()
        return waiters
