"""The HTTP server with real connections: limits before there is a request, and certificates."""

import asyncio
import datetime
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from holdfast.net import Address, Role, Tls
from holdfast.net.certificates import create_domain, issue
from holdfast.web import app as app_module
from holdfast.web import http_connection
from holdfast.web.access import AccessPolicy
from holdfast.web.app import make_app
from holdfast.web.context import WebContext
from holdfast.web.coordinator import NoCoordinator
from holdfast.web.door import UvicornServer, bind
from holdfast.web.endpoint import Asked, Endpoint, Reply
from holdfast.web.metrics import Metrics
from holdfast.web.settings import HEAD_BYTES_MAX, Client, HttpSettings

BOUND_S = 60.0
"""Nothing here takes so long, on any machine."""
ASK = b"GET /who HTTP/1.1\r\nhost: localhost\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Work = Callable[[Callable[[], Awaitable[Streams]]], Awaitable[None]]


STAY = b"GET /stay HTTP/1.1\r\nhost: localhost\r\n\r\n"
MUCH = 32 << 20
"""More than both ends of a connection hold for whoever does not read."""

answering: list[object] = []


async def who(site: WebContext, asked: Asked) -> Reply:
    return Reply(asked.caller.name)


async def stay(site: WebContext, asked: Asked) -> Reply:
    answering.append(asked)
    await asyncio.Event().wait()
    return Reply("")


