"""The embedded authority as a process: its file in a directory, its server on an address.

SQLite runs in the event loop, not in a thread. A commit blocks the loop for one disk sync, and that is
intended: no request can be answered meanwhile, new requests collect in the sockets for the next commit, and
the process has nothing else to do. When a disk hangs, answers stop, and the clients notice by their
deadlines.
"""

import asyncio
import os
import secrets
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Final

import msgspec

from holdfast.authority.server import AuthorityServer
from holdfast.authority.sqlite import SqliteStore
from holdfast.authority.sqlite_file import StoreFailed
from holdfast.authority.wire import ServerMessage, decode_client_message, encode
from holdfast.machine import LogTrace, LoopTimers, MachineClock, MachineRandom
from holdfast.machine.files import make_durably, narrow_own, open_private
from holdfast.net import Address, Connection, ConnectionSettings, Kind, Reason, Server, serve
from holdfast.net.handshake import AUTHORITY_ADMITS
from holdfast.storage.lock import LOCK_FILE, DirectoryLock, Holder

FILE_NAME: Final = "authority.sqlite"
OWN_NAMES: Final = (LOCK_FILE, FILE_NAME, *(f"{FILE_NAME}-{each}" for each in ("wal", "shm", "journal")))


class AuthorityService:
    """One store served on one address. :attr:`failed` receives the error that must end the process (A6)."""

    def __init__(self, store: SqliteStore) -> None:
        loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = loop.create_future()
        self._store = store
        self._connections: dict[str, Connection] = {}
        self._peers: dict[Connection, str] = {}
        self._accepted = 0
        self._timers: LoopTimers | None = None
        self._listener: Server | None = None
        self._core = AuthorityServer(
            store=store,
            clock=MachineClock(),
            timers=self._make_timers,
            network=self,
            random=MachineRandom(),
            trace=LogTrace(process="authority"),
        )
        self._on_message = self._guarded(self._core.on_message)

    async def listen(
        self, address: Address, endpoint: ConnectionSettings, *, insecure: bool = False
    ) -> Address:
        """Serve on *address* and return the actual address."""
        self._listener = await serve(
            address, self._on_connection, endpoint, admits=AUTHORITY_ADMITS, insecure=insecure
        )
        self._core.start()
        return self._listener.address

    async def close(self) -> None:
        """Stop serving and close the file cleanly."""
        if self._timers is not None:
            self._timers.close()
        if self._listener is not None:
            await self._listener.close()
        self._store.close()

    # --- the core's network

    def send(self, peer: str, message: object) -> None:
        connection = self._connections.get(peer)
        if connection is not None and isinstance(message, ServerMessage):
            connection.send(Kind.AUTHORITY_ANSWER, encode(message))

    # --- a connection's receiver

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is not Kind.AUTHORITY_ASK:
            raise msgspec.ValidationError(f"an authority takes no {kind.name}")
        message = decode_client_message(payload)
        self._on_message(self._peers[connection], message)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        peer = self._peers.pop(connection)
        del self._connections[peer]
        self._core.on_disconnected(peer)

    def _on_connection(self, connection: Connection) -> "AuthorityService":
        self._accepted += 1
        peer = f"{connection.peer} #{self._accepted}"
        self._peers[connection] = peer
        self._connections[peer] = connection
        return self

    def _make_timers(self, on_timer: Callable[[Hashable], None]) -> LoopTimers:
        self._timers = LoopTimers(asyncio.get_running_loop(), self._guarded(on_timer))
        return self._timers

    def _guarded(self, handler: Callable[..., None]) -> Callable[..., None]:
        """Stop all handlers after the first exception: no event may follow a half-processed one."""

        def run(*args: object) -> None:
            if self.failed.done():
                return
            try:
                handler(*args)
            except Exception as error:
                self.failed.set_exception(error)

        return run


def lock_directory(directory: Path) -> DirectoryLock:
    """Lock the authority's directory for this process; ``Held`` names the process that has it."""
    return DirectoryLock.take(directory, Holder(pid=os.getpid(), what="authority"))


def open_store(directory: Path) -> SqliteStore:
    """Open the store in *directory*, creating it if needed.

    The directory must be locked. Raises ``StoreFailed``, or ``InvalidRequest`` when other users can access
    the directory and we may not restrict it.
    """
    file = directory / FILE_NAME
    try:
        make_durably(directory)
        narrow_own(directory, OWN_NAMES)
        # files that SQLite adds get the same permissions as this one
        open_private(file, os.O_WRONLY | os.O_APPEND).close()
    except OSError as error:
        raise StoreFailed(f"cannot open the authority's file {file}: {error}") from error
    return SqliteStore(str(file), now_ns=MachineClock().now(), new_id=f"authority-{secrets.token_hex(8)}")
