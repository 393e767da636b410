"""The connections between masters: one for each pair, none where people have cut, in order or not at all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from net_world import LOOPBACK, SECRET, run

from holdfast.directory.hosting.peer_links import PeerLinks
from holdfast.directory.replication.messages import Have, Message
from holdfast.model.ids import HostId
from holdfast.net import Address, ConnectionSettings, Kind, PeerIdentity, Role, connect, serve
from holdfast.net.handshake import Admission

A, B = HostId("a"), HostId("b")
ADMITS: Admission = {Kind.DIRECTORY: frozenset({Role.HOST})}


class Heard:
    """What a replica would hear."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def on_up(self, peer: str) -> None:
        self.events.append(("up", peer))

    def on_down(self, peer: str) -> None:
        self.events.append(("down", peer))

    def on_message(self, peer: str, message: Message) -> None:
        self.events.append((peer, message))

    async def until(self, count: int) -> list[object]:
        async with asyncio.timeout(60):
            while len(self.events) < count:
                await asyncio.sleep(0.005)
        return self.events


def settings(host: HostId) -> ConnectionSettings:
    return ConnectionSettings(PeerIdentity("test", Role.HOST, host, 1), credentials=SECRET)


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[PeerLinks, PeerLinks, Address]]:
    where: dict[HostId, Address] = {}
    made = {each: PeerLinks(each, settings(each), where.get, random=Random(1)) for each in (A, B)}
    servers = [await serve(LOOPBACK, made[each].accepted, settings(each), admits=ADMITS) for each in (A, B)]
    where |= {each: server.address for each, server in zip((A, B), servers, strict=True)}
    try:
        yield made[A], made[B], where[B]
    finally:
        for links in made.values():
            await links.shut()
        for server in servers:
            await server.close()


def test_one_connection_for_each_pair_that_carries_messages_both_ways() -> None:
    async def main(world: object) -> None:
        async with pair() as (a, b, _):
            at_a, at_b = Heard(), Heard()
            a.attach(at_a)
            b.attach(at_b)
            b.set_peers((A, B))
            a.set_peers((A, B))
            assert await at_a.until(1) == [("up", "b")]
            assert await at_b.until(1) == [("up", "a")]
            for number in range(3):
                a.send("b", Have("g", number))
                b.send("a", Have("g", 10 + number))
            assert (await at_b.until(4))[1:] == [("a", Have("g", number)) for number in range(3)]
            assert (await at_a.until(4))[1:] == [("b", Have("g", 10 + number)) for number in range(3)]
            # Ended here without a word, told there, and made again.
            b.close("a")
            b.send("a", Have("g", 99))  # to nobody
            assert (await at_a.until(6))[4:] == [("down", "b"), ("up", "b")]
            assert (await at_b.until(5))[4:] == [("up", "a")]

    run(main)


def test_a_cut_ends_the_connection_at_both_and_lets_no_new_one_be_made() -> None:
    async def main(world: object) -> None:
        async with pair() as (a, b, _):
            at_a, at_b = Heard(), Heard()
            a.attach(at_a)
            b.attach(at_b)
            for each in (a, b):
                each.set_peers((A, B))
            await at_a.until(1)
            await at_b.until(1)
            b.set_peers((B,))
            assert (await at_b.until(2))[1:] == [("down", "a")]
            assert ("down", "b") in await at_a.until(2)
            assert b.connected == ()
            await asyncio.sleep(0.2)  # A tries again and again, and is refused
            assert at_b.events == [("up", "a"), ("down", "a")]
            a.set_peers(())
            b.set_peers((A,))
            a.set_peers((B,))
            assert (await at_b.until(3))[2:] == [("up", "a")]

    run(main)


def test_whoever_sends_what_is_no_message_is_disconnected() -> None:
    async def main(world: object) -> None:
        async with pair() as (_, b, address):
            heard = Heard()
            b.attach(heard)
            b.set_peers((A,))
            connection = await connect(address, lambda _: Silent(), settings(A))
            await heard.until(1)
            connection.send(Kind.DIRECTORY, b"\xc1")
            assert await heard.until(2) == [("up", "a"), ("down", "a")]
            await connection.wait_gone()

    run(main)


class Silent:
    def on_frame(self, connection: object, kind: Kind, payload: bytes) -> None:
        return None

    def on_closed(self, connection: object, reason: object) -> None:
        return None
