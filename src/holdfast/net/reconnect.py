"""A link: keeps one connection to a peer, made anew whenever it ends."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from holdfast.machine.library_log import LibraryLog
from holdfast.net.address import Address
from holdfast.net.connection import Connection, Receiver
from holdfast.net.endpoint import Endpoint
from holdfast.net.kind import Kind
from holdfast.net.reason import NotConnected, Reason
from holdfast.net.tcp import connect

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
        endpoint: Endpoint,
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