async def much(site: WebContext, asked: Asked) -> Reply:
    return Reply("x" * MUCH)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def served(
    work: Work,
    settings: HttpSettings | None = None,
    tls: ssl.SSLContext | None = None,
    client: ssl.SSLContext | None = None,
) -> None:
    """Run *work* against a server; *work* gets a function that connects."""

    async def run() -> None:
        site = WebContext(AccessPolicy(settings or HttpSettings(), "main"), Metrics(), NoCoordinator())
        answering.clear()
        app = make_app(
            site,
            [
                Endpoint("GET", "/who", "who", "Who", "Who.", who, str, "client"),
                Endpoint("POST", "/who", "tell", "Tell", "Tell.", who, str, "client", body=list[int]),
                Endpoint("GET", "/stay", "stay", "Stay", "Stay.", stay, str, "client"),
                Endpoint("GET", "/much", "much", "Much", "Much.", much, str, "client"),
            ],
        )
        listening = await bind(Address("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = UvicornServer(app, listening, tls)
        opened: list[asyncio.StreamWriter] = []

        async def connect() -> Streams:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
            opened.append(writer)
            return reader, writer

        try:
            async with asyncio.timeout(BOUND_S):
                await work(connect)
        finally:
            for writer in opened:
                writer.close()
            await asyncio.gather(*(writer.wait_closed() for writer in opened), return_exceptions=True)
            await server.close()

    asyncio.run(run())


async def said(streams: Streams, *sent: bytes) -> bytes:
    """Everything that arrives until the other end closes."""
    reader, writer = streams
    for each in sent:
        writer.write(each)
    answer = bytearray()
    with suppress(ConnectionError):  # an end that closes while we still send
        while chunk := await reader.read(1 << 16):
            answer += chunk
    return bytes(answer)


def problem_in(answer: bytes) -> str:
    body = answer.partition(b"\r\n\r\n")[2]
    code: str = msgspec.json.decode(body)["error"]["code"]
    return code


@pytest.mark.parametrize(
    "sent", [b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"y" * 2 * HEAD_BYTES_MAX, b"\x16\x03\x01\x00\x00"]
)
def test_what_is_no_http_is_told_so_and_hung_up_on(sent: bytes) -> None:
    """The answer has the same form as every problem; a head that does not end is cut off at the limit."""

    async def work(connect: Callable[[], Awaitable[Streams]]) -> None:
        answer = await said(await connect(), sent, b"\r\n\r\n")
        assert (answer[:12], problem_in(answer)) == (b"HTTP/1.1 400", "bad_http")

    served(work)


def test_whoever_connects_and_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """This also holds after a partial request, and after a request that was answered."""
    monkeypatch.setattr(http_connection, "HEAD_S", 0.2)

    async def work(connect: Callable[[], Awaitable[Streams]]) -> None:
        assert await said(await connect()) == b""
        assert await said(await connect(), ASK[:10]) == b""
        reader, writer = await connect()
        writer.write(ASK)
        assert (await reader.readuntil(b'"loopback"')).startswith(b"HTTP/1.1 200")
        assert await said((reader, writer), ASK[:10]) == b""

    served(work)


def test_only_so_many_connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """While all of them are being answered the next one is told why; when one has gone there is room."""
    monkeypatch.setattr(http_connection, "CONNECTIONS_MAX", 2)

    async def work(connect: Callable[[], Awaitable[Streams]]) -> None:
        kept = [await connect(), await connect()]
        for _, writer in kept:
            writer.write(STAY)
        await until(lambda: len(answering) == 2)
        assert problem_in(await said(await connect())) == "overloaded"
        kept[0][1].close()
        while True:  # until the server has noticed
            reader, writer = await connect()
            writer.write(ASK)
            if (await reader.readline()).startswith(b"HTTP/1.1 200"):
                break

    served(work)


DAWDLERS = {
    "says nothing": b"",
    "sends half a head": ASK[:20],
    "sends half a body": b"POST /who HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n"
    b"content-type: application/json\r\n\r\n[1,",
    "stays after its answer": ASK,
    "reads no answer": b"GET /much HTTP/1.1\r\nhost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("sent", DAWDLERS.values(), ids=DAWDLERS.keys())
def test_slow_clients_do_not_shut_the_door_for_others(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold all connections there are, and open new ones as soon as they lose one. Whoever sends a
    request is answered all the same."""
    monkeypatch.setattr(http_connection, "CONNECTIONS_MAX", 8)
    monkeypatch.setattr(app_module, "REQUESTS_MAX", 4)

    async def work(connect: Callable[[], Awaitable[Streams]]) -> None:
        for _ in range(20):
            _, writer = await connect()
            writer.write(sent)
        await asyncio.sleep(0.1)
        for _ in range(5):
            reader, writer = await connect()
            writer.write(ASK)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            _, slow = await connect()
            slow.write(sent)

    served(work)


def test_whoever_does_not_read_its_answer_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "UNREAD_S", 0.2)

    async def work(connect: Callable[[], Awaitable[Streams]]) -> None:
        reader, writer = await connect()
        writer.write(DAWDLERS["reads no answer"])
        await asyncio.sleep(1.0)
        received = 0
        with suppress(ConnectionError):
            while chunk := await reader.read(1 << 16):
                received += len(chunk)
        assert received < MUCH

    served(work)


@pytest.mark.parametrize(
    ("id", "token", "status"),
    [("card", "", 200), ("stranger", "", 401), (None, "secret", 200), (None, "", 401)],
)
def test_beyond_loopback_a_certificate_or_a_token_says_who_it_is(
    tmp_path: Path, id: str | None, token: str, status: int
) -> None:
    """Mutual TLS with certificates of `holdfast certs`; a client with a token needs no certificate."""
    now = datetime.datetime.now(datetime.UTC)
    create_domain(tmp_path, "main", now)
    issue(tmp_path, Role.HOST, "host1", now, addresses=("localhost",))
    for each in ("card", "stranger"):
        issue(tmp_path, Role.CLIENT, each, now)
    acceptor = Tls.load(tmp_path, Role.HOST, "host1").acceptor
    acceptor.verify_mode = ssl.CERT_OPTIONAL
    connector = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    connector.check_hostname = False
    if id is not None:
        connector.load_cert_chain(tmp_path / f"client-{id}.pem", tmp_path / f"client-{id}.key")
    digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"  # of "secret"
    clients = {"card": Client(), "bearer": Client(token_sha256=digest)}
    settings = HttpSettings(loopback="nobody", certs="certs", clients=clients)

    async def work(connect: Callable[[], Awaitable[Streams]]) -> None:
        reader, writer = await connect()
        authorization = f"authorization: Bearer {token}\r\n" if token else ""
        writer.write(f"GET /who HTTP/1.1\r\nhost: h\r\n{authorization}connection: close\r\n\r\n".encode())
        answer = await reader.read()
        assert int(answer[9:12]) == status
        if status == 200:
            assert answer.endswith(b'"card"' if id else b'"bearer"')

    served(work, settings, acceptor, connector)
