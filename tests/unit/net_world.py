"""Servers and connections for the tests of net/: made on uvloop, all gone when a test ends."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
import structlog
import structlog.testing
import uvloop

from holdfast.net import (
    Address,
    Admission,
    Connection,
    ConnectionSettings,
    DomainSecret,
    Expected,
    Kind,
    Limits,
    PeerIdentity,
    ProvenBy,
    Reason,
    Receiver,
    Role,
    Server,
    connect,
    serve,
)
from holdfast.net.credentials import NONCE_BYTES, SECRET_BYTES
from holdfast.net.frame import FrameDecoder, encode_frame
from holdfast.net.handshake import encode_hello, read_goodbye
from holdfast.net.session import Session

T = TypeVar("T")
LOOPBACK = Address("127.0.0.1", 0)
SECRET = DomainSecret("test", b"s" * SECRET_BYTES)


def secret_of(domain: str) -> DomainSecret:
    return DomainSecret(domain, SECRET.secret)


SERVER = ConnectionSettings(PeerIdentity("test", Role.HOST, "server", 1), credentials=SECRET)
CLIENT = ConnectionSettings(PeerIdentity("test", Role.CLIENT, "client"), credentials=SECRET)
EVERYBODY: Admission = {kind: frozenset(Role) for kind in Kind}
"""May send anything."""
HELLO = encode_frame(
    Kind.HELLO,
    encode_hello(CLIENT.identity, 1 << 20, 15_000, ProvenBy.SECRET, bytes(NONCE_BYTES)),
)


class Echo:
    """Answers every frame with itself."""

    def __init__(self) -> None:
        self.closed: list[Reason] = []

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        connection.send(kind, payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.closed.append(reason)


class Kept:
    """Keeps every frame, and lets a test wait for a number of them and for the end."""

    def __init__(self) -> None:
        self.frames: list[tuple[Kind, bytes]] = []
        self.closed: list[Reason] = []
        self._changed = asyncio.Event()

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        self.frames.append((kind, payload))
        self._changed.set()

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.closed.append(reason)
        self._changed.set()

    async def frames_come(self, count: int) -> list[tuple[Kind, bytes]]:
        await self.until(lambda: len(self.frames) >= count)
        return self.frames

    async def end_comes(self) -> Reason:
        await self.until(lambda: bool(self.closed))
        return self.closed[0]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


@dataclass
class World:
    """What one test opened."""

    servers: list[Server] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(
        self,
        on_connection: Callable[[Connection], Receiver],
        endpoint: ConnectionSettings = SERVER,
        admits: Admission = EVERYBODY,
    ) -> Server:
        server = await serve(LOOPBACK, on_connection, endpoint, admits=admits)
        self.servers.append(server)
        return server

    async def connect(
        self,
        server: Server | Address,
        on_connection: Callable[[Connection], Receiver] | None = None,
        endpoint: ConnectionSettings = CLIENT,
        deadline_s: float = 10,
    ) -> Connection:
        address = server.address if isinstance(server, Server) else server
        connection = await connect(
            address, on_connection or (lambda _: Kept()), endpoint, deadline_s=deadline_s
        )
        self.connections.append(connection)
        return connection

    async def raw(self, server: Server) -> "Raw":
        """A bare socket to the server, to say what no proper peer would say."""
        address = server.address
        reader, writer = await asyncio.open_connection(address.host, address.port)
        self.writers.append(writer)
        return Raw(reader, writer)

    async def close(self) -> None:
        for writer in self.writers:
            writer.close()
        for connection in self.connections:
            connection.close()
        async with asyncio.timeout(60):
            for connection in self.connections:
                await connection.wait_gone()
            for server in self.servers:
                await server.close()
            await asyncio.gather(*(writer.wait_closed() for writer in self.writers), return_exceptions=True)


class Raw:
    """A peer that writes any bytes and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def shake_hands(self, name: str = CLIENT.identity.id) -> None:
        """Prove to the server that this is its client of that name."""
        session = Session(
            replace(CLIENT.identity, id=name),
            is_connector=True,
            payload_bytes_max=1 << 20,
            idle_ms=15_000,
            expected=Expected(),
            credentials=SECRET,
            nonce=bytes(NONCE_BYTES),
        )
        async with asyncio.timeout(60):
            while session.agreed is None:
                self.writer.write(session.take_output())
                session.receive(await self.reader.read(1 << 16))
                assert session.reason is None, session.reason

    async def read_to_end(self) -> list[tuple[Kind, bytes]]:
        """Every frame until the server closes; fails when it does not."""
        async with asyncio.timeout(60):
            data = await self.reader.read(-1)
        decoder = FrameDecoder(1 << 20)
        decoder.feed(data)
        frames = []
        while (frame := decoder.take_one()) is not None:
            frames.append(frame)
        assert decoder.is_between_frames
        return frames

    async def goodbye(self) -> Reason:
        """The reason in the last frame, which must be the only Goodbye."""
        frames = await self.read_to_end()
        assert [kind for kind, _ in frames].count(Kind.GOODBYE) == 1
        assert frames[-1][0] is Kind.GOODBYE
        return read_goodbye(frames[-1][1])


def endpoint(role: Role, id: str = "x", *, domain: str = "test", **limits: float | int) -> ConnectionSettings:
    return ConnectionSettings(
        PeerIdentity(domain, role, id),
        limits=msgspec.structs.replace(Limits(), **limits),
        credentials=secret_of(domain),
    )


def run(main: Callable[[World], Awaitable[T]]) -> T:
    """Run a test's story in a world of its own."""

    async def story() -> T:
        world = World()
        try:
            # pytest's own timeout cannot interrupt uvloop.
            async with asyncio.timeout(60):
                return await main(world)
        finally:
            await world.close()

    return uvloop.run(story())


@contextmanager
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    """What is logged meanwhile, as in a program that has set up its log and wants every line."""
    structlog.reset_defaults()
    structlog.configure()
    try:
        with structlog.testing.capture_logs() as lines:
            yield lines
    finally:
        structlog.reset_defaults()
