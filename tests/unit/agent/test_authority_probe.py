"""Whoever starts a domain whose authority is not there is told so."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from holdfast.agent.authority_probe import why_none_answers

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    writer.close()


async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


def probed(serve: Serve | None, *more: str, scheme: str = "http") -> str | None:
    async def run() -> str | None:
        if serve is None:
            return await why_none_answers([f"{scheme}://127.0.0.1:{free_port()}", *more])
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await why_none_answers([f"{scheme}://127.0.0.1:{port}", *more], within_s=0.2)

    return asyncio.run(run())


def test_an_endpoint_that_answers_is_enough() -> None:
    assert probed(answering, f"http://127.0.0.1:{free_port()}") is None


def test_each_endpoint_is_named_with_its_reason() -> None:
    away = f"127.0.0.1:{free_port()}"
    said = probed(None, away, "http://127.0.0.1:99999")
    assert said is not None
    assert said.count("refused") == 2
    assert f"; {away}: " in said
    assert "99999" in said


def test_an_endpoint_that_hangs_is_not_waited_for() -> None:
    said = probed(mute)
    assert said is not None
    assert said.endswith("takes connections and does not answer")


@pytest.mark.parametrize("scheme", ["https", "holdfast"])
def test_where_strangers_are_told_nothing_a_connection_is_enough(scheme: str) -> None:
    assert probed(mute, scheme=scheme) is None
