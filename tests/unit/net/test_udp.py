"""Datagrams on loopback: what is received, how much in one turn, and what the kernel drops."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.net import Address
from holdfast.net.udp import PER_TURN, Sender, UdpSocket, join_multicast, one_by_one, open_udp

LOOPBACK = Address("127.0.0.1", 0)
MULTICAST = "239.255.77.13"


class Heard:
    """What one socket received, and how many in each turn."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.senders: list[Sender] = []
        self.turns: list[int] = []

    def on_datagram(self, sender: Sender, data: bytes) -> None:
        self.data.append(data)
        self.senders.append(sender)

    def on_turn(self) -> None:
        self.turns.append(len(self.data) - sum(self.turns))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.data) < count:
                await asyncio.sleep(0.001)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await work()

    asyncio.run(main())


def opened(heard: Heard, buffer_bytes: int = 1 << 20) -> UdpSocket:
    return open_udp(LOOPBACK, one_by_one(heard.on_datagram), heard.on_turn, buffer_bytes=buffer_bytes)


def place(wire: UdpSocket) -> Sender:
    return wire.address.host, wire.address.port


def test_there_and_back() -> None:
    """Datagrams of all sizes arrive whole, with where they came from."""

    async def work() -> None:
        here, there = Heard(), Heard()
        one, other = opened(here), opened(there)
        sizes = (0, 1, 1_472, 60_000, 65_507)
        for size in sizes:
            one.send(place(other), b"x" * size)
        await there.until(len(sizes))
        assert [len(each) for each in there.data] == list(sizes)
        other.send(there.senders[0], b"back")
        await here.until(1)
        assert here.senders == [place(other)]
        one.close()
        other.close()
        one.send(place(other), b"nothing happens")

    run(work)


def test_a_flood_does_not_take_the_whole_loop() -> None:
    """In one turn so many datagrams are handed on and no more."""

    async def work() -> None:
        heard = Heard()
        one, other = opened(Heard()), opened(heard)
        for number in range(3 * PER_TURN):
            one.send(place(other), str(number).encode())
        await heard.until(3 * PER_TURN)
        assert max(heard.turns) == PER_TURN
        assert heard.data == [str(number).encode() for number in range(3 * PER_TURN)]
        one.close()
        other.close()

    run(work)


def test_what_the_kernel_drops_is_counted() -> None:
    async def work() -> None:
        heard = Heard()
        one, other = opened(Heard()), opened(heard, buffer_bytes=4_096)
        for _ in range(200):
            one.send(place(other), b"x" * 1_000)
        await asyncio.sleep(0.05)
        assert other.kernel_drops > 0
        assert other.received + other.kernel_drops == 200
        one.close()
        other.close()
        assert other.kernel_drops == 0

    run(work)


def test_multicast_on_loopback() -> None:
    """Every socket that joined hears the group; nobody who did not."""

    async def work() -> None:
        ears = [Heard(), Heard()]
        first = opened(Heard())
        group = Address(MULTICAST, first.address.port)  # a port that nobody else has
        joined = [join_multicast(group, "127.0.0.1", one_by_one(each.on_datagram)) for each in ears]
        first.multicast_on("127.0.0.1", 0)
        first.send((group.host, group.port), b"to all")
        for each in ears:
            await each.until(1)
            assert each.data == [b"to all"]
        for wire in (first, *joined):
            wire.close()

    run(work)


def test_what_cannot_be_opened() -> None:
    async def work() -> None:
        heard = Heard()
        one = opened(heard)
        with pytest.raises(Unavailable):
            open_udp(one.address, one_by_one(heard.on_datagram))
        with pytest.raises(InvalidRequest):
            join_multicast(Address("127.0.0.1", 5), "127.0.0.1", one_by_one(heard.on_datagram))
        with pytest.raises(Unavailable):
            join_multicast(Address(MULTICAST, 5_007), "203.0.113.9", one_by_one(heard.on_datagram))
        one.close()

    run(work)
