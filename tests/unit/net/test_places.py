"""The places of a server, and the memory that it lends to unfinished frames."""

import asyncio
from itertools import count

import pytest
from net_world import Echo, Kept, World, endpoint, run

from holdfast.net import Kind, Limits, NotConnected, PeerIdentity, Role, Server, Why
from holdfast.net.frame import FREE_BYTES, HEADER, HEADER_BYTES
from holdfast.net.frame_memory import PEERS_MIN, WAITING_MAX, FrameMemory, MemoryLoan
from holdfast.net.places import Places

MIB = 1 << 20


def test_clients_take_no_place_of_members_and_one_client_not_all_places() -> None:
    """A place is free again when its peer has left."""
    places = Places(Limits(connections_max=3, of_one_client_max=2, members_max=1))
    one, other = (PeerIdentity("test", Role.CLIENT, name) for name in ("one", "other"))
    host, agent = PeerIdentity("test", Role.HOST, "h"), PeerIdentity("test", Role.AGENT, "a")
    assert places.take(one) is places.take(one) is None
    refusals = [places.take(one)]
    assert places.take(other) is None
    refusals.append(places.take(other))
    assert places.take(host) is None
    refusals.append(places.take(agent))
    assert [each.message if each else None for each in refusals] == [
        "client one has 2 connections here",
        "3 clients are connected here",
        "1 hosts, agents and admins are connected here",
    ]
    places.leave(one)
    places.leave(host)
    assert places.take(other) is places.take(agent) is None


def test_a_host_comes_in_though_clients_and_strangers_fill_the_server() -> None:
    """Clients fill their places, strangers theirs: a host is connected at once, and a new client is told that
    there is no place."""

    async def main(world: World) -> None:
        server = await world.serve(
            lambda _: Echo(), endpoint(Role.HOST, connections_max=5, handshakes_max=20)
        )
        for _ in range(5):
            await world.connect(server)
        strangers = [await world.raw(server) for _ in range(60)]
        host = await world.connect(server, endpoint=endpoint(Role.HOST, "other"))
        assert host.is_open
        with pytest.raises(NotConnected, match="5 clients are connected here") as caught:
            await world.connect(server)
        assert caught.value.reason.why is Why.TOO_MANY_CONNECTIONS
        async with asyncio.timeout(60):
            assert b"others wait to say who they are" in await strangers[0].reader.read()
        assert len(server.connections) == 6

    run(main)


def test_a_client_that_asks_for_nothing_is_let_go() -> None:
    """Its connection is alive, but nobody calls. One that has called, and a host, may rest."""

    async def main(world: World) -> None:
        server = await world.serve(lambda _: Echo(), endpoint(Role.HOST, first_frame_s=0.2))
        idle, calling, host = Kept(), Kept(), Kept()
        await world.connect(server, lambda _: idle)
        (await world.connect(server, lambda _: calling)).send(Kind.STATUS_REQUEST, b"1")
        await world.connect(server, lambda _: host, endpoint(Role.HOST, "other"))
        reason = await idle.end_comes()
        assert (reason.why, reason.message) == (Why.IDLE, "nothing was asked within 0.2 s")
        await asyncio.sleep(0.3)
        assert (calling.closed, host.closed) == ([], [])

    run(main)


class Told:
    """One borrower, and what it was told."""

    numbers = count(1)

    def __init__(self, memory: FrameMemory, name: str = "") -> None:
        self.waits: list[bool] = []
        self.now = 0.0
        peer = (Role.CLIENT, name or f"client {next(self.numbers)}")
        self.loan = MemoryLoan(memory, peer, self.waits.append, lambda: self.now, 30.0)


def test_memory_is_lent_in_turn_and_never_beyond_the_budget() -> None:
    """Who finds too little waits; who comes later waits behind it, though its own frame would fit."""
    memory = FrameMemory(100)
    first, second, third = Told(memory), Told(memory), Told(memory)
    assert first.loan.on_long(60) is second.loan.on_long(50) is third.loan.on_long(10) is None
    assert (first.waits, second.waits, third.waits) == ([False], [True], [True])
    assert first.loan.on_long(0) is None
    assert (second.waits, third.waits) == ([True, False], [True, False])
    assert memory.free_bytes == 40
    second.loan.end()
    third.loan.end()
    third.loan.end()
    assert memory.free_bytes == 100


