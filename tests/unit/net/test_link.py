"""A link keeps one connection to a peer and reopens it whenever it ends."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from net_world import CLIENT, EVERYBODY, LOOPBACK, SERVER, Echo, Kept, World, run

from holdfast.model.backoff import Backoff
from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.net import Address, Connection, Kind, Link, Reason, Why, serve

QUICK = Backoff(first_ns=10 * MILLISECOND, most_ns=50 * MILLISECOND)


@asynccontextmanager
async def linked(where: list[Address | None], kept: list[Kept]) -> AsyncIterator[Link]:
    def on_up(_: object) -> Kept:
        kept.append(Kept())
        return kept[-1]

    link = Link("peer", lambda: where[0], on_up, CLIENT, random=Random(1), backoff=QUICK)
    try:
        yield link
    finally:
        await link.close()
    assert link.connection is None


async def until_up(link: Link) -> None:
    async with asyncio.timeout(60):
        while link.connection is None:
            await asyncio.sleep(0.005)


def test_a_link_follows_its_peer() -> None:
    """The peer has no address, then one, is gone, and comes back at another. Each time there is a new
    connection, whose frames go to a new receiver; sends while it is down are dropped and say so."""

    async def main(world: World) -> None:
        where: list[Address | None] = [None]
        kept: list[Kept] = []
        async with linked(where, kept) as link:
            await asyncio.sleep(0.05)
            assert not link.send(Kind.HEARTBEAT, b"dropped")
            for turn in range(3):
                server = await serve(LOOPBACK, lambda _: Echo(), SERVER, admits=EVERYBODY)
                where[0] = server.address
                link.hurry()
                await until_up(link)
                assert link.send(Kind.HEARTBEAT, b"%d" % turn)
                assert await kept[turn].frames_come(1) == [(Kind.HEARTBEAT, b"%d" % turn)]
                await server.close()
                assert (await kept[turn].end_comes()).why is Why.SHUTTING_DOWN
                assert link.connection is None

    run(main)


def test_a_peer_that_ends_every_connection_does_not_make_a_busy_loop() -> None:
    """A server that accepts and closes at once is retried with back-off."""

    async def main(world: World) -> None:
        accepted = 0

        def on_connection(connection: Connection) -> Kept:
            nonlocal accepted
            accepted += 1
            asyncio.get_running_loop().call_soon(connection.close, Reason(Why.REFUSED, "go away"))
            return Kept()

        server = await world.serve(on_connection)
        kept: list[Kept] = []
        began = asyncio.get_running_loop().time()
        async with linked([server.address], kept), asyncio.timeout(60):
            while accepted < 8:
                await asyncio.sleep(0.005)
        # After three tries, each pause is at least half of the longest.
        assert asyncio.get_running_loop().time() - began >= 4 * QUICK.most_ns / SECOND / 2
        assert all(one.closed[0].why is Why.REFUSED for one in kept[:-1])

    run(main)


def test_a_link_that_is_closed_in_the_middle_of_a_handshake_leaves_no_socket_behind() -> None:
    """The peer's process stands still: it accepts the connection and sends nothing."""

    async def main() -> None:
        taken = asyncio.Event()
        ends: list[asyncio.StreamWriter] = []
        served: set[asyncio.Task[Any] | None] = set()

        async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ends.append(writer)
            served.add(asyncio.current_task())
            taken.set()

        async with asyncio.timeout(30), await asyncio.start_server(say_nothing, "127.0.0.1") as server:
            host, port = server.sockets[0].getsockname()
            before = asyncio.all_tasks()
            link = Link("peer", lambda: Address(host, port), lambda _: Kept(), CLIENT, random=Random(1))
            await taken.wait()
            await link.close()
            await asyncio.sleep(0)  # what was cancelled ends
            left = asyncio.all_tasks() - before - served
            for end in ends:
                end.close()
            # One that goes on would be destroyed some day, with a complaint on standard error.
            assert not left

    asyncio.run(main())
    gc.collect()  # a socket that is still open now causes a warning, which fails the test


def test_a_link_leaves_no_socket_behind_that_a_silent_peer_holds_open() -> None:
    """One connection was given up and its peer does not answer the Goodbye; the next connection is open."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo())
        async with asyncio.timeout(30), linked([server.address], []) as link:
            await until_up(link)
            await asyncio.sleep(0)
            (theirs,) = server.connections
            assert theirs._transport is not None
            theirs._transport.pause_reading()  # as if its process stood still
            first = link.connection
            assert first is not None
            first.close()
            await until_up(link)
        gone = asyncio.create_task(first.wait_gone())
        await asyncio.sleep(0)
        is_gone = gone.done()
        theirs.abort()
        await gone
        assert is_gone

    run(main)


def test_a_link_that_would_be_plain_beyond_this_machine_says_so_and_stays_down() -> None:
    """It must not end with an exception that nobody sees, and it must not connect."""

    async def main(world: World) -> None:
        async with linked([Address("192.0.2.1", 7400)], []) as link:
            async with asyncio.timeout(60):
                while link.failure is None:
                    await asyncio.sleep(0.005)
            assert "192.0.2.1:7400 is not on this machine: it needs TLS" in link.failure
            assert "--insecure" in link.failure

    run(main)
