"""Tests a client's connections to hosts that have several addresses."""

import asyncio

from net_world import CLIENT, Kept, World, run

from holdfast.calling.config import ClientConfig
from holdfast.calling.connections import HostConnections
from holdfast.model.calls import ToClient
from holdfast.model.ids import HostId
from holdfast.net import Connection

HOST = HostId("server")
RETRIES_S = 0.5
"""Long enough for a link that does not rest to try again several times."""


class Told:
    """The connected hosts, as the client was told."""

    def __init__(self) -> None:
        self.ups: list[HostId] = []
        self.downs: list[HostId] = []
        self.changed = asyncio.Event()

    def on_up(self, host: HostId) -> None:
        self.ups.append(host)
        self.changed.set()

    def on_down(self, host: HostId) -> None:
        self.downs.append(host)
        self.changed.set()

    def on_message(self, host: HostId, message: ToClient) -> None:
        return None


def test_the_same_process_at_a_second_address_is_left_alone_until_the_first_is_gone() -> None:
    """Each process has one connection. Its other addresses are not opened and closed again and again, and
    they serve when that connection ends."""

    async def story(world: World) -> None:
        receivers: list[list[Kept]] = [[], []]

        def keep(into: list[Kept], connection: Connection) -> Kept:
            into.append(Kept())
            return into[-1]

        first = await world.serve(lambda connection: keep(receivers[0], connection))
        second = await world.serve(lambda connection: keep(receivers[1], connection))
        told = Told()
        hosts = HostConnections(CLIENT, told, ClientConfig(), insecure=False)
        try:
            hosts.keep([first.address])
            await told.changed.wait()
            hosts.keep([first.address, second.address])
            while not receivers[1]:
                await asyncio.sleep(0.01)
            await receivers[1][0].end_comes()
            hosts.keep([first.address, second.address])
            await asyncio.sleep(RETRIES_S)
            assert [len(each) for each in receivers] == [1, 1]
            assert (told.ups, told.downs) == ([HOST], [])
            await first.close()
            while len(told.ups) < 2:
                told.changed.clear()
                await told.changed.wait()
            assert (told.ups, told.downs) == ([HOST, HOST], [HOST])
            assert len(receivers[1]) == 2
        finally:
            await hosts.close()

    run(story)
