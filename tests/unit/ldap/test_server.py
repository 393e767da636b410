"""The door on sockets: who is let in, who is left, and what becomes of the rest when it closes."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Awaitable, Callable

import pytest
import uvloop
from ldap_session import Door

from holdfast.directory.results import ResultCode
from holdfast.ldap.ber import Splitter
from holdfast.ldap.decoding import decode
from holdfast.ldap.encoding import encode
from holdfast.ldap.extended import START_TLS, WHO_AM_I
from holdfast.ldap.limits import DoorLimits
from holdfast.ldap.messages import ExtendedRequest, ExtendedResponse, Message
from holdfast.ldap.server import LdapServer

HOST = "127.0.0.1"


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._splitter = Splitter(1 << 20)

    @classmethod
    async def connect(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection(HOST, port))

    async def receive(self) -> ExtendedResponse | None:
        while (data := self._splitter.take()) is None:
            arrived = await asyncio.wait_for(self.reader.read(65536), 60)
            if not arrived:
                return None
            self._splitter.feed(arrived)
        operation = decode(data).operation
        assert isinstance(operation, ExtendedResponse)
        return operation

    async def ask(self, name: str = WHO_AM_I) -> ExtendedResponse | None:
        self.writer.write(encode(Message(1, ExtendedRequest(name))))
        return await self.receive()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it never came to be"
        await asyncio.sleep(0.01)


def serve(
    test: Callable[[LdapServer, int], Awaitable[None]],
    limits: DoorLimits | None = None,
    context: ssl.SSLContext | None = None,
) -> None:
    """Run *test* against a door on a free port, on both loops that there are."""

    async def run() -> None:
        door = Door(limits)
        server = LdapServer(door.service, asyncio.get_running_loop(), context)
        port = await server.listen(HOST, 0)
        try:
            await test(server, port)
        finally:
            await server.close()

    for make in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(run())


def code(answer: ExtendedResponse | None) -> int:
    assert answer is not None
    return int(answer.result.code)


def test_one_client_too_many_is_told_so_and_left() -> None:
    async def test(server: LdapServer, port: int) -> None:
        first, second = await Client.connect(port), await Client.connect(port)
        assert code(await first.ask()) == code(await second.ask()) == ResultCode.SUCCESS
        third = await Client.connect(port)
        assert code(await third.receive()) == ResultCode.BUSY
        assert await third.receive() is None
        await third.close()
        await first.close()
        await until(lambda: server.service.connections == 1)
        fourth = await Client.connect(port)
        assert code(await fourth.ask()) == ResultCode.SUCCESS
        await fourth.close()
        await second.close()

    serve(test, DoorLimits(connections=2))


def test_who_says_nothing_for_long_is_left_with_a_notice() -> None:
    """The door's clock is the test's: nobody waits a quarter of an hour."""

    async def test(server: LdapServer, port: int) -> None:
        client = await Client.connect(port)
        assert code(await client.ask()) == ResultCode.SUCCESS
        (connection,) = server.clients
        connection.heard -= server.service.limits.idle_s + 1
        assert code(await client.receive()) == ResultCode.UNAVAILABLE
        assert await client.receive() is None
        await client.close()

    serve(test)


def test_a_client_that_never_reads_is_left() -> None:
    async def test(server: LdapServer, port: int) -> None:
        client = await Client.connect(port)
        assert code(await client.ask()) == ResultCode.SUCCESS
        (connection,) = server.clients
        connection.pause_writing()
        connection.slow_since = -1.0 - server.service.limits.slow_s
        await until(lambda: server.service.connections == 0)
        await client.close()

    serve(test)


def test_a_failed_handshake_leaves_nothing_behind() -> None:
    async def test(server: LdapServer, port: int) -> None:
        client = await Client.connect(port)
        assert code(await client.ask(START_TLS)) == ResultCode.SUCCESS
        client.writer.write(b"this is no TLS at all" * 10)
        await until(lambda: server.service.connections == 0)
        await client.close()

    serve(test, context=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


def test_clients_are_told_when_the_door_closes() -> None:
    async def test(server: LdapServer, port: int) -> None:
        client = await Client.connect(port)
        assert code(await client.ask()) == ResultCode.SUCCESS
        await server.close()
        assert code(await client.receive()) == ResultCode.UNAVAILABLE
        assert await client.receive() is None
        await client.close()
        with pytest.raises(OSError):
            await Client.connect(port)

    serve(test)