def test_too_many_that_wait_and_too_slow_ones_must_go() -> None:
    memory = FrameMemory(100)
    holder = Told(memory)
    holder.loan.on_long(100)
    waiting = [Told(memory) for _ in range(WAITING_MAX)]
    assert [each.loan.on_long(50) for each in waiting] == [None] * WAITING_MAX
    refused = Told(memory).loan.on_long(50)
    assert refused is not None
    assert refused.why is Why.NO_MEMORY
    holder.now = 30.0
    assert holder.loan.overdue() is None
    holder.now = 31.0
    overdue = holder.loan.overdue()
    assert overdue is not None
    assert overdue.why is Why.TOO_SLOW
    assert waiting[0].loan.overdue() is None  # who waits for memory is not the one that is slow


def test_one_peer_has_its_share_of_the_budget_and_of_the_places_to_wait() -> None:
    """However many connections it opens: others borrow past it, and wait behind each other only."""
    memory = FrameMemory(100)
    greedy = [Told(memory, "greedy") for _ in range(3 + WAITING_MAX)]
    told = [each.loan.on_long(12) for each in greedy]
    lent = [each for each in greedy if each.waits == [False]]
    assert len(lent) == 2
    assert memory.free_bytes == 76
    refused = [each for each in told if each is not None]
    assert {each.why for each in refused} == {Why.NO_MEMORY}
    assert len([each for each in greedy if each.waits == [True]]) == WAITING_MAX // PEERS_MIN
    other = Told(memory)
    assert other.loan.on_long(70) is None
    assert other.waits == [False]
    lent[0].loan.end()
    assert [each.waits for each in greedy].count([True, False]) == 1
    assert memory.free_bytes == 6


def test_a_frame_longer_than_a_share_is_lent_to_who_has_nothing_else() -> None:
    memory = FrameMemory(100)
    long, more = Told(memory, "one"), Told(memory, "one")
    assert long.loan.on_long(90) is more.loan.on_long(5) is None
    assert (long.waits, more.waits) == ([False], [True])
    long.loan.end()
    assert more.waits == [True, False]


def test_a_thousand_machines_have_places() -> None:
    """Two connections of each host, one of each agent, at a server that is full of clients."""
    places = Places(Limits())
    names = (PeerIdentity("test", Role.CLIENT, f"c{number}") for number in count())
    assert next(refused for name in names if (refused := places.take(name)) is not None)
    for machine in range(1_000):
        for role, name in ((Role.HOST, "h"), (Role.HOST, "h"), (Role.AGENT, "a")):
            assert places.take(PeerIdentity("test", role, f"{name}{machine}")) is None
    assert places.take(PeerIdentity("test", Role.ADMIN, "cli")) is None


def memory_of(server: Server) -> int:
    return server.clients_memory.free_bytes


def test_unfinished_frames_of_all_clients_share_one_budget() -> None:
    """Two frames fit; the third is read when one of them is complete. A connection that ends gives back what
    it had, and short frames need nothing."""

    async def main(world: World) -> None:
        kept, length = Kept(), 3 * MIB
        limits = {"frame_bytes_max": 4 * MIB, "unfinished_bytes_max": 8 * MIB}
        server = await world.serve(lambda _: kept, endpoint(Role.HOST, **limits))
        peers = [await world.raw(server) for _ in range(4)]
        for number, peer in enumerate(peers):
            await peer.shake_hands(f"client-{number}")
        for peer in peers[:3]:
            peer.writer.write(HEADER.pack(length, Kind.STATUS_REQUEST) + b"x" * (length - 1))
        free = 8 * MIB - 2 * (length + HEADER_BYTES)
        async with asyncio.timeout(60):
            while memory_of(server) != free:
                await asyncio.sleep(0.01)
        peers[3].writer.write(HEADER.pack(FREE_BYTES - HEADER_BYTES, Kind.STATUS_REPLY) + b"y" * 10)
        await asyncio.sleep(0.1)
        assert memory_of(server) == free
        for peer in peers[:3]:
            peer.writer.write(b"x")
        await kept.frames_come(3)
        assert [len(payload) for _, payload in kept.frames] == [length] * 3
        assert memory_of(server) == 8 * MIB
        peers[0].writer.write(HEADER.pack(length, Kind.STATUS_REQUEST) + b"x" * MIB)
        async with asyncio.timeout(60):
            while memory_of(server) == 8 * MIB:
                await asyncio.sleep(0.01)
            peers[0].writer.transport.abort()
            while memory_of(server) != 8 * MIB:
                await asyncio.sleep(0.01)

    run(main)
