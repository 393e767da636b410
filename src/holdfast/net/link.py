"""A connection to one peer that is opened again whenever it ends."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final

from holdfast.machine.trace import LibraryLog
from holdfast.model.backoff import Backoff
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.net.address import Address
from holdfast.net.connection import Connection
from holdfast.net.connection_settings import ConnectionSettings
from holdfast.net.frame import Kind, NotConnected, Reason
from holdfast.net.receiver import Receiver
from holdfast.net.tcp import REFUSALS, RENEWED, connect

log = LibraryLog("holdfast.net")


PAUSES: Final = Backoff(first_ns=20 * MILLISECOND, most_ns=SECOND)
"""The waits before the attempts to connect again."""


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
        backoff: Backoff = PAUSES,
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
        self._backoff = backoff
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
                if loop.time() - began > self._backoff.most_ns / SECOND:
                    failures = 0  # a connection that ends at once counts as a failure
            await self._pause(self._backoff.jittered_ns(failures, self._random) / SECOND)
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
                try:
                    await asyncio.wait({attempt, hurried}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    hurried.cancel()  # also when the link is closed meanwhile: nobody else knows this task
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
                    connection.close(RENEWED)

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
