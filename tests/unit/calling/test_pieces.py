"""Tests requests and replies that arrive in pieces, or only in part (FTC 27.2.8.3)."""

import asyncio
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
import uvloop
from call_server import Cluster
from net_world import CLIENT

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.client.domain import Domain
from holdfast.client.url import parse_url
from holdfast.net import Address

PIECES = (1, 3, 700, 20_000)
"""How many bytes are passed on at a time, in turn: less than a header, and more than a read."""
LONG = 1 << 20
MIDDLE = LONG // 2
"""The number of bytes after which a connection breaks; heartbeats alone never amount to so many."""


class Passage:
    """Passes bytes on to one host and back in pieces, and breaks off once where it is told."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self.left = {"requests": -1, "replies": -1}
        """The bytes left until it breaks off; negative if it never does."""
        self.broken: list[str] = []

    async def start(self) -> Address:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return Address("127.0.0.1", self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self._hang_up()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self._target.host, self._target.port)
        self._writers += [writer, there_writer]
        await asyncio.gather(
            self._pass("requests", reader, there_writer), self._pass("replies", there_reader, writer)
        )

    async def _pass(self, what: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for size in cycle(PIECES):
                data = await reader.read(size)
                left = self.left[what]
                if not data or 0 <= left < len(data):
                    break
                if left >= 0:
                    self.left[what] = left - len(data)
                writer.write(data)
                await writer.drain()
            if data:
                self.left[what] = -1
                self.broken.append(what)
        except ConnectionError:
            pass
        self._hang_up()

    def _hang_up(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.close()


class InPieces(Cluster):
    """Hosts that are reached only through passages."""

    async def __aenter__(self) -> "InPieces":
        await super().__aenter__()
        self.passages = {name: Passage(address) for name, address in self._addresses.items()}
        for name, passage in self.passages.items():
            self._addresses[name] = await passage.start()
        self.move_to("a")
        return self

    async def __aexit__(self, *_: object) -> None:
        for passage in self.passages.values():
            passage.close()
        await super().__aexit__()


def through(cluster: Cluster) -> Domain:
    """A client that knows of the passages: it would take them for somebody who squats the hosts' ports."""
    endpoint = replace(CLIENT, is_forwarded=True)
    addresses = parse_url(cluster.url)[1]
    return Domain(endpoint, addresses, CallPolicy(), ClientConfig(), insecure=False)


class Shelf:
    def __init__(self) -> None:
        self.kept: list[str] = []

    def keep(self, text: str) -> str:
        self.kept.append(text)
        return text


@pytest.mark.covers("FTC-113")
@pytest.mark.parametrize("broken", [[], ["requests"], ["replies"]], ids=str)
def test_what_comes_in_pieces_is_as_what_comes_whole(broken: list[str]) -> None:
    """The call is executed once and answered, even if the connection breaks in the middle of the request or
    of its reply. Half a request is none, and half a reply is sent again."""

    async def run() -> None:
        shelf = Shelf()
        async with asyncio.timeout(60), InPieces(shelf) as cluster, through(cluster) as domain:
            group: Any = await domain.group("ledger")
            assert await group.keep("short") == "short"
            for what in broken:
                cluster.passages["a"].left[what] = MIDDLE
            long = "x" * LONG
            assert await group.keep(long) == long
            assert [len(each) for each in shelf.kept] == [len("short"), LONG]
            assert cluster.passages["a"].broken == broken

    uvloop.run(run())
